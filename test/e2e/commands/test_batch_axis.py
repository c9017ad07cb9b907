"""Training handles samples on an axis other than the first, and inputs of every
batch size.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest

SAMPLES, BATCH, PARTS, WIDTH = 12, 4, 3, 5


def model():
    """Returns a model of x [part, batch, width]: the sum over parts, times a
    scalar, times w [width, 2]."""
    axes = np.array([0], np.int64)
    w = np.random.RandomState(0).standard_normal((WIDTH, 2)) * 0.5
    return mpctest.make_model(
        [
            helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=0),
            helper.make_node("Mul", ["s", "factor"], ["scaled"]),
            helper.make_node("MatMul", ["scaled", "w"], ["y"]),
        ],
        {
            "x": (np.float64, (PARTS, "N", WIDTH)),
            "factor": (np.float64, (WIDTH,)),
        },
        {"y": (np.float64, ("N", 2))},
        {"axes": axes, "w": w},
    )


def data():
    random = np.random.RandomState(1)
    return {
        "x": random.standard_normal((PARTS, SAMPLES, WIDTH)),
        "factor": random.standard_normal(WIDTH),
        "target": random.standard_normal((SAMPLES, 2)),
    }


def train(folder, *flags):
    return mpctest.train(
        model(),
        data(),
        folder,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", 0.1),
        *("--batch-size", BATCH, "--precision", "64-true", *flags),
    )


def test_samples_are_taken_along_their_axis(tmp_path):
    """Compares the losses of three steps with losses computed by hand."""
    metrics, weights = train(
        tmp_path, "--batch-axis", "x=1", "--batch-axis", "factor=none"
    )
    arrays = data()
    w = np.random.RandomState(0).standard_normal((WIDTH, 2)) * 0.5
    expected = []
    for first in range(0, SAMPLES, BATCH):
        rows = slice(first, first + BATCH)
        scaled = arrays["x"][:, rows].sum(0) * arrays["factor"]
        error = scaled @ w - arrays["target"][rows]
        expected.append((error**2).mean())
        w = w - 0.1 * scaled.T @ error * 2 / error.size
    np.testing.assert_allclose(mpctest.losses(metrics), expected, rtol=1e-12)
    np.testing.assert_allclose(weights["w"], w, rtol=1e-12)


def test_shuffled_samples_keep_their_labels(tmp_path):
    """Labels that are a function of the samples are learned in any order."""
    arrays = data()
    arrays["target"] = arrays["x"].sum(0) * arrays["factor"] @ np.ones((WIDTH, 2))
    np.savez(tmp_path / "data.npz", **arrays)
    mpctest.onnx.save(model(), tmp_path / "model.onnx")
    mpctest.mpc_ok(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *("--batch-axis", "x=1", "--batch-axis", "factor=none"),
        *("--loss", "mse", "--optimizer", "sgd", "--lr", 0.05),
        *("--batch-size", BATCH, "--precision", "64-true", "--epochs", 1000),
        *("--metrics", tmp_path / "metrics.jsonl"),
    )
    losses = mpctest.losses(mpctest.read_metrics(tmp_path / "metrics.jsonl"))
    assert losses[-1] < losses[0] / 100


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--batch-axis", "x"], "expected NAME=AXIS or NAME=none"),
        (["--batch-axis", "x=-1"], "expected NAME=AXIS or NAME=none"),
        (["--batch-axis", "z=1"], "there is no input 'z'"),
        (["--batch-axis", "x=3"], "input 'x' has no axis 3, it is double[3,N,5]"),
        (
            ["--batch-axis", "x=1", "--batch-axis", "x=0"],
            "'x' has an axis already",
        ),
    ],
)
def test_what_is_no_axis_is_said(flags, message, tmp_path):
    mpctest.onnx.save(model(), tmp_path / "model.onnx")
    process = mpctest.mpc("explain", tmp_path / "model.onnx", *flags)
    assert process.returncode == 2
    assert message in process.stderr


def test_inputs_that_fix_a_batch_say_that_of_the_others(tmp_path):
    """`ids` [8] fixes the batch of `x` [N,3]: eight samples, not the default
    32."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["t"], "look"),
        helper.make_node("Concat", ["t", "x"], ["all"], "all", axis=1),
        helper.make_node("MatMul", ["all", "w"], ["y"], "y"),
    ]
    random = np.random.default_rng(0)
    made = mpctest.make_model(
        nodes,
        {"ids": (np.int64, [8]), "x": (np.float32, ["N", 3])},
        {"y": (np.float32, ["N", 2])},
        {
            "table": random.normal(size=(5, 4)).astype(np.float32),
            "w": random.normal(size=(7, 2)).astype(np.float32),
        },
    )
    path = tmp_path / "model.onnx"
    mpctest.onnx.save(made, path)
    process = mpctest.mpc_ok("check", path, "--loss", "cross_entropy")
    assert "a batch of 8 is assumed" in process.stderr
    np.savez(
        tmp_path / "data.npz",
        ids=random.integers(0, 5, 40),
        x=random.normal(size=(40, 3)).astype(np.float32),
        target=random.integers(0, 2, 40),
    )
    process = mpctest.mpc_ok(
        *("train", path, "--data", tmp_path / "data.npz"),
        *("--loss", "cross_entropy", "--output", tmp_path / "o.npz"),
    )
    assert "batches of 8 samples" in process.stderr
    assert "5 steps, 1 epoch, 40 samples" in process.stdout
