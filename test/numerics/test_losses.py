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


FOCAL_OPTIONS = {
    "plain": {},
    "weights": {"weights": WEIGHTS},
    "ignored class": {"ignored": 3},
    "ignored": {"ignored": -100},
    "all": {"weights": WEIGHTS, "ignored": -100},
}


@pytest.mark.parametrize("how", ("mean", "sum"))
@pytest.mark.parametrize("name", FOCAL_OPTIONS)
@pytest.mark.parametrize("rank", (2, 3))
def test_focal(rank, name, how, tmp_path):
    options = FOCAL_OPTIONS[name]
    scores, labels = (SCORES, LABELS) if rank == 2 else (POSITIONS, PLACES)
    if options.get("ignored") == -100:
        labels = np.where(labels == 2, -100, labels)

    def loss(x):
        return reference.reduce(*reference.focal(x, labels, **options), how=how)

    output = "y" if rank == 2 else "y:1"
    check(
        *(scores, labels, loss, tmp_path, "--loss", f"focal@{output}"),
        *("--reduction", how, *class_flags(tmp_path, options)),
    )


GAMMAS = (0, 0.5, 1, 3.5)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_gamma(gamma, tmp_path):
    def loss(x):
        return reference.focal(x, LABELS, gamma=gamma)[0].mean()

    flags = ("--focal-gamma", gamma)
    check(SCORES, LABELS, loss, tmp_path, "--loss", "focal", *flags)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_certain_labels(gamma, tmp_path):
    """Where p is 1 or a label is ignored, 1 - p is 0: its power with a gamma
    below 1 has an infinite slope, but the loss has none."""
    scores = np.array([[800.0, 0, 0, 0], [0, 800.0, 0, 0], [0, 0, 1.0, 0]])
    labels = np.array([0, -100, 2])
    loss, slopes = step(
        *(scores, labels, tmp_path, "--loss", "focal", "--focal-gamma", gamma),
    )
    expected = reference.focal(scores[2:], labels[2:], gamma=gamma)[0].sum() / 2
    assert loss == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(slopes[:2], 0)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("alpha", (0.25, 0.7, -1))
@pytest.mark.parametrize("gamma", (0, 0.5, 2, 3))
def test_sigmoid_focal(gamma, alpha, tmp_path):
    check(
        *(SCORES, TARGETS),
        lambda x: reference.sigmoid_focal(x, TARGETS, gamma, alpha).mean(),
        *(tmp_path, "--loss", "sigmoid_focal", "--focal-gamma", gamma),
        f"--focal-alpha={alpha}",
    )


@pytest.mark.parametrize("how", ("mean", "sum"))
@pytest.mark.parametrize("name", FOCAL_OPTIONS)
@pytest.mark.parametrize("smooth", (1e-5, 1.0))
def test_dice(smooth, name, how, tmp_path):
    options = FOCAL_OPTIONS[name]
    labels = np.where(PLACES == 2, -100, PLACES)
    labels = labels if options.get("ignored") == -100 else PLACES

    def loss(x):
        return reference.dice(x, labels, smooth, how=how, **options)

    check(
        *(POSITIONS, labels, loss, tmp_path, "--loss", "dice@y:1"),
        *("--reduction", how, *class_flags(tmp_path, options)),
        *(("--dice-smooth", smooth) if smooth != 1e-5 else ()),
    )


def test_dice_of_classes_on_the_last_axis(tmp_path):
    last = np.moveaxis(POSITIONS, 1, 2).copy()
    check(
        *(last, PLACES, lambda x: reference.dice(np.moveaxis(x, 2, 1), PLACES)),
        *(tmp_path, "--loss", "dice@y:2"),
    )


@pytest.mark.parametrize("how", ("mean", "sum"))
@pytest.mark.parametrize("shape", ((6, 4), (2, 3, 4, 2)))
def test_sigmoid_dice(shape, how, tmp_path):
    value, target = 2 * normal(*shape), (normal(*shape) > 0.3).astype(float)
    check(
        *(value, target),
        lambda x: reference.sigmoid_dice(x, target, how=how),
        *(tmp_path, "--loss", "sigmoid_dice", "--reduction", how),
    )


IMAGES = 2 * normal(2, 3, 4, 2)
MASKS = (np.arange(48).reshape(2, 3, 4, 2) * 7 % 3 == 0).astype(float)
HOT = (np.arange(24).reshape(6, 4) * 7 % 3 == 0).astype(float)

# Losses of the libraries that people come from, in float64: PyTorch 2.15,
# torchvision 0.29.2, MONAI 1.6.1 and segmentation_models_pytorch 0.6.0, whose
# `smooth` is half of the others'.
FIGURES = {
    # l = cross_entropy(x, t, reduction="none"); ((1 - exp(-l)) ** 2 * l).mean()
    "torch": (SCORES, LABELS, 3.3870294971323545, "focal"),
    # sigmoid_focal_loss(x, t, reduction="mean")
    "torchvision": (SCORES, HOT, 1.034894721488844, "sigmoid_focal"),
    # DiceLoss(softmax=True, to_onehot_y=True)
    "monai": (POSITIONS, PLACES, 0.755663944353559, "dice@y:1"),
    # DiceLoss(sigmoid=True)
    "monai sigmoid": (IMAGES, MASKS, 0.6804511273183991, "sigmoid_dice"),
    # DiceLoss("multiclass", smooth=0.5), with one sample per batch
    "smp": (
        *(POSITIONS[:1], PLACES[:1], 0.5561919561221781, "dice@y:1"),
        *("--dice-smooth", 1),
    ),
    # DiceLoss("binary", smooth=0.5), with one sample per batch
    "smp binary": (
        *(IMAGES[:1, :1], MASKS[:1, :1], 0.6912687257222347, "sigmoid_dice"),
        *("--dice-smooth", 1),
    ),
}


@pytest.mark.parametrize("library", FIGURES)
def test_figures_of_libraries(library, tmp_path):
    value, target, figure, name, *flags = FIGURES[library]
    loss, _ = step(value, target, tmp_path, "--loss", name, *flags)
    assert loss == pytest.approx(figure, rel=1e-12)


@pytest.mark.parametrize("name", ("focal@y:1", "dice@y:1", "sigmoid_dice"))
def test_evaluation_of_focal_and_dice(name, tmp_path):
    """11 samples in batches of 4, of which some have ignored labels."""
    scores, bias = 2 * normal(11, 4, 3), normal(4, 3)
    labels = (np.arange(33).reshape(11, 3) * 5) % 4
    labels[2:7, 1:] = -100
    masks = (np.arange(132).reshape(11, 4, 3) * 7 % 3 == 0).astype(float)
    is_binary = name == "sigmoid_dice"
    model = mpctest.make_model(
        [helper.make_node("Add", ["x", "bias"], ["y"], "node")],
        {"x": (np.float64, ["N", 4, 3])},
        {"y": (np.float64, ["N", 4, 3])},
        {"bias": bias},
    )
    data = {"x": scores, "target": masks if is_binary else labels}
    np.savez(tmp_path / "held.npz", **data)
    metrics, _ = mpctest.train(
        *(model, data, tmp_path, "--loss", name, "--optimizer", "sgd"),
        *("--lr", 0, "--max-steps", 1, "--batch-size", 4, "--train", "^bias$"),
        *("--precision", "64-true", "--val-data", tmp_path / "held.npz"),
    )
    event = [event for event in metrics if event["event"] == "eval"][-1]
    x = scores + bias
    if is_binary:
        expected = reference.sigmoid_dice(x, masks)
        accuracy = ((x > 0) == masks).mean()
    else:
        counts = labels != -100
        accuracy = (x.argmax(1) == labels)[counts].mean()
        expected = (
            reference.dice(x, labels, ignored=-100)
            if name.startswith("dice")
            else reference.reduce(*reference.focal(x, labels, ignored=-100))
        )
    assert event["eval_loss"] == pytest.approx(expected, rel=1e-12)
    assert event["eval_accuracy"] == pytest.approx(accuracy)
    assert event["eval_samples"] == 11
