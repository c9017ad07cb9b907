"""Loss scaling and master weights work, and training without them fails.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest

BATCH, WIDTH, OUTPUTS = 64, 16, 8


def regression(factor):
    """Returns a two-layer network, and data from another such network. `factor`
    multiplies the output and therefore the gradient."""
    random = np.random.RandomState(11)

    def weight(*shape):
        return (random.standard_normal(shape) / 4).astype(np.float32)

    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "layer1"),
        helper.make_node("Relu", ["h"], ["a"], "relu"),
        helper.make_node("MatMul", ["a", "w2"], ["z"], "layer2"),
        helper.make_node("Mul", ["z", "factor"], ["y"], "shrink"),
    ]
    w1, w2 = weight(WIDTH, WIDTH), weight(WIDTH, OUTPUTS)
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", WIDTH])},
        {"y": (np.float32, ["N", OUTPUTS])},
        {"w1": w1, "w2": w2, "factor": np.array(factor, np.float32)},
    )
    x = random.standard_normal((BATCH, WIDTH)).astype(np.float32)
    target = np.maximum(x @ weight(WIDTH, WIDTH), 0) @ weight(WIDTH, OUTPUTS)
    return model, {"x": x, "target": (target * factor).astype(np.float32)}


def fit(task, folder, loss_scale, precision="16-mixed", steps=200):
    model, data = task
    metrics, weights = mpctest.train(
        model,
        data,
        folder,
        *("--loss", "mse", "--optimizer", "adam", "--eps", "1e-15"),
        *("--lr", "0.01", "--batch-size", BATCH, "--max-steps", steps),
        *("--precision", precision, "--loss-scale", loss_scale),
    )
    return [m for m in metrics if m["event"] == "train"], weights


# d loss / d z = 2 factor^2 (z - t) / (BATCH * OUTPUTS) is about 4e-9 for a
# factor of 1e-3. The result is below 2^-25, half of float16's smallest number,
# and well inside its range after scaling by 2^16.
UNDERFLOWING = 1e-3


def test_gradients_that_underflow_train_with_dynamic_scaling(tmp_path):
    steps, _ = fit(regression(UNDERFLOWING), tmp_path, "dynamic")
    assert steps[-1]["loss"] < 0.1 * steps[0]["loss"]
    assert steps[0]["loss_scale"] == 2.0**16


def test_gradients_that_underflow_do_not_train_without_scaling(tmp_path):
    """Negative control: every weight keeps its bits."""
    task = regression(UNDERFLOWING)
    steps, weights = fit(task, tmp_path, "none")
    initial = mpctest.read_weights(tmp_path / "model.onnx")
    np.testing.assert_array_equal(weights["w1"], initial["w1"])
    np.testing.assert_array_equal(weights["w2"], initial["w2"])
    assert steps[-1]["loss"] == steps[0]["loss"]


def test_a_fixed_scale_is_enough_where_it_fits(tmp_path):
    steps, _ = fit(regression(UNDERFLOWING), tmp_path, "65536")
    assert steps[-1]["loss"] < 0.1 * steps[0]["loss"]
    assert {step["loss_scale"] for step in steps} == {65536.0}


def test_bf16_needs_no_scaling(tmp_path):
    task = regression(UNDERFLOWING)
    steps, _ = fit(task, tmp_path, "none", precision="bf16-mixed")
    assert steps[-1]["loss"] < 0.1 * steps[0]["loss"]


def test_overflow_skips_the_update_and_halves_the_scale(tmp_path):
    """Gradients of about 4 overflow float16 at 2^16 and at some lower scales."""
    steps, _ = fit(regression(30), tmp_path, "dynamic", steps=300)
    skipped = [step["skipped"] for step in steps]
    assert skipped[0] and not all(skipped)
    for step, following in zip(steps, steps[1:]):
        if step["skipped"]:
            assert following["loss_scale"] == step["loss_scale"] / 2
    first_update = skipped.index(False)
    for step in steps[1 : first_update + 1]:
        assert (
            step["loss"] == steps[0]["loss"]
        ), "a skipped step changed weights"
    assert steps[-1]["loss"] < 0.1 * steps[0]["loss"]
    assert steps[-1]["skipped_total"] == sum(skipped)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_master_weights_keep_small_updates(precision, tmp_path):
    """Updates below half a step of the low type near 1 add up in the masters. A
    low-precision weight would not move at all. The last assertion shows that
    for float16, and bfloat16's steps are larger."""
    steps, update = 64, np.float32(2.0**-12)
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], "layer"),
            helper.make_node("ReduceSum", ["y"], ["loss"], "sum", keepdims=0),
        ],
        {"x": (np.float32, ["N", 4])},
        {"loss": (np.float32, [])},
        {"w": np.ones((4, 3), np.float32)},
    )
    _, weights = mpctest.train(
        model,
        {"x": np.ones((1, 4), np.float32)},
        tmp_path,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", update),
        *("--batch-size", "1", "--max-steps", steps, "--epochs", steps),
        # The dynamic scale starts at 2^16 and would overflow float16 once.
        *("--precision", precision, "--loss-scale", "1024"),
    )
    np.testing.assert_array_equal(
        weights["w"], np.full((4, 3), 1 - steps * update)
    )
    assert np.float16(1) - np.float16(update) == np.float16(1)
