"""A binary cross entropy in primitive ops trains like the op, also for logits
so large that a sigmoid is 0 or 1. The weights after three steps match float64.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

BATCH, WIDTH, STEPS, RATE = 8, 5, 3, 0.01
BOUND = {"32-true": 1e-5, "bf16-mixed": 2e-2, "16-mixed": 4e-3}


def node(op, *values, **attributes):
    *inputs, output = values
    return helper.make_node(op, inputs, [output], output, **attributes)


# Losses of logits x and targets t.
SPELT = {
    # BCEWithLogitsLoss from PyTorch's TorchScript exporter.
    "sigmoid": [
        node("Sigmoid", "x", "s"),
        node("Log", "s", "yes"),
        node("Sub", "one", "s", "rest"),
        node("Log", "rest", "no"),
        node("Sub", "one", "t", "other"),
        node("Mul", "t", "yes", "a"),
        node("Mul", "other", "no", "b"),
        node("Add", "a", "b", "sum"),
        node("Neg", "sum", "l"),
    ],
    # BCEWithLogitsLoss from PyTorch's current exporter.
    "logsigmoid": [
        node("Sub", "one", "t", "other"),
        node("Mul", "other", "x", "a"),
        node("Sigmoid", "x", "s"),
        node("Log", "s", "yes"),
        node("Sub", "a", "yes", "l"),
    ],
    "absolute": [
        node("Relu", "x", "r"),
        node("Mul", "x", "t", "xt"),
        node("Abs", "x", "m"),
        node("Neg", "m", "n"),
        node("Exp", "n", "e"),
        node("Add", "e", "one", "e1"),
        node("Log", "e1", "g"),
        node("Sub", "r", "xt", "d"),
        node("Add", "d", "g", "l"),
    ],
    "softplus": [
        node("Softplus", "x", "p"),
        node("Mul", "x", "t", "xt"),
        node("Sub", "p", "xt", "l"),
    ],
    # With a weight for positive targets, only the logarithms become one op.
    "weighted": [
        node("Sigmoid", "x", "s"),
        node("Log", "s", "yes"),
        node("Sub", "one", "s", "rest"),
        node("Log", "rest", "no"),
        node("Sub", "one", "t", "other"),
        node("Mul", "t", "yes", "a"),
        node("Mul", "a", "two", "a2"),
        node("Mul", "other", "no", "b"),
        node("Add", "a2", "b", "sum"),
        node("Neg", "sum", "l"),
    ],
}


def make(name):
    nodes = [
        node("MatMul", "input", "w", "x"),
        *SPELT[name],
        node("ReduceMean", "l", "loss", keepdims=0),
    ]
    return mpctest.make_model(
        nodes,
        {"input": (np.float32, [BATCH, WIDTH]), "t": (np.float32, [BATCH, 1])},
        {"loss": (np.float32, [])},
        {"w": WEIGHTS, "one": np.float32(1), "two": np.float32(2)},
    )


RANDOM = np.random.RandomState(3)
WEIGHTS = RANDOM.standard_normal([WIDTH, 1]).astype(np.float32)
INPUT = RANDOM.standard_normal([BATCH, WIDTH]).astype(np.float32)
TARGET = (RANDOM.standard_normal([BATCH, 1]) > 0).astype(np.float32)
# Logits of 40 and -40, each of the wrong class.
INPUT[0] *= 40 / (INPUT[0] @ WEIGHTS)
INPUT[1] = -INPUT[0]
TARGET[:2, 0] = 0, 1


def expect(positive):
    w, x, t = (a.astype(np.float64) for a in (WEIGHTS, INPUT, TARGET))
    losses = []
    for _ in range(STEPS):
        z = x @ w
        losses.append(
            np.mean(
                positive * t * np.logaddexp(0, -z)
                + (1 - t) * np.logaddexp(0, z)
            )
        )
        p = np.exp(-np.logaddexp(0, -z))
        dz = ((1 - t) * p - positive * t * (1 - p)) / BATCH
        w = w - RATE * x.T @ dz
    return losses, w


@pytest.mark.parametrize("precision", BOUND)
@pytest.mark.parametrize("name", SPELT)
def test_trains_as_float64_does(name, precision, tmp_path):
    metrics, weights = mpctest.train(
        make(name),
        {"input": INPUT, "t": TARGET},
        tmp_path,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", RATE),
        *("--batch-size", BATCH, "--epochs", STEPS, "--precision", precision),
    )
    losses, expected = expect(2 if name == "weighted" else 1)
    assert min(losses) > 3
    np.testing.assert_allclose(
        mpctest.losses(metrics), losses, rtol=BOUND[precision]
    )
    np.testing.assert_allclose(
        weights["w"], expected, rtol=BOUND[precision], atol=BOUND[precision]
    )


def test_spelled_out_it_loses_small_probabilities(tmp_path):
    process = mpctest.mpc(
        *("train", save(tmp_path), "--data", tmp_path / "data.npz"),
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", RATE),
        *("--batch-size", BATCH, "--epochs", 1),
        *("--no-recognize", "binary_cross_entropy", *mpctest.TARGET),
    )
    assert process.returncode == 7, process.stderr


def save(folder):
    np.savez(folder / "data.npz", input=INPUT, t=TARGET)
    onnx.save(make("sigmoid"), folder / "model.onnx")
    return folder / "model.onnx"


def test_targets_that_are_trained_have_gradients(tmp_path):
    """The loss of a probability limits logarithms to at least -100. A parameter
    determines the targets."""
    nodes = [
        node("Sigmoid", "input", "p"),
        node("Log", "p", "log"),
        node("Max", "log", "least", "yes"),
        node("Sub", "one", "p", "rest"),
        node("Log", "rest", "log_rest"),
        node("Max", "log_rest", "least", "no"),
        node("Sub", "one", "t", "other"),
        node("Mul", "t", "yes", "a"),
        node("Mul", "other", "no", "b"),
        node("Add", "a", "b", "sum"),
        node("Neg", "sum", "l"),
        node("ReduceMean", "l", "loss", keepdims=0),
    ]
    t = RANDOM.uniform(size=WIDTH)
    model = mpctest.make_model(
        nodes,
        {"input": (np.float32, [BATCH, WIDTH])},
        {"loss": (np.float32, [])},
        {
            "t": t.astype(np.float32),
            "one": np.float32(1),
            "least": np.float32(-100),
        },
    )
    # One probability is exactly 1.
    x = np.where(INPUT == INPUT[0], 200, INPUT).astype(np.float32)
    _, weights = mpctest.train(
        *(model, {"input": x}, tmp_path, "--loss", "output:loss"),
        *("--optimizer", "sgd", "--lr", 1, "--batch-size", BATCH),
        *("--max-steps", 1, "--precision", "64-true", "--train", "^t$"),
    )
    z = x.astype(np.float64)
    slope = np.maximum(-np.logaddexp(0, z), -100) + np.logaddexp(0, -z)
    np.testing.assert_allclose(
        weights["t"], t - slope.sum(0) / (BATCH * WIDTH), rtol=1e-6
    )
