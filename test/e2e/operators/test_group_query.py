"""com.microsoft's GroupQueryAttention works where ONNX Runtime has no
reference: sinks, lengths that are data, and training.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest
from test_fused_ops import (
    BATCH,
    GROUP_PAST,
    GROUPED,
    GROUPS,
    MICROSOFT,
    PAST,
    SIZE,
    TOKENS,
    TURNS,
    WHOLE,
    Case,
    K,
    Q,
    V,
    X,
    make,
    normal,
    run_reference,
)


@pytest.mark.parametrize("biased", [False, True])
def test_a_head_may_have_a_sink(biased, tmp_path):
    """The sink adds to the head's softmax, and has no value."""
    sinks = np.float32([-1, 0, 1, 2])
    bias = normal(1, 1, TOKENS, TOKENS) if biased else None
    case = Case("GroupQueryAttention", [*GROUPED, *[None] * 3, bias, sinks], GROUPS)
    found = mpctest.run(make(case), {"i0": Q}, tmp_path)["o0"]
    query, key, value = (
        x.astype(np.float64).reshape(BATCH, TOKENS, n, -1).swapaxes(1, 2)
        for x, n in ((Q, 4), (K, 2), (V, 2))
    )
    key, value = key.repeat(2, 1), value.repeat(2, 1)
    scores = query @ key.swapaxes(2, 3) / query.shape[-1] ** 0.5
    scores = scores + (bias if biased else 0)
    scores = np.where(np.tri(TOKENS, dtype=bool), scores, -np.inf)
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True) + np.exp(sinks).reshape(4, 1, 1)
    expected = (weights @ value).swapaxes(1, 2).reshape(BATCH, TOKENS, -1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("past", [False, True])
def test_lengths_are_data(past, tmp_path):
    """Tokens beyond a sample's length are padding, which no other token sees.
    The lengths also say how much of the past is filled."""
    lengths = np.array([3, TOKENS], np.int64) - 1
    tokens, names = TOKENS, ["i0", "i1", "i2", "", "", "lengths", "total"]
    arrays = {"i1": K, "i2": V, "total": np.array(TOKENS, np.int32)}
    query = Q
    if past:
        lengths, tokens, query = np.array([2, PAST], np.int64), 1, Q[:, :1]
        names[3:5] = ["i3", "i4"]
        arrays = {"i1": K[:, :1], "i2": V[:, :1], "total": arrays["total"]}
        arrays.update(zip(("i3", "i4"), GROUP_PAST))
    arrays.update(cos=np.cos(TURNS), sin=np.sin(TURNS))
    node = helper.make_node(
        "GroupQueryAttention",
        [*names, "cos", "sin"],
        ["o0"],
        domain=MICROSOFT,
        do_rotary=1,
        local_window_size=2,
        **GROUPS,
    )
    model = mpctest.make_model(
        [node],
        {"i0": (np.float32, query.shape), "lengths": (np.int32, [BATCH])},
        {"o0": (np.float32, query.shape)},
        arrays,
    )
    inputs = {"i0": query, "lengths": lengths.astype(np.int32)}
    found = mpctest.run(model, inputs, tmp_path)["o0"]
    assert np.isfinite(found).all()
    if past:
        arrays["total"][()] = PAST + 1
        node.output.extend(["o1", "o2"])
    reference = mpctest.make_model(
        [node],
        {"i0": (np.float32, query.shape), "lengths": (np.int32, [BATCH])},
        {"o0": (np.float32, query.shape)},
        arrays,
    )
    node.output.extend([] if past else ["o1", "o2"])
    reference.graph.node[0].CopyFrom(node)
    expected = run_reference(reference, inputs)["o0"]
    for sample, length in enumerate(lengths + 1):
        own = slice(0, min(length, tokens))
        np.testing.assert_allclose(
            found[sample, own], expected[sample, own], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_grouped_queries_train(precision, tmp_path):
    """The projection before the node learns."""
    weights = normal(SIZE, 128) / 4
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["qkv"]),
        helper.make_node(
            "GroupQueryAttention",
            ["qkv", "", "", "", "", "lengths", "total", "cos", "sin"],
            ["y", "key", "value"],
            domain=MICROSOFT,
            do_rotary=1,
            **GROUPS,
        ),
    ]
    constants = dict(zip(("lengths", "total"), WHOLE))
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, X.shape)},
        {"y": (np.float32, [BATCH, TOKENS, 64])},
        {"w": weights, **constants, "cos": np.cos(TURNS), "sin": np.sin(TURNS)},
    )
    metrics, trained = mpctest.train(
        model,
        {"x": X, "target": Q},
        tmp_path,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", 0.5),
        *("--batch-size", BATCH, "--epochs", 6, "--precision", precision),
    )
    losses = mpctest.losses(metrics)
    assert losses[-1] < losses[0] * 0.95
    assert not np.allclose(trained["w"], weights)
    np.testing.assert_array_equal(trained["cos"], np.cos(TURNS))
