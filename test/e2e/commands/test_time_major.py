"""Scores of [time, batch, classes] train with labels of [batch, time].

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest

TIME, SAMPLES, BATCH, CLASSES = 7, 16, 4, 5
RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((SAMPLES, TIME, 6)).astype(np.float32)
TARGET = RANDOM.randint(0, CLASSES, (SAMPLES, TIME))
WEIGHTS = {
    "in": RANDOM.standard_normal((6, 8)).astype(np.float32),
    "out": RANDOM.standard_normal((8, CLASSES)).astype(np.float32),
}


def make_model(is_time_major, is_flat, batch=BATCH, end=()):
    """Returns a model with a layer's scores for each time step. `end` are nodes
    of one more operand that keep the axis of classes."""
    nodes = [("MatMul", "x in", "a"), ("Tanh", "a", "h"), ("MatMul", "h out", "s0")]
    last = "s0"
    for i, (op, operand) in enumerate(end):
        nodes.append((op, f"{last} {operand}".strip(), f"s{i + 1}"))
        last = f"s{i + 1}"
    nodes.append(("Reshape", f"{last} rows", "y") if is_flat else ("Identity", last, "y"))
    lead = [TIME, batch] if is_time_major else [batch, TIME]
    return mpctest.make_model(
        [helper.make_node(op, i.split(), [o]) for op, i, o in nodes],
        {"x": (np.float32, [*lead, 6])},
        {"y": (np.float32, None)},
        {
            **WEIGHTS,
            "rows": np.array([-1, CLASSES]),
            "sixteenth": np.float32(0.0625),
            "thirty": np.float32(30),
        },
    )


def train(model, data, folder, *flags, loss="softmax_cross_entropy"):
    metrics, weights = mpctest.train(
        model,
        data,
        folder,
        *("--loss", loss, "--lr", "0.1", "--epochs", "2", *flags),
        *("--val-data", folder / "data.npz"),
    )
    evals = [float(m["eval_loss"]) for m in metrics if m["event"] == "eval"]
    rates = [m["eval_accuracy"] for m in metrics if m["event"] == "eval"]
    return mpctest.losses(metrics), evals, rates, weights


@pytest.mark.parametrize("batch", (1, BATCH))
@pytest.mark.parametrize("is_flat", (False, True))
def test_time_major_scores_train_alike(is_flat, batch, tmp_path):
    first = train(
        make_model(False, False, batch), {"x": X, "target": TARGET}, tmp_path / "b"
    )
    moved = {"x": np.swapaxes(X, 0, 1).copy(), "target": TARGET}
    second = train(
        make_model(True, is_flat, batch), moved, tmp_path / "t", "--batch-axis", "x=1"
    )
    np.testing.assert_allclose(second[0], first[0], rtol=1e-5)
    np.testing.assert_allclose(second[1], first[1], rtol=1e-5)
    assert second[2] == first[2]
    for name in WEIGHTS:
        np.testing.assert_allclose(second[3][name], first[3][name], rtol=1e-4)


def make_recurrent(op, is_time_major, direction):
    """Returns a recurrent layer in nn.LSTM's default layout: time, then
    samples."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    ways = 2 if direction == "bidirectional" else 1
    random = np.random.RandomState(1)
    values = {
        "w": random.normal(0, 0.5, (ways, gates * 8, 6)),
        "r": random.normal(0, 0.5, (ways, gates * 8, 8)),
        "out": random.normal(0, 0.5, (ways * 8, CLASSES)),
    }
    attributes = {"hidden_size": 8, "direction": direction}
    nodes = [
        helper.make_node(op, ["t", "w", "r"], ["ways"], **attributes),
        helper.make_node("Transpose", ["ways"], ["apart"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["apart", "joined"], ["h"]),
        helper.make_node("MatMul", ["h", "out"], ["s"]),
    ]
    ends = [("x", "t"), ("s", "y")]
    for i, (source, result) in zip((0, len(nodes) + 1), ends):
        swap = {} if is_time_major else {"perm": [1, 0, 2]}
        name = "Identity" if is_time_major else "Transpose"
        nodes.insert(i, helper.make_node(name, [source], [result], **swap))
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, [*((TIME, BATCH) if is_time_major else (BATCH, TIME)), 6])},
        {"y": (np.float32, None)},
        {
            **{k: v.astype(np.float32) for k, v in values.items()},
            "joined": np.array([0, 0, -1]),
        },
    )


@pytest.mark.parametrize("direction", ("forward", "reverse", "bidirectional"))
@pytest.mark.parametrize("op", ("LSTM", "GRU", "RNN"))
def test_recurrent_layers_have_time_first(op, direction, tmp_path):
    first = train(
        make_recurrent(op, False, direction), {"x": X, "target": TARGET}, tmp_path / "b"
    )
    moved = {"x": np.swapaxes(X, 0, 1).copy(), "target": TARGET}
    second = train(
        make_recurrent(op, True, direction),
        *(moved, tmp_path / "t", "--batch-axis", "x=1"),
    )
    np.testing.assert_allclose(second[0], first[0], rtol=1e-5)
    np.testing.assert_allclose(second[1], first[1], rtol=1e-5)
    for name in ("w", "r", "out"):
        np.testing.assert_allclose(second[3][name], first[3][name], atol=1e-5)


@pytest.mark.parametrize("loss", ("softmax_cross_entropy", "mse"))
@pytest.mark.parametrize("direction", ("forward", "bidirectional"))
def test_labels_may_have_time_first_too(direction, loss, tmp_path):
    """Their samples are on the axis that is as long as that of the inputs."""
    target = TARGET
    if loss == "mse":
        target = RANDOM.standard_normal((SAMPLES, TIME, CLASSES)).astype(np.float32)
    model = make_recurrent("LSTM", True, direction)
    x = np.swapaxes(X, 0, 1).copy()
    runs = []
    for name, labels in (
        ("samples", target),
        ("time", np.swapaxes(target, 0, 1).copy()),
    ):
        metrics, weights = mpctest.train(
            *(model, {"x": x, "target": labels}, tmp_path / name),
            *("--loss", loss, "--lr", "0.1", "--epochs", "2", "--batch-axis", "x=1"),
            *("--val-data", tmp_path / name / "data.npz"),
        )
        evals = [float(m["eval_loss"]) for m in metrics if m["event"] == "eval"]
        runs.append((mpctest.losses(metrics), evals, weights))
        # So does mpc eval.
        said = mpctest.mpc_ok(
            *("eval", tmp_path / name / "model.onnx", "--batch-axis", "x=1"),
            *("--data", tmp_path / name / "data.npz", "--loss", loss),
            *("--format", "jsonl"),
        )
        runs[-1] += (said.stdout,)
    (first, first_evals, first_weights, said), (second, evals, weights, other) = runs
    assert (first, first_evals) == (second, evals)
    assert said == other
    for name in first_weights:
        np.testing.assert_array_equal(weights[name], first_weights[name])


@pytest.mark.parametrize("labels", ("batch_first", "time_first"))
def test_as_many_samples_as_steps_are_asked_about(labels, tmp_path):
    x, target = np.swapaxes(X[:TIME], 0, 1).copy(), TARGET[:TIME]
    model = make_recurrent("GRU", True, "bidirectional")
    expected = train(
        *(model, {"x": np.swapaxes(X, 0, 1).copy(), "target": TARGET}, tmp_path / "all"),
        *("--batch-axis", "x=1", "--max-steps", "1", "--no-shuffle"),
    )
    axis = 0 if labels == "batch_first" else 1
    data = {"x": x, "target": target if axis == 0 else target.T.copy()}
    np.savez(tmp_path / "data.npz", **data)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    process = mpctest.mpc(
        *("train", path, "--data", tmp_path / "data.npz", "--batch-axis", "x=1"),
        *("--loss", "softmax_cross_entropy"),
    )
    assert process.returncode == 2, process.stderr
    assert "have 7 samples and as many steps" in process.stderr
    assert "--batch-axis target=0 or --batch-axis target=1" in process.stderr
    found = train(
        *(model, data, tmp_path / "some", "--batch-axis", "x=1", "--no-shuffle"),
        *("--batch-axis", f"target={axis}", "--max-steps", "1"),
    )
    assert found[0][0] == expected[0][0]


def test_a_named_axis_is_that_of_the_scores(tmp_path):
    data = {"x": np.swapaxes(X, 0, 1).copy(), "target": TARGET}
    flags = ("--batch-axis", "x=1")
    found = train(make_model(True, False), data, tmp_path / "a", *flags)
    named = train(
        make_model(True, False),
        data,
        tmp_path / "b",
        *flags,
        loss="softmax_cross_entropy@y:2",
    )
    assert found[0] == named[0]


def test_the_message_names_the_flag_that_helps(tmp_path):
    np.savez(tmp_path / "data.npz", x=np.swapaxes(X, 0, 1), target=TARGET)
    path = tmp_path / "model.onnx"
    path.write_bytes(make_model(True, False, batch=SAMPLES).SerializeToString())
    process = mpctest.mpc(
        *("train", path, "--data", tmp_path / "data.npz"),
        *("--loss", "softmax_cross_entropy", "--batch-size", "7"),
    )
    assert process.returncode == 3, process.stderr
    assert "--batch-axis INPUT=AXIS" in process.stderr
    assert "numpy.moveaxis(labels, 1, 0)" in process.stderr


ENDS = {
    "scaled": [("Mul", "sixteenth")],
    "capped": [("Div", "thirty"), ("Tanh", ""), ("Mul", "thirty")],
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("command", ("check", "explain"))
def test_classes_are_found_behind_what_keeps_them(end, command, tmp_path):
    """Commands that read no data accept the same models as train."""
    path = tmp_path / "model.onnx"
    model = make_model(False, False, end=ENDS[end])
    path.write_bytes(model.SerializeToString())
    process = mpctest.mpc(command, path, "--loss", "softmax_cross_entropy")
    assert process.returncode == 0, process.stderr
    assert "the class axis is 2" in process.stderr + process.stdout
