"""Mixed precision in loops is as exact as outside: a loss that a Scan sums, and
a gate that a Scan subtracts from 1.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

BATCH, STEPS, WIDTH, CLASSES = 8, 16, 32, 16
MIXED = ["bf16-mixed", "16-mixed"]
ONE = numpy_helper.from_array(np.float32(1), "one")


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], output, **attributes)


def scan(nodes, carried, parts, outputs, constants):
    """Returns a Scan over axis 0 of `parts`, whose body carries `carried`."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        nodes,
        "body",
        [info(name, TensorProto.FLOAT, None) for name in (carried, *parts)],
        [info(name, TensorProto.FLOAT, None) for name in outputs],
        constants,
    )
    return {"body": body, "num_scan_inputs": len(parts)}


def weight(random, *shape):
    return (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def summed_loss(random):
    """Returns a binary cross entropy in the model's own ops, summed over steps."""
    terms = [
        node("Log", ["p"], "log_p"),
        node("Sub", ["one", "p"], "q"),
        node("Log", ["q"], "log_q"),
        node("Sub", ["one", "t"], "u"),
        node("Mul", ["t", "log_p"], "with_p"),
        node("Mul", ["u", "log_q"], "with_q"),
        node("Add", ["with_p", "with_q"], "both"),
        node("ReduceSum", ["both", "axis"], "sum", keepdims=0),
        node("Sub", ["a", "sum"], "more"),
    ]
    axis = numpy_helper.from_array(np.array([1]), "axis")
    loop = scan(terms, "a", ["p", "t"], ["more"], [axis, ONE])
    return mpctest.make_model(
        [
            node("MatMul", ["x", "w1"], "h"),
            node("Relu", ["h"], "r"),
            node("MatMul", ["r", "w2"], "z"),
            node("Sigmoid", ["z"], "prob"),
            node("Scan", ["zeros", "prob", "t"], "losses", **loop),
            node("ReduceMean", ["losses"], "loss", keepdims=0),
        ],
        {
            "x": (np.float32, [STEPS, BATCH, WIDTH]),
            "t": (np.float32, [STEPS, BATCH, CLASSES]),
        },
        {"loss": (np.float32, [])},
        {
            "w1": 2 * weight(random, WIDTH, WIDTH),
            # Some probabilities round to 1 in bfloat16 and float16.
            "w2": 2 * weight(random, WIDTH, CLASSES),
            "zeros": np.zeros(BATCH, np.float32),
        },
    )


def train_summed_loss(folder, *flags):
    random = np.random.default_rng(0)
    model = summed_loss(random)
    data = {
        "x": random.standard_normal((STEPS, BATCH, WIDTH)).astype(np.float32),
        "t": random.integers(0, 2, (STEPS, BATCH, CLASSES)).astype(np.float32),
    }
    metrics, _ = mpctest.train(
        model,
        data,
        folder,
        *("--loss", "output:loss", "--batch-axis", "x=1", "--batch-axis", "t=1"),
        *("--batch-size", BATCH, "--lr", 0.001, "--max-steps", 6),
        *flags,
    )
    return mpctest.losses(metrics)


@pytest.mark.parametrize("precision", MIXED)
def test_a_loss_that_a_loop_sums_is_float32(precision, tmp_path):
    expected = train_summed_loss(tmp_path, "--precision", "32-true")
    found = train_summed_loss(tmp_path, "--precision", precision)
    assert expected[-1] < 0.95 * expected[0]
    np.testing.assert_allclose(found, expected, rtol=5e-3)


def test_no_flag_changes_a_loss_within_a_loop(tmp_path):
    expected = train_summed_loss(tmp_path, "--precision", "bf16-mixed")
    # The product is the model's and may be forced. The loss must not be.
    forced = "--force-low=^(prob|log_p|q|log_q|with_p|with_q|both|more|z)$"
    found = train_summed_loss(tmp_path, "--precision", "bf16-mixed", forced)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, expected, rtol=2e-2)
    with pytest.raises(AssertionError, match="only nodes whose precision is fixed"):
        train_summed_loss(
            tmp_path, "--precision", "bf16-mixed", "--force-low=^(prob|q|more)$"
        )


def gated(random):
    """Returns c = f c + (1 - f) v over steps, where f is close to 1."""
    cell = [
        node("Sub", ["one", "f"], "keep"),
        node("Mul", ["keep", "v"], "new"),
        node("Mul", ["f", "c"], "old"),
        node("Add", ["new", "old"], "next"),
    ]
    loop = scan(cell, "c", ["f", "v"], ["next"], [ONE])
    return mpctest.make_model(
        [
            node("MatMul", ["x", "wf"], "zf"),
            node("Add", ["zf", "bf"], "zb"),
            node("Sigmoid", ["zb"], "gate"),
            node("MatMul", ["x", "wx"], "value"),
            node("Scan", ["zeros", "gate", "value"], "state", **loop),
            node("MatMul", ["state", "wo"], "y"),
        ],
        {"x": (np.float32, [STEPS, BATCH, WIDTH])},
        {"y": (np.float32, [BATCH, WIDTH])},
        {
            "wf": 0.1 * weight(random, WIDTH, WIDTH),
            "bf": np.full(WIDTH, 7, np.float32),
            "wx": weight(random, WIDTH, WIDTH),
            "wo": np.eye(WIDTH, dtype=np.float32),
            "zeros": np.zeros((BATCH, WIDTH), np.float32),
        },
    )


@pytest.mark.parametrize("precision", MIXED)
def test_a_gate_that_a_loop_takes_from_one_keeps_its_digits(precision, tmp_path):
    """The targets are float32's y, so that the loss measures lost digits."""
    random = np.random.default_rng(0)
    model = gated(random)
    x = random.standard_normal((STEPS, BATCH, WIDTH)).astype(np.float32)
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    metrics, _ = mpctest.train(
        model,
        {"x": x, "target": y},
        tmp_path,
        *("--loss", "mse", "--batch-axis", "x=1", "--batch-size", BATCH),
        *("--lr", 0, "--max-steps", 1, "--precision", precision),
    )
    assert mpctest.losses(metrics)[0] < 1e-3 * np.mean(y**2)
