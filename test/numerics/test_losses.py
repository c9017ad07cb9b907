"""The losses of `--loss` and their flags match a NumPy reference: values and
gradients in float64, and evaluation over batches that do not divide the data.

The loss's input is a parameter, so that one step of SGD at rate 1 moves it by
its gradient.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import loss_reference as reference
import mpctest
from case import normal

TOLERANCE = 1e-7


def model_of(value):
    """Returns y = x + zeros, with one sample for each row of `value`."""
    return mpctest.make_model(
        [helper.make_node("Add", ["x", "zeros"], ["y"], "node")],
        {"zeros": (np.float64, ["N", *value.shape[1:]])},
        {"y": (np.float64, ["N", *value.shape[1:]])},
        {"x": value},
    )


def step(value, target, folder, *flags):
    """Returns the loss of the first batch, and its gradient."""
    zeros = np.zeros((len(target), *value.shape[1:]))
    metrics, weights = mpctest.train(
        model_of(value),
        {"zeros": zeros, "target": target},
        folder,
        *("--optimizer", "sgd", "--lr", 1, "--max-steps", 1),
        *("--batch-size", len(value), "--precision", "64-true"),
        *("--train", "^x$"),
        *flags,
    )
    return mpctest.losses(metrics)[0], value - weights["x"]


def check(value, target, function, folder, *flags):
    """`function` returns the loss of a given value."""
    loss, slopes = step(value, target, folder, *flags)
    assert loss == pytest.approx(function(value), rel=1e-12, abs=1e-14)
    expected = reference.gradient(function, value)
    np.testing.assert_allclose(slopes, expected, atol=TOLERANCE)
    return loss, slopes


SCORES = 3 * normal(6, 4)
LABELS = np.array([0, 3, 1, 1, 2, 3])
WEIGHTS = np.array([0.5, 2.0, 0.25, 1.0])
POSITIONS = 2 * normal(3, 4, 5)
PLACES = (np.arange(15).reshape(3, 5) * 7) % 4


def class_flags(folder, options):
    """Returns the flags for the reference's options."""
    flags = []
    if "weights" in options:
        np.save(folder / "weights.npy", options["weights"])
        flags += ["--class-weights", folder / "weights.npy"]
    if "ignored" in options:
        flags += ["--ignore-index", options["ignored"]]
    if "smoothing" in options:
        flags += ["--label-smoothing", options["smoothing"]]
    return flags


CLASS_OPTIONS = {
    "plain": {},
    "weights": {"weights": WEIGHTS},
    "ignored class": {"ignored": 3},
    "ignored": {"ignored": -100},
    "smoothing": {"smoothing": 0.25},
    "smoothing and ignored": {"smoothing": 0.1, "ignored": 1},
    "all": {"weights": WEIGHTS, "ignored": -100, "smoothing": 0.1},
    "no weight": {"weights": WEIGHTS * [1, 0, 1, 1], "smoothing": 0.5},
}


@pytest.mark.parametrize("how", ("mean", "sum"))
@pytest.mark.parametrize("name", CLASS_OPTIONS)
@pytest.mark.parametrize("rank", (2, 3))
def test_cross_entropy(rank, name, how, tmp_path):
    options = CLASS_OPTIONS[name]
    scores, labels = (SCORES, LABELS) if rank == 2 else (POSITIONS, PLACES)
    if options.get("ignored") == -100:
        labels = np.where(labels == 2, -100, labels)

    def loss(x):
        terms = reference.cross_entropy(x, labels, **options)
        return reference.reduce(*terms, how=how)

    flags = class_flags(tmp_path, options)
    output = "y" if rank == 2 else "y:1"
    check(
        *(scores, labels, loss, tmp_path, "--loss", f"cross_entropy@{output}"),
        *("--reduction", how, *flags),
    )


@pytest.mark.parametrize("name", ("plain", "weights", "ignored class"))
def test_nll(name, tmp_path):
    options = CLASS_OPTIONS[name]

    def loss(x):
        return reference.reduce(*reference.of_classes(x, LABELS, **options))

    flags = class_flags(tmp_path, options)
    check(SCORES, LABELS, loss, tmp_path, "--loss", "nll", *flags)


@pytest.mark.parametrize("smoothing", (0, 0.1))
def test_all_ignored(smoothing, tmp_path):
    """PyTorch's mean of such a batch is NaN, mpc's is 0. Neither has a
    gradient."""
    labels = np.concatenate([np.full(6, -100), LABELS])
    loss, slopes = step(
        *(SCORES, labels, tmp_path, "--loss", "cross_entropy"),
        *("--label-smoothing", smoothing, "--no-shuffle"),
    )
    assert loss == 0
    np.testing.assert_array_equal(slopes, 0)


def test_zero_weights_alone(tmp_path):
    """If no label has a weight, the batch counts as one without labels."""
    np.save(tmp_path / "weights.npy", np.array([1.0, 0.0, 1.0, 1.0]))
    loss, slopes = step(
        *(SCORES, np.full(6, 1), tmp_path, "--loss", "cross_entropy"),
        *("--class-weights", tmp_path / "weights.npy"),
        *("--label-smoothing", 0.1),
    )
    assert loss == 0
    np.testing.assert_array_equal(slopes, 0)


TARGETS = np.abs(np.sin(5 * normal(6, 4)))
RATES = reference.log_softmax(SCORES)
SHARES = np.exp(reference.log_softmax(normal(6, 4))) * [1, 0, 1, 1]
ELEMENTWISE = {
    "mse": (SCORES, TARGETS, lambda x, t: (x - t) ** 2),
    "l1": (SCORES, TARGETS, lambda x, t: np.abs(x - t)),
    "huber": (SCORES, TARGETS, reference.huber),
    "smooth_l1": (SCORES, TARGETS, reference.huber),
    "bce": (1 / (1 + np.exp(-SCORES / 3)), TARGETS, reference.bce),
    "bce_with_logits": (SCORES, TARGETS, reference.bce_with_logits),
    "kl_div": (RATES, SHARES, reference.kl_div),
}


@pytest.mark.parametrize("how", ("mean", "sum"))
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name, how, tmp_path):
    value, target, function = ELEMENTWISE[name]
    reduction = "batchmean" if name == "kl_div" and how == "mean" else how
    check(
        *(value, target),
        lambda x: reference.reduce(function(x, target), how=reduction),
        *(tmp_path, "--loss", name, "--reduction", how),
    )


@pytest.mark.parametrize("shape", ((), (4,), (4, 1, 1)))
def test_pos_weight(shape, tmp_path):
    weight = 2.5 if not shape else np.array([0.5, 3.0, 0.0, 1.0]).reshape(shape)
    flag, value, target = weight, SCORES, TARGETS
    if shape:
        flag = tmp_path / "weights.npz"
        np.savez(flag, other=np.zeros(3), positive=weight)
        flag = f"positive={flag}"
    if len(shape) == 3:
        value, target = 2 * normal(2, 4, 3, 2), np.abs(np.sin(normal(2, 4, 3, 2)))
    check(
        *(value, target),
        lambda x: reference.bce_with_logits(x, target, weight).mean(),
        *(tmp_path, "--loss", "bce_with_logits", "--pos-weight", flag),
    )


def test_certain_probabilities(tmp_path):
    """At 0 and 1, PyTorch limits logarithms to -100, and the slope's divisor to
    1e-12."""
    value = np.array([[0.0, 1.0, 0.0, 1.0, 1e-30, 0.25]])
    target = np.array([[0.0, 1.0, 1.0, 0.0, 1.0, 0.5]])
    loss, slopes = step(value, target, tmp_path, "--loss", "bce")
    assert loss == pytest.approx(reference.bce(value, target).mean(), rel=1e-12)
    divisor = np.maximum(value * (1 - value), 1e-12)
    expected = (value - target) / divisor / value.size
    np.testing.assert_allclose(slopes, expected, rtol=1e-12)




@pytest.mark.parametrize("how", ("mean", "sum"))
@pytest.mark.parametrize("name", CLASS_OPTIONS)
def test_evaluation_is_of_the_whole_set(name, how, tmp_path):
    """11 samples in batches of 4. Samples have different weights, some of 0."""
    options = CLASS_OPTIONS[name]
    bias = normal(4, 3)
    scores = 2 * normal(11, 4, 3)
    labels = (np.arange(33).reshape(11, 3) * 5) % 4
    if options.get("ignored") == -100:
        labels[2:7] = -100
    model = mpctest.make_model(
        [helper.make_node("Add", ["x", "bias"], ["y"], "node")],
        {"x": (np.float64, ["N", 4, 3])},
        {"y": (np.float64, ["N", 4, 3])},
        {"bias": bias},
    )
    data = {"x": scores, "target": labels}
    np.savez(tmp_path / "held.npz", **data)
    metrics, _ = mpctest.train(
        *(model, data, tmp_path, "--loss", "cross_entropy@y:1"),
        *("--optimizer", "sgd", "--lr", 0, "--max-steps", 1),
        *("--batch-size", 4, "--precision", "64-true"),
        *("--val-data", tmp_path / "held.npz", "--reduction", how),
        *("--train", "^bias$"),
        *class_flags(tmp_path, options),
    )
    event = [event for event in metrics if event["event"] == "eval"][-1]
    terms = reference.cross_entropy(scores + bias, labels, **options)
    expected = reference.reduce(*terms, how=how)
    assert event["eval_loss"] == pytest.approx(expected, rel=1e-12)
    counts = labels != options.get("ignored", -100)
    right = (scores + bias).argmax(1) == labels
    assert event["eval_accuracy"] == pytest.approx(right[counts].mean())
    assert event["eval_samples"] == 11
