"""--no-decay and --lr-scale follow the formulas of SGD and AdamW in float64.

The loss is the mean of scale * (x @ w + bias) + shift over constant data, so
that the gradients of the vectors are known.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest
from case import normal

X = normal(4, 5)
STATE = {
    "head.weight": normal(5, 3),
    "head.bias": normal(3),
    "norm.weight": normal(1, 3)[0],
    "norm.bias": normal(2, 3)[0],
}


def model():
    nodes = [
        helper.make_node("Gemm", ["x", "head.weight", "head.bias"], ["y"], "head"),
        helper.make_node("Mul", ["y", "norm.weight"], ["z"], "scale"),
        helper.make_node("Add", ["z", "norm.bias"], ["out"], "shift"),
        helper.make_node("ReduceMean", ["out"], ["loss"], "mean", keepdims=0),
    ]
    return mpctest.make_model(
        *(nodes, {"x": (np.float64, ["N", 5])}, {"loss": (np.float64, [])}),
        STATE,
    )


def gradients(state):
    y = X @ state["head.weight"] + state["head.bias"]
    dz = np.full(y.shape, 1 / y.size)
    dy = dz * state["norm.weight"]
    return {
        "head.weight": X.T @ dy,
        "head.bias": dy.sum(0),
        "norm.weight": (dz * y).sum(0),
        "norm.bias": dz.sum(0),
    }


def trained(folder, *flags):
    return mpctest.train(
        *(model(), {"x": X}, folder, "--loss", "output:loss"),
        *("--batch-size", 4, "--precision", "64-true"),
        *("--weight-decay", 0.5, "--train", ".", *flags),
    )[1]


SPARED = {
    (): set(),
    ("bias",): {"head.bias", "norm.bias"},
    ("norm",): {"norm.weight"},
    ("bias,norm",): {"head.bias", "norm.bias", "norm.weight"},
    ("bias", "^head"): {"head.bias", "norm.bias", "head.weight"},
}


@pytest.mark.parametrize("words", SPARED, ids=" ".join)
def test_no_decay(words, tmp_path):
    flags = [flag for word in words for flag in ("--no-decay", word)]
    state = dict(STATE)
    for _ in range(3):
        slopes = gradients(state)
        for name, value in state.items():
            decay = 0 if name in SPARED[words] else 0.5
            state[name] = value - 0.1 * (slopes[name] + decay * value)
    weights = trained(tmp_path, "--optimizer", "sgd", "--lr", 0.1, "--epochs", 3, *flags)
    for name, value in state.items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("optimizer", ("sgd", "adamw", "lamb"))
def test_rate_of_a_group(optimizer, tmp_path):
    """A group with factor f moves as in a run with f times the rate, for one
    step."""
    common = ("--optimizer", optimizer, "--max-steps", 1)
    whole = trained(tmp_path / "whole", *common, "--lr", 0.1)
    half = trained(tmp_path / "half", *common, "--lr", 0.05)
    mixed = trained(
        *(tmp_path / "mixed", *common, "--lr", 0.1, "--lr-scale", "bias=0"),
        *("--lr-scale", "^norm=0.5"),
    )
    for name in STATE:
        expected = half if name.startswith("norm") else whole
        if name == "head.bias":
            expected = STATE
        np.testing.assert_allclose(
            mixed[name], expected[name], rtol=1e-13, err_msg=name
        )


@pytest.mark.parametrize("precision", ("32-true", "bf16-mixed", "16-mixed"))
def test_half_precision(precision, tmp_path):
    """A factor of a power of two is exact in every precision."""
    flags = (
        *("--loss", "cross_entropy", "--batch-size", 32, "--max-steps", 5),
        *("--precision", precision, "--optimizer", "adamw"),
    )
    data = mpctest.DIGITS / "digits-train.npz"
    model = mpctest.MODELS / "mlp.onnx"
    _, half = mpctest.train(model, data, tmp_path, *flags, "--lr", 0.0005)
    _, scaled = mpctest.train(
        *(model, data, tmp_path, *flags, "--lr", 0.001, "--lr-scale", ".=0.5"),
    )
    for name, value in half.items():
        np.testing.assert_array_equal(scaled[name], value)
