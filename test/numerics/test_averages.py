"""`--ema` follows its formula in NumPy: mpc computes, evaluates and writes the
averages, and a skipped step leaves them unchanged.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper
from safetensors.numpy import load_file

import mpctest

STEPS, SIZE, DECAY = 6, 7, 0.8
random = np.random.RandomState(4)
WEIGHT = random.standard_normal(SIZE)
ROWS = random.standard_normal((STEPS, SIZE))


def model(dtype=np.float64):
    """Returns a loss of sum(x * w) for each sample. The gradient of w is the
    mean of the rows of x."""
    return mpctest.make_model(
        [
            helper.make_node("Mul", ["x", "w"], ["terms"], "mul"),
            helper.make_node(
                "ReduceSum", ["terms", "one"], ["sums"], "sum", keepdims=0
            ),
            helper.make_node(
                "ReduceMean", ["sums"], ["loss"], "mean", keepdims=0
            ),
        ],
        {"x": (dtype, ["N", SIZE])},
        {"loss": (dtype, [])},
        {"w": WEIGHT.astype(dtype), "one": np.array([1])},
    )


def train(folder, *flags, rows=ROWS, dtype=np.float64):
    return mpctest.train(
        model(dtype),
        {"x": rows.astype(dtype)},
        folder,
        *("--loss", "output:loss", "--batch-size", "1", "--optimizer", "sgd"),
        *("--lr", "0.1", "--train", "^w$", *flags),
    )


def trajectory(rows=ROWS, decay=DECAY):
    """Returns the weights and their average after every step."""
    w, average, points = WEIGHT.copy(), WEIGHT.copy(), []
    for row in rows:
        w = w - 0.1 * row
        average = average + (w - average) * (1 - decay)
        points.append((w, average))
    return points


def test_output_has_the_averages(tmp_path):
    _, weights = train(tmp_path, "--precision", "64-true", "--ema", DECAY)
    w, average = trajectory()[-1]
    np.testing.assert_allclose(weights["w"], average, rtol=0, atol=1e-14)
    assert np.abs(w - average).max() > 1e-2


def test_checkpoints_have_both(tmp_path):
    folder = tmp_path / "checkpoints"
    train(
        tmp_path,
        *("--precision", "64-true", "--ema", DECAY, "--checkpoint-dir", folder),
    )
    state = load_file(folder / f"step-{STEPS}" / "state.safetensors")
    for name, right in zip(("w", "w.ema"), trajectory()[-1]):
        np.testing.assert_allclose(state[name], right, rtol=0, atol=1e-14)


def test_averages_are_evaluated_and_training_goes_on(tmp_path):
    held = random.standard_normal((3, SIZE))
    np.savez(tmp_path / "held.npz", x=held)
    metrics, weights = train(
        tmp_path,
        *("--precision", "64-true", "--ema", DECAY, "--val-every", "2"),
        *("--val-data", tmp_path / "held.npz"),
    )
    losses = [m["eval_loss"] for m in metrics if m["event"] == "eval"]
    right = [(held @ trajectory()[step][1]).mean() for step in (1, 3, 5)]
    np.testing.assert_allclose(losses, right, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        weights["w"], trajectory()[-1][1], rtol=0, atol=1e-14
    )


def test_averages_are_of_steps_not_of_batches(tmp_path):
    _, weights = train(
        tmp_path,
        *("--precision", "64-true", "--ema", DECAY),
        *("--accumulate-grad-batches", "2"),
    )
    pairs = ROWS.reshape(STEPS // 2, 2, SIZE).mean(axis=1)
    right = trajectory(pairs)[-1][1]
    np.testing.assert_allclose(weights["w"], right, rtol=0, atol=1e-14)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_averages_are_in_float32(precision, tmp_path):
    """A step moves the average by far less than a 16-bit type can resolve."""
    rows = np.full((STEPS, SIZE), 0.25)
    _, weights = train(
        tmp_path,
        *("--precision", precision, "--ema", "0.999"),
        rows=rows,
        dtype=np.float32,
    )
    right = trajectory(rows, decay=0.999)[-1][1]
    np.testing.assert_allclose(weights["w"], right, rtol=0, atol=5e-7)
    assert np.abs(right - WEIGHT).min() > 1e-4


def test_a_skipped_step_leaves_the_averages(tmp_path):
    rows = np.round(ROWS * 64) / 64  # exact in float16
    rows[2] = 1e38
    metrics, weights = train(
        tmp_path,
        *("--precision", "16-mixed", "--loss-scale", "8", "--ema", DECAY),
        rows=rows,
        dtype=np.float32,
    )
    skipped = [m["skipped"] for m in metrics if m["event"] == "train"]
    assert skipped == [False, False, True, False, False, False]
    right = trajectory(np.delete(rows, 2, axis=0))[-1][1]
    np.testing.assert_allclose(weights["w"], right, rtol=0, atol=1e-6)


def test_resumed_run_gives_the_same_averages(tmp_path):
    flags = ["--precision", "64-true", "--ema", DECAY]
    _, whole = train(tmp_path / "whole", *flags)
    folder = tmp_path / "parts"
    flags += ["--checkpoint-dir", folder / "checkpoints", "--resume", "auto"]
    train(folder, *flags, "--max-steps", "4")
    _, parts = train(folder, *flags, "--max-steps", STEPS)
    np.testing.assert_array_equal(parts["w"], whole["w"])


def test_the_best_is_that_of_the_averages(tmp_path):
    """The average moves against the loss: the first evaluation is the best."""
    held = -np.ones((2, SIZE))
    np.savez(tmp_path / "held.npz", x=held)
    rows = np.ones((STEPS, SIZE))
    _, weights = train(
        tmp_path,
        *("--precision", "64-true", "--ema", DECAY, "--val-every", "2"),
        *("--val-data", tmp_path / "held.npz", "--best", "loss"),
        rows=rows,
    )
    right = trajectory(rows)[1][1]
    np.testing.assert_allclose(weights["w"], right, rtol=0, atol=1e-14)
