"""64-true trains a float32 model like the equal float64 model, with all numbers
of the flags at full precision.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest

WIDTH, CLASSES, SAMPLES = 5, 4, 30
# One rounding at another place, a few hundred times.
TOLERANCE = 1e-13


def make_model(element):
    random = np.random.default_rng(7)

    def weight(*shape):
        # Values that float32 holds exactly, in either type.
        value = random.normal(0, 0.7, size=shape).astype(np.float32)
        return value.astype(element)

    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], "first"),
        helper.make_node("LeakyRelu", ["h"], ["r"], "relu", alpha=0.25),
        helper.make_node("MatMul", ["r", "b"], ["y"], "last"),
    ]
    return mpctest.make_model(
        nodes,
        {"x": (element, ["N", WIDTH])},
        {"y": (element, ["N", CLASSES])},
        {"a": weight(WIDTH, 6), "b": weight(6, CLASSES)},
    )


def train(element, target, folder, flags):
    random = np.random.default_rng(9)
    x = random.normal(size=(SAMPLES, WIDTH)).astype(np.float32).astype(element)
    metrics, weights = mpctest.train(
        make_model(element),
        {"x": x, "target": target},
        folder,
        *("--batch-size", 6, "--max-steps", 5, "--precision", "64-true"),
        *flags,
    )
    return mpctest.losses(metrics), weights


def targets(kind):
    random = np.random.default_rng(11)
    if kind == "classes":
        return random.integers(0, CLASSES, SAMPLES)
    return random.uniform(size=(SAMPLES, CLASSES)).astype(np.float32)


SGD = ("--optimizer", "sgd", "--lr", "0.1")
CASES = {
    "smoothing": ("classes", "softmax_cross_entropy", ("--label-smoothing", "0.1", *SGD)),
    "class weights": (
        *("classes", "softmax_cross_entropy"),
        ("--class-weights", "0.3,0.7,1.1,0.9", *SGD),
    ),
    "huber": ("values", "huber", SGD),
    "smooth_l1": ("values", "smooth_l1", SGD),
    "bce": ("values", "bce_with_logits", SGD),
    "positives": ("values", "bce_with_logits", ("--pos-weight", "0.3,1.7,2.1,0.9", *SGD)),
    "factor": ("values", "0.3*mse@y", SGD),
    "rates": ("values", "mse", ("--lr-scale", "^a$=0.3", *SGD)),
    "momentum": (
        *("values", "mse"),
        ("--optimizer", "sgd", "--lr", "0.07", "--momentum", "0.9"),
    ),
    "adamw": (
        *("values", "mse"),
        ("--optimizer", "adamw", "--lr", "0.003", "--weight-decay", "0.07"),
    ),
    "lamb": ("values", "mse", ("--optimizer", "lamb", "--lr", "0.003")),
    "rmsprop": ("values", "mse", ("--optimizer", "rmsprop", "--lr", "0.003")),
    "clipped": ("values", "mse", ("--gradient-clip-val", "0.1", *SGD)),
    "accumulated": ("values", "mse", ("--accumulate-grad-batches", "3", *SGD)),
    "average": ("values", "mse", ("--ema", "0.7", *SGD)),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_flags_are_not_rounded(name, tmp_path):
    kind, loss, flags = CASES[name]
    flags = ("--loss", loss, *flags)
    target = targets(kind)
    losses, weights = train(np.float32, target, tmp_path / "narrow", flags)
    expected, exact = train(np.float64, target, tmp_path / "wide", flags)
    np.testing.assert_allclose(losses, expected, rtol=TOLERANCE)
    for key, value in exact.items():
        np.testing.assert_array_equal(weights[key], value.astype(np.float32))
