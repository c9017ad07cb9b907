"""Every optimizer follows its formula in NumPy over a few steps, in float64.

The loss is sum(x * w), so that the gradient of w is the data: one row a batch.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest

STEPS, SIZE = 5, 7
# One rounding to float64 per operation, a few hundred operations.
TOLERANCE = 1e-13

random = np.random.RandomState(3)
WEIGHT = random.standard_normal(SIZE)
GRADIENTS = random.standard_normal((STEPS, SIZE))


def train(gradients, folder, *flags):
    """Returns the weights after one step for every gradient, and the metrics."""
    model = mpctest.make_model(
        [
            helper.make_node("Mul", ["x", "w"], ["terms"], "mul"),
            helper.make_node("ReduceSum", ["terms"], ["loss"], "sum", keepdims=0),
        ],
        {"x": (np.float64, ["N", SIZE])},
        {"loss": (np.float64, [])},
        {"w": WEIGHT},
    )
    metrics, weights = mpctest.train(
        model,
        {"x": gradients},
        folder,
        *("--loss", "output:loss", "--batch-size", "1"),
        *("--precision", "64-true", "--lr", "0.1", "--train", "^w$"),
        *flags,
    )
    return weights["w"], [m for m in metrics if m["event"] == "train"]


def sgd(w, g, state, t, decay=0.0):
    return w - 0.1 * (g + decay * w)


def momentum(w, g, state, t, decay=0.0, nesterov=False):
    g = g + decay * w
    v = state["v"] = 0.9 * state.get("v", 0) + g
    return w - 0.1 * (g + 0.9 * v if nesterov else v)


def nesterov(w, g, state, t, decay=0.0):
    return momentum(w, g, state, t, decay, nesterov=True)


def adam_direction(g, state, t, eps):
    m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    v = state["v"] = 0.999 * state.get("v", 0) + (1 - 0.999) * g * g
    return m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + eps)


def adam(w, g, state, t, decay=0.0):
    return w - 0.1 * adam_direction(g + decay * w, state, t, 1e-8)


def adamw(w, g, state, t, decay=0.01):
    w = w * (1 - 0.1 * decay)
    return w - 0.1 * adam_direction(g, state, t, 1e-8)


def adagrad(w, g, state, t, decay=0.0):
    g = g + decay * w
    h = state["h"] = state.get("h", 0) + g * g
    return w - 0.1 * g / (np.sqrt(h) + 1e-10)


def rmsprop(w, g, state, t, decay=0.0, alpha=0.99, eps=1e-8, momentum=0.0, centered=False):
    g = g + decay * w
    v = state["v"] = alpha * state.get("v", 0) + (1 - alpha) * g * g
    if centered:
        m = state["m"] = alpha * state.get("m", 0) + (1 - alpha) * g
        v = v - m * m
    move = g / (np.sqrt(v) + eps)
    if momentum:
        move = state["velocity"] = momentum * state.get("velocity", 0) + move
    return w - 0.1 * move


def lamb(w, g, state, t, decay=0.01):
    r = adam_direction(g, state, t, 1e-6) + decay * w
    ratio = np.linalg.norm(w) / np.linalg.norm(r)
    return w - 0.1 * ratio * r


def lion(w, g, state, t, decay=0.0, beta1=0.9, beta2=0.99):
    m = state.get("m", 0)
    direction = np.sign(beta1 * m + (1 - beta1) * g)
    state["m"] = beta2 * m + (1 - beta2) * g
    return w - 0.1 * (direction + decay * w)


OPTIMIZERS = [sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop, lamb, lion]


def expected(optimizer, gradients, **settings):
    w, state = WEIGHT.copy(), {}
    for t, g in enumerate(gradients, 1):
        w = optimizer(w, g, state, t, **settings)
    return w


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: o.__name__)
def test_matches_its_formula(optimizer, tmp_path):
    w, _ = train(GRADIENTS, tmp_path, "--optimizer", optimizer.__name__)
    np.testing.assert_allclose(
        w, expected(optimizer, GRADIENTS), rtol=0, atol=TOLERANCE
    )


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: o.__name__)
def test_weight_decay(optimizer, tmp_path):
    w, _ = train(
        GRADIENTS,
        tmp_path,
        *("--optimizer", optimizer.__name__, "--weight-decay", "0.3"),
    )
    right = expected(optimizer, GRADIENTS, decay=0.3)
    np.testing.assert_allclose(w, right, rtol=0, atol=TOLERANCE)
    assert np.abs(right - expected(optimizer, GRADIENTS)).max() > 1e-3


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_variants_of_rmsprop(momentum, centered, tmp_path):
    flags = ["--optimizer", "rmsprop", "--alpha", "0.9", "--eps", "1e-3"]
    flags += ["--momentum", momentum] if momentum else []
    flags += ["--centered"] if centered else []
    w, _ = train(GRADIENTS, tmp_path, *flags)
    settings = dict(alpha=0.9, eps=1e-3, momentum=momentum, centered=centered)
    right = expected(rmsprop, GRADIENTS, **settings)
    # A direction is a quotient, which magnifies earlier roundings.
    np.testing.assert_allclose(w, right, rtol=0, atol=10 * TOLERANCE)
    assert np.abs(right - expected(rmsprop, GRADIENTS)).max() > 1e-3


def test_betas_of_lion(tmp_path):
    flags = ["--optimizer", "lion", "--beta1", "0.5", "--beta2", "0.6"]
    w, _ = train(GRADIENTS, tmp_path, *flags)
    right = expected(lion, GRADIENTS, beta1=0.5, beta2=0.6)
    np.testing.assert_allclose(w, right, rtol=0, atol=TOLERANCE)
    assert np.abs(right - expected(lion, GRADIENTS)).max() > 0.1


def test_equal_gradients_have_no_negative_variance(tmp_path):
    w, _ = train(
        np.full((400, SIZE), 0.3),
        tmp_path,
        *("--optimizer", "rmsprop", "--centered", "--alpha", "0.5", "--eps", "1"),
    )
    assert np.isfinite(w).all()


def test_clipping_bounds_the_norm(tmp_path):
    w, steps = train(
        GRADIENTS,
        tmp_path,
        *("--optimizer", "sgd", "--gradient-clip-val", "1.5"),
    )
    norms = np.linalg.norm(GRADIENTS, axis=1, keepdims=True)
    clipped = GRADIENTS * np.minimum(1, 1.5 / (norms + 1e-6))
    np.testing.assert_allclose(
        w, expected(sgd, clipped), rtol=0, atol=TOLERANCE
    )
    # The metrics report the norm before clipping.
    np.testing.assert_allclose(
        [step["grad_norm"] for step in steps], norms[:, 0], rtol=1e-15
    )


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_accumulation(reduction, tmp_path):
    gradients = random.standard_normal((3 * 4, SIZE))
    w, steps = train(
        gradients,
        tmp_path,
        *("--optimizer", "momentum", "--accumulate-grad-batches", "4"),
        *("--accumulate-reduction", reduction),
    )
    reduce = np.mean if reduction == "mean" else np.sum
    updates = reduce(gradients.reshape(3, 4, SIZE), axis=1)
    np.testing.assert_allclose(
        w, expected(momentum, updates), rtol=0, atol=TOLERANCE
    )
    assert [step["micro_step"] for step in steps] == [4, 8, 12]


def test_learning_rate_follows_the_schedule(tmp_path):
    w, steps = train(
        GRADIENTS,
        tmp_path,
        *("--optimizer", "sgd", "--lr-scheduler", "linear"),
    )
    rates = np.array([step["lr"] for step in steps])
    np.testing.assert_allclose(
        w, WEIGHT - rates @ GRADIENTS, rtol=0, atol=TOLERANCE
    )
    assert (np.diff(rates) < 0).all()
