"""Muon follows PyTorch's formula in NumPy over a few steps, in float64.

The loss is sum(x * w), so that the gradient of w is the data: one sample a step.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest

STEPS = 4
A, B, C = 3.4445, -4.7750, 2.0315
random = np.random.default_rng(5)


def train(weight, gradients, folder, *flags):
    """Returns w and the bias after one step for every gradient."""
    axes = helper.make_node("ReduceSum", ["sum"], ["loss"], "sum", keepdims=0)
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["terms"], "mul"),
        helper.make_node("Add", ["terms", "bias"], ["sum"], "add"),
        axes,
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float64, ["N", *weight.shape])},
        {"loss": (np.float64, [])},
        {"w": weight, "bias": np.zeros(1)},
    )
    _, weights = mpctest.train(
        *(model, {"x": gradients}, folder, "--loss", "output:loss"),
        *("--batch-size", 1, "--precision", "64-true", "--lr", 0.1),
        *("--train", "^(w|bias)$", "--optimizer", "muon", "--muon", "^w$", *flags),
    )
    return weights["w"], weights["bias"]


def orthogonalize(x, steps):
    wide = x.T if x.shape[0] > x.shape[1] else x
    wide = wide / max(np.linalg.norm(wide), 1e-7)
    for _ in range(steps):
        gram = wide @ wide.T
        wide = A * wide + (B * gram + C * gram @ gram) @ wide
    return wide.T if x.shape[0] > x.shape[1] else wide


def expected(
    weight,
    gradients,
    momentum=0.95,
    decay=0.1,
    steps=5,
    nesterov=True,
    factor=lambda rows, columns: max(1, rows / columns) ** 0.5,
):
    w, velocity = weight.copy(), np.zeros_like(weight)
    for g in gradients:
        velocity = momentum * velocity + (1 - momentum) * g
        move = momentum * velocity + (1 - momentum) * g if nesterov else velocity
        matrix = move.reshape(len(move), -1)
        direction = orthogonalize(matrix, steps) * factor(*matrix.shape)
        w = w * (1 - 0.1 * decay) - 0.1 * direction.reshape(w.shape)
    return w


CASES = {
    "wide": ((3, 5), [], {}),
    "tall": ((6, 2), [], {}),
    "filter": ((4, 2, 3), [], {}),
    "plain": ((3, 5), ["--no-nesterov", "--momentum", 0.5], {"nesterov": False, "momentum": 0.5}),
    "steps": ((3, 5), ["--ns-steps", 2, "--weight-decay", 0.3], {"steps": 2, "decay": 0.3}),
    "rms": (
        (6, 2),
        ["--adjust-lr-fn", "match_rms_adamw"],
        {"factor": lambda rows, columns: 0.2 * max(rows, columns) ** 0.5},
    ),
    "unclamped": (
        (3, 5),
        ["--adjust-lr-fn", "spectral_unclamped"],
        {"factor": lambda rows, columns: (rows / columns) ** 0.5},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_matches_its_formula(case, tmp_path):
    shape, flags, settings = CASES[case]
    weight = random.standard_normal(shape)
    gradients = random.standard_normal((STEPS, *shape))
    w, bias = train(weight, gradients, tmp_path, *flags)
    right = expected(weight, gradients, **settings)
    # The iterations magnify the roundings of small singular values.
    np.testing.assert_allclose(w, right, rtol=0, atol=1e-11)
    if settings:
        assert np.abs(right - expected(weight, gradients)).max() > 1e-3
    # AdamW trains the bias: its gradient is constant, so each step is --lr.
    np.testing.assert_allclose(bias, -0.1 * STEPS, rtol=0.1)
