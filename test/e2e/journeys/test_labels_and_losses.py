"""A user tries labels of every type, and losses by flags and in the graph.
Equal meanings give equal runs, and mpc refuses nonsense.

SPDX-License-Identifier: Apache-2.0
"""

import io

import journey
import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

SAMPLES = 64
CROSS_ENTROPY = ["--loss", "softmax_cross_entropy"]
RUN = ["--batch-size", 16, "--epochs", 2, "--optimizer", "adam"]


def features():
    random = np.random.default_rng(0)
    x = random.normal(size=(SAMPLES, 4)).astype(np.float32)
    return x, np.argmax(x[:, :3], axis=1)


def final(model, data, folder, *flags):
    """Returns the losses of a run and its weights, as bits."""
    metrics, weights = mpctest.train(model, data, folder, *RUN, *flags)
    return mpctest.losses(metrics), {k: v.tobytes() for k, v in weights.items()}


def test_labels_of_every_type(tmp_path):
    x, target = features()
    model = journey.perceptron()
    runs = []
    for i, dtype in enumerate(("i8", "u1", ">i4", "f4", ">f8")):
        data = {"x": np.asfortranarray(x), "target": target.astype(dtype)}
        runs.append(final(model, data, tmp_path / str(i), *CROSS_ENTROPY))
    packed = io.BytesIO()
    np.savez_compressed(packed, x=x.astype(">f4"), target=target)
    (tmp_path / "packed.npz").write_bytes(packed.getvalue())
    runs.append(final(model, tmp_path / "packed.npz", tmp_path / "p", *CROSS_ENTROPY))
    assert all(run == runs[0] for run in runs)
    assert runs[0][0][-1] < runs[0][0][0]
    # Covers binary targets.
    binary = [
        final(
            *(journey.perceptron(outputs=1), {"x": x, "target": labels[:, None]}),
            *(tmp_path / f"b{i}", "--loss", "bce_with_logits"),
        )
        for i, labels in enumerate((target == 1, (target == 1).astype(np.float32)))
    ]
    assert binary[0] == binary[1]


def two_heads(with_loss):
    """Returns a model of scores and a box, with both losses in the graph or
    with none."""
    nodes = [
        journey.linear("body", "x", "h"),
        helper.make_node("Tanh", ["h"], ["t"], "tanh"),
        journey.linear("cls", "t", "scores"),
        journey.linear("box", "t", "place"),
    ]
    inputs = {"x": (np.float32, ["N", 4])}
    outputs = {"scores": (np.float32, ["N", 3]), "place": (np.float32, ["N", 2])}
    random = np.random.default_rng(0)
    values = journey.parameters(random, body=(8, 4), cls=(3, 8), box=(2, 8))
    if with_loss:
        inputs["labels"] = (np.int64, ["N"])
        inputs["boxes"] = (np.float32, ["N", 2])
        outputs = {"total": (np.float32, [])}
        values["half"] = np.float32(0.5)
        nodes += [
            helper.make_node(
                "SoftmaxCrossEntropyLoss", ["scores", "labels"], ["ce"], "ce"
            ),
            helper.make_node("Sub", ["place", "boxes"], ["d"], "d"),
            helper.make_node("Mul", ["d", "d"], ["q"], "q"),
            helper.make_node("ReduceMean", ["q"], ["mse"], "mse", keepdims=0),
            helper.make_node("Mul", ["mse", "half"], ["m"], "m"),
            helper.make_node("Add", ["ce", "m"], ["total"], "total"),
        ]
    return mpctest.make_model(nodes, inputs, outputs, values)


def test_two_losses(tmp_path):
    """The losses are in the graph, with weights for the served model; then
    given by flags."""
    x, target = features()
    data = {"x": x, "labels": target, "boxes": x[:, :2] * 2}
    serving = journey.save(two_heads(with_loss=False), tmp_path / "serving.onnx")
    inside = mpctest.train(
        *(two_heads(with_loss=True), data, tmp_path / "in", *RUN),
        *("--loss", "output:total", "--export-model", serving),
    )
    written = onnx.load(tmp_path / "in" / "trained.onnx")
    assert [o.name for o in written.graph.output] == ["scores", "place"]
    outside = mpctest.train(
        *(serving, data, tmp_path / "out", *RUN),
        *("--loss", "cross_entropy@scores", "--loss", "0.5*mse@place"),
        *("--target-array", "scores=labels", "--target-array", "place=boxes"),
    )
    expected = mpctest.losses(inside[0])
    np.testing.assert_allclose(mpctest.losses(outside[0]), expected, rtol=1e-5)
    for name, value in outside[1].items():
        np.testing.assert_allclose(inside[1][name], value, atol=1e-5)


def test_buffers_are_not_trained(tmp_path):
    """Constants that normalise the data are not weights."""
    model = journey.perceptron()
    nodes = [
        helper.make_node("Sub", ["raw", "mean"], ["c"], "c"),
        helper.make_node("Div", ["c", "std"], ["x"], "n"),
        *model.graph.node,
    ]
    values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    values["mean"] = np.full(4, 0.25, np.float32)
    values["std"] = np.full(4, 2, np.float32)
    model = mpctest.make_model(
        *(nodes, {"raw": (np.float32, ["N", 4])}, {"y": (np.float32, ["N", 3])}),
        values,
    )
    x, target = features()
    _, weights = mpctest.train(
        *(model, {"raw": x, "target": target}, tmp_path, *CROSS_ENTROPY, *RUN)
    )
    kept = [k for k, v in weights.items() if np.array_equal(v, values[k])]
    assert sorted(kept) == ["mean", "std"]


@pytest.mark.parametrize(
    "last, loss, words",
    [
        ("Softmax", "softmax_cross_entropy", ["Softmax", "@fc2"]),
        ("Sigmoid", "bce_with_logits", ["Sigmoid", "@fc2"]),
        (None, "output:y", ["one element", "ReduceMean"]),
    ],
)
def test_what_cannot_be_meant(last, loss, words, tmp_path):
    path = journey.save(journey.perceptron(last=last), tmp_path / "model.onnx")
    text = journey.refused(1, "check", path, "--batch-size", 4, "--loss", loss)
    assert all(word in text for word in words), text
    if last:
        mpctest.mpc_ok("check", path, "--batch-size", 4, "--loss", f"{loss}@fc2")
