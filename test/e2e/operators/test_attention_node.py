"""ONNX's Attention follows its specification in the cases that a formula leaves
open.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

SHAPE = [2, 3, 4, 5]  # batch, heads, tokens, size
HIDDEN = np.zeros((4, 4), bool)
HIDDEN[1] = True


def attention(mask, opset=23, results=("y",), **attributes):
    """Returns self-attention of x, scaled by a parameter."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["q"], "scaled"),
        helper.make_node(
            "Attention", ["q", "x", "x", "mask"], results, "attention", **attributes
        ),
    ]
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, SHAPE)},
        {"y": (np.float32, SHAPE)},
        {"w": np.full(5, 0.5, np.float32), "mask": mask},
        opset=opset,
    )


def make_x():
    return np.random.RandomState(0).normal(size=SHAPE).astype(np.float32)


MASKS = {
    "boolean": ~HIDDEN,
    "added": np.where(HIDDEN, -np.inf, 0).astype(np.float32),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("is_one_op", [True, False])
def test_a_query_that_sees_no_key_gets_zeros(mask, is_one_op, tmp_path):
    """PyTorch exports such attention as this node and gives zeros."""
    extra = {} if is_one_op else {"softmax_precision": 11}
    model = attention(MASKS[mask], **extra)
    found = mpctest.run(model, {"x": make_x()}, tmp_path)["y"]
    assert np.isfinite(found).all()
    assert (found[:, :, 1] == 0).all()
    assert (found[:, :, [0, 2, 3]] != 0).all()


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_its_gradient_is_zero(precision, tmp_path):
    data = {"x": make_x(), "target": np.zeros(SHAPE, np.float32)}
    metrics, weights = mpctest.train(
        attention(MASKS["boolean"]),
        data,
        tmp_path,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", "1", "--train", "w"),
        *("--max-steps", "3", "--precision", precision),
    )
    losses = mpctest.losses(metrics)
    assert np.isfinite(weights["w"]).all()
    assert losses[2] < losses[0]


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("opset", [23, 24, 25])
def test_a_cap_is_in_front_of_a_bias(opset, tmp_path):
    """The cap therefore does not reveal hidden keys."""
    x = make_x()
    bias = np.random.RandomState(1).normal(size=[4, 4]).astype(np.float32)
    bias[2, 1] = -np.inf
    model = attention(bias, opset, scale=1.0, softcap=0.5)
    found = mpctest.run(model, {"x": x}, tmp_path)["y"]
    scores = x * 0.5 @ x.swapaxes(2, 3)
    expected = softmax(np.tanh(scores / 0.5) * 0.5 + bias) @ x
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [23, 25])
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_scores_of_each_mode(mode, opset, tmp_path):
    """Covers raw scores, scores after the cap, scores after the bias, and the
    weights."""
    x = make_x()
    bias = np.random.RandomState(1).normal(size=[4, 4]).astype(np.float32)
    model = attention(
        bias,
        opset,
        results=("y", "", "", "scores"),
        scale=1.0,
        softcap=0.5,
        qk_matmul_output_mode=mode,
    )
    model.graph.output.append(
        helper.make_tensor_value_info("scores", 1, [2, 3, 4, 4])
    )
    found = mpctest.run(model, {"x": x}, tmp_path)["scores"]
    raw = x * 0.5 @ x.swapaxes(2, 3)
    capped = np.tanh(raw / 0.5) * 0.5
    expected = [raw, capped, capped + bias, softmax(capped + bias)][mode]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


WINDOWS = {
    "left": {"left_window_size": 1},
    "right": {"right_window_size": 0},
    "both": {"left_window_size": 0, "right_window_size": 1},
    "causal": {"left_window_size": 1, "is_causal": 1},
    "far": {"left_window_size": 2**62, "right_window_size": 2**62},
}


def in_window(places, keys, left=-1, right=-1, causal=0):
    """Returns a mask of the `keys` that a query at each of `places` sees."""
    distance = places[..., None] - np.arange(keys)
    seen = np.ones(distance.shape, bool)
    if left >= 0:
        seen &= distance <= left
    if right >= 0:
        seen &= -distance <= right
    return seen & (distance >= 0) if causal else seen


def window_of(attributes):
    return {
        "left": attributes.get("left_window_size", -1),
        "right": attributes.get("right_window_size", -1),
        "causal": attributes.get("is_causal", 0),
    }


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("is_one_op", [True, False])
def test_windows_of_opset_25(name, is_one_op, tmp_path):
    """A query sees only keys near its position that the mask shows."""
    shown = np.ones((4, 4), bool)
    shown[3, 3] = False
    extra = {} if is_one_op else {"softmax_precision": 11}
    model = attention(shown, opset=25, **WINDOWS[name], **extra)
    x = make_x()
    found = mpctest.run(model, {"x": x}, tmp_path)["y"]
    seen = in_window(np.arange(4), 4, **window_of(WINDOWS[name])) & shown
    scores = x * 0.5 @ x.swapaxes(2, 3) / np.sqrt(5)
    weights = np.where(seen, np.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    expected = weights / np.where(total == 0, 1, total) @ x
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("cache", ["past", "lengths"])
def test_windows_are_behind_a_cache(name, cache, tmp_path):
    """With a past, the first query follows the past. With lengths, the last
    query is a sample's last key. Two heads of queries share one head of
    keys."""
    random = np.random.RandomState(2)
    x = random.normal(size=[2, 2, 3, 5]).astype(np.float32)
    keys = random.normal(size=[2, 1, 7, 5]).astype(np.float32)
    inputs = {"q": x, "k": keys, "v": keys}
    names = ["q", "k", "v", ""]
    places = np.broadcast_to(4 + np.arange(3), (2, 3))
    lengths = np.array([7, 7])
    if cache == "past":
        inputs = {"q": x, "k": keys[:, :, 4:], "past": keys[:, :, :4]}
        names = ["q", "k", "k", "", "past", "past"]
    else:
        lengths = np.array([5, 7])
        inputs["lengths"] = lengths
        names += ["", "", "lengths"]
        places = lengths[:, None] - 3 + np.arange(3)
    node = helper.make_node("Attention", names, ["y"], "attention", **WINDOWS[name])
    model = mpctest.make_model(
        [node],
        {key: (value.dtype, value.shape) for key, value in inputs.items()},
        {"y": (np.float32, x.shape)},
        {},
        opset=25,
    )
    found = mpctest.run(model, inputs, tmp_path)["y"]
    seen = in_window(places, 7, **window_of(WINDOWS[name]))
    seen &= np.arange(7) < lengths[:, None, None]
    scores = x @ keys.swapaxes(2, 3) / np.sqrt(5)
    weights = np.where(seen[:, None], np.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    expected = weights / np.where(total == 0, 1, total) @ keys
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_causal", [0, 1])
@pytest.mark.parametrize("heads", [1, 3])
def test_the_last_query_sees_all_keys_that_there_are(heads, is_causal, tmp_path):
    """The cache is filled outside the model, with a length per sample."""
    random = np.random.RandomState(0)
    queries = random.normal(size=[2, 3, 2, 5]).astype(np.float32)
    keys = random.normal(size=[2, heads, 6, 5]).astype(np.float32)
    lengths = np.array([4, 6], np.int64)
    nodes = [
        helper.make_node(
            "Attention",
            ["q", "k", "k", "", "", "", "lengths"],
            ["y"],
            is_causal=is_causal,
        )
    ]
    model = mpctest.make_model(
        nodes,
        {
            "q": (np.float32, queries.shape),
            "k": (np.float32, keys.shape),
            "lengths": (np.int64, [2]),
        },
        {"y": (np.float32, queries.shape)},
        {},
        opset=24,
    )
    inputs = {"q": queries, "k": keys, "lengths": lengths}
    found = mpctest.run(model, inputs, tmp_path)["y"]
    for sample, length in enumerate(lengths):
        k = np.repeat(keys[sample, :, :length], 3 // heads, 0)
        scores = queries[sample] @ k.swapaxes(1, 2) / 5**0.5
        if is_causal:
            seen = np.tril(np.ones([2, length], bool), length - 2)
            scores = np.where(seen, scores, -np.inf)
        np.testing.assert_allclose(
            found[sample], softmax(scores) @ k, rtol=1e-5, atol=1e-6
        )


def flex_attention(x, score_mod=None, prob_mod=None):
    """Returns self-attention of x, scaled by a parameter w. `score_mod` and
    `prob_mod` are graphs given as (nodes, constants)."""
    size = ["B", "H", "L", "S"]
    node = helper.make_node(
        "FlexAttention", ["q", "x", "x"], ["y"], "flex", domain="ai.onnx.preview"
    )
    for name, body in (("score_mod", score_mod), ("prob_mod", prob_mod)):
        if body is None:
            continue
        graph = helper.make_graph(
            [body],
            name,
            [helper.make_tensor_value_info("given", 1, size)],
            [helper.make_tensor_value_info("changed", 1, size)],
        )
        node.attribute.append(helper.make_attribute(name, graph))
    nodes = [helper.make_node("Mul", ["x", "w"], ["q"], "scaled"), node]
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, x.shape)},
        {"y": (np.float32, x.shape)},
        {"w": np.full(5, 0.5, np.float32), "bias": BIAS},
        opset=26,
    )


BIAS = np.random.RandomState(3).normal(size=[4, 4]).astype(np.float32)
ADD = helper.make_node("Add", ["given", "bias"], ["changed"])
SQUARE = helper.make_node("Mul", ["given", "given"], ["changed"])


@pytest.mark.parametrize("changes", ["scores", "weights"])
def test_graphs_change_scores_and_weights(changes, tmp_path):
    """Values that the graphs read from outside are trained."""
    x = make_x()
    is_scores = changes == "scores"
    model = flex_attention(x, ADD, None if is_scores else SQUARE)

    def forward(bias):
        weights = softmax(x * 0.5 @ x.swapaxes(2, 3) / 5**0.5 + bias)
        return (weights if is_scores else weights**2) @ x

    found = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_allclose(found, forward(BIAS), rtol=1e-5, atol=1e-6)
    # Compare the gradient with finite differences.
    data = {"x": x, "target": np.zeros(SHAPE, np.float32)}
    flags = ["--loss", "mse", "--optimizer", "sgd", "--lr", "1", "--train", "bias"]
    _, weights = mpctest.train(
        model, data, tmp_path, *flags, "--batch-size", "2", "--max-steps", "1"
    )
    x, bias = x.astype(np.float64), BIAS.astype(np.float64)
    for place in ((0, 0), (2, 1)):
        step = np.zeros([4, 4])
        step[place] = 1e-5
        losses = [(forward(bias + s * step) ** 2).mean() for s in (1, -1)]
        gradient = (losses[0] - losses[1]) / 2e-5
        np.testing.assert_allclose(
            BIAS[place] - weights["bias"][place], gradient, rtol=1e-3, atol=1e-5
        )


def test_a_graph_that_changes_the_shape_is_refused(tmp_path):
    shrink = helper.make_node("ReduceSum", ["given"], ["changed"])
    onnx.save(flex_attention(make_x(), shrink), tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1
    assert "expected 'score_mod' to give float[2,3,4,4]" in process.stdout
