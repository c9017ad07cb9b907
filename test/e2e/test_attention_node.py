"""ONNX's Attention where its specification says more than a formula.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

SHAPE = [2, 3, 4, 5]  # batch, heads, tokens, size
HIDDEN = np.zeros((4, 4), bool)
HIDDEN[1] = True


def attention(mask, opset=23, results=("y",), **attributes):
    """Of x with itself, scaled by a parameter."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["q"], "scaled"),
        helper.make_node(
            "Attention", ["q", "x", "x", "mask"], results, "attention", **attributes
        ),
    ]
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, SHAPE)},
        {"y": (np.float32, SHAPE)},
        {"w": np.full(5, 0.5, np.float32), "mask": mask},
        opset=opset,
    )


def make_x():
    return np.random.RandomState(0).normal(size=SHAPE).astype(np.float32)


MASKS = {
    "boolean": ~HIDDEN,
    "added": np.where(HIDDEN, -np.inf, 0).astype(np.float32),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("is_one_op", [True, False])
def test_a_query_that_sees_no_key_gets_zeros(mask, is_one_op, tmp_path):
    """As in PyTorch, which exports it as this node."""
    extra = {} if is_one_op else {"softmax_precision": 11}
    model = attention(MASKS[mask], **extra)
    found = mpctest.run(model, {"x": make_x()}, tmp_path)["y"]
    assert np.isfinite(found).all()
    assert (found[:, :, 1] == 0).all()
    assert (found[:, :, [0, 2, 3]] != 0).all()


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_its_gradient_is_zero(precision, tmp_path):
    data = {"x": make_x(), "target": np.zeros(SHAPE, np.float32)}
    metrics, weights = mpctest.train(
        attention(MASKS["boolean"]),
        data,
        tmp_path,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", "1", "--train", "w"),
        *("--max-steps", "3", "--precision", precision),
    )
    losses = mpctest.losses(metrics)
    assert np.isfinite(weights["w"]).all()
    assert losses[2] < losses[0]


@pytest.mark.parametrize("name", ["left_window_size", "right_window_size"])
def test_windows_are_refused(name, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(attention(MASKS["boolean"], opset=25, **{name: 1}), path)
    process = mpctest.mpc("compile", path, "--emit=import", "-o", "-")
    assert process.returncode == 4
    assert f"node 'attention' (Attention): attribute '{name}'" in process.stderr
