"""Defines the losses of `--loss` in float64, as in PyTorch.

Every function takes an output and its targets. It returns the loss of each
element or label, and some functions also return each label's weight in the
mean.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np


def log_softmax(scores):
    shifted = scores - scores.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def of_classes(log_prob, labels, weights=None, ignored=None, smoothing=0.0):
    """log_prob is (N, C, ...), labels are (N, ...)."""
    classes = log_prob.shape[1]
    weights = np.ones(classes) if weights is None else np.asarray(weights)
    counts = np.ones(labels.shape, bool) if ignored is None else labels != ignored
    safe = np.where(counts, labels, 0)
    picked = np.take_along_axis(log_prob, safe[:, None], 1)[:, 0]
    of_label = np.where(counts, weights[safe], 0.0)
    across = weights.reshape((1, classes) + (1,) * (labels.ndim - 1))
    shared = np.where(counts, -(log_prob * across).sum(1), 0.0)
    loss = -(1 - smoothing) * of_label * picked + smoothing / classes * shared
    return loss, of_label


def cross_entropy(scores, labels, **options):
    return of_classes(log_softmax(scores), labels, **options)


def bce_with_logits(x, t, pos_weight=1.0):
    softplus = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return pos_weight * t * (softplus - x) + (1 - t) * softplus


def bce(p, t):
    with np.errstate(divide="ignore"):
        yes, no = np.log(p), np.log1p(-p)
    return -(t * np.maximum(yes, -100) + (1 - t) * np.maximum(no, -100))


def huber(x, t):
    error = np.abs(x - t)
    return np.where(error <= 1, error**2 / 2, error - 0.5)


def kl_div(x, t):
    log = np.log(np.where(t > 0, t, 1.0))
    return np.where(t > 0, t * (log - x), 0.0)


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


def raised(base, gamma):
    return base**gamma if gamma else np.ones_like(base)


def focal(scores, labels, gamma=2.0, **options):
    """Lin et al. 2017, over softmax. The class weights are their alpha."""
    entropy, _ = cross_entropy(scores, labels, ignored=options.get("ignored"))
    loss, weight = cross_entropy(scores, labels, **options)
    return raised(1 - np.exp(-entropy), gamma) * loss, weight


def sigmoid_focal(x, t, gamma=2.0, alpha=0.25):
    """torchvision's sigmoid_focal_loss."""
    p = sigmoid(x)
    loss = bce_with_logits(x, t) * raised(1 - (p * t + (1 - p) * (1 - t)), gamma)
    return loss if alpha == -1 else (alpha * t + (1 - alpha) * (1 - t)) * loss


def dice_of(p, t, axes, smooth):
    both, all_of = (p * t).sum(axes), (p + t).sum(axes)
    return 1 - (2 * both + smooth) / (all_of + smooth)


def dice(scores, labels, smooth=1e-5, weights=None, ignored=None, how="mean"):
    """MONAI's DiceLoss(softmax=True, to_onehot_y=True)."""
    classes = scores.shape[1]
    counts = np.ones(labels.shape) if ignored is None else labels != ignored
    hot = np.moveaxis(np.eye(classes)[labels * (counts != 0)], -1, 1)
    counts = np.expand_dims(counts, 1)
    axes = tuple(range(2, scores.ndim))
    p = np.exp(log_softmax(scores))
    loss = dice_of(p * counts, hot * counts, axes, smooth)
    weights = np.ones(classes) if weights is None else np.asarray(weights)
    if how == "sum":
        return (loss * weights).sum()
    return ((loss * weights).sum(1) / weights.sum()).mean()


def sigmoid_dice(x, t, smooth=1e-5, how="mean"):
    """MONAI's DiceLoss(sigmoid=True). A row per sample is one mask."""
    axes = tuple(range(1 if x.ndim == 2 else 2, x.ndim))
    loss = dice_of(sigmoid(x), t, axes, smooth)
    return loss.sum() if how == "sum" else loss.mean()


def reduce(loss, weight=None, how="mean"):
    """Reduces like PyTorch, except that a mean over nothing is 0."""
    if how == "sum":
        return loss.sum()
    if how == "batchmean":
        return loss.sum() / len(loss)
    if weight is None:
        return loss.mean()
    return loss.sum() / weight.sum() if weight.sum() else 0.0


def gradient(function, x, step=2.0**-17):
    """Returns central differences of a scalar function."""
    slopes = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        sides = []
        for sign in (1, -1):
            moved = x.copy()
            moved[index] += sign * step
            sides.append(function(moved))
        slopes[index] = (sides[0] - sides[1]) / (2 * step)
    return slopes
