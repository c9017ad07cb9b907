"""The verifiers of types accept models that evaluation changes, and attentions
with several biases.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

MODES = ["bf16-mixed", "16-mixed"]


def numbers(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def dropped_weight():
    """Returns a model that drops elements of a weight, as DropConnect does."""
    nodes = [
        helper.make_node("Dropout", ["w", "ratio", "training"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["h"], "product"),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    weights = {
        "w": numbers(8, 8),
        "v": numbers(8, 4),
        "ratio": np.float32(0.5),
        "training": np.bool_(True),
    }
    return nodes, {"x": (np.float32, ["N", 8])}, weights


def attention_with_two_biases():
    """Returns an attention with a learned bias of positions and a mask of
    data."""
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("MatMul", ["x", "wv"], ["v"]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Sub", ["one", "m"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "low"], ["mask"]),
        helper.make_node("Unsqueeze", ["mask", "axis"], ["masks"]),
        helper.make_node("Add", ["s", "masks"], ["b"]),
        helper.make_node("Add", ["b", "positions"], ["c"]),
        helper.make_node("Softmax", ["c"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["o"]),
        helper.make_node("MatMul", ["o", "wo"], ["y"]),
    ]
    weights = {name: numbers(8, 8) for name in ("wq", "wk", "wv", "wo")}
    weights |= {
        "positions": numbers(1, 6, 6),
        "one": np.float32(1),
        "low": np.float32(-1e4),
        "axis": np.array([1]),
    }
    inputs = {"x": (np.float32, ["N", 6, 8]), "m": (np.float32, ["N", 6])}
    return nodes, inputs, weights


@pytest.mark.parametrize("precision", MODES)
@pytest.mark.parametrize("make", [dropped_weight, attention_with_two_biases])
def test_no_verifier_refuses(make, precision, tmp_path):
    nodes, inputs, weights = make()
    model = mpctest.make_model(
        nodes, inputs, {"y": (np.float32, None)}, weights, 17
    )
    onnx.save(model, tmp_path / "model.onnx")
    flags = ("--loss", "mse", "--batch-size", "4", "--precision", precision)
    mpctest.mpc_ok("compile", tmp_path / "model.onnx", *flags, "--emit=plan")


@pytest.mark.parametrize("precision", MODES)
def test_no_bias_of_an_attention_is_rounded(precision, tmp_path):
    nodes, inputs, weights = attention_with_two_biases()
    model = mpctest.make_model(
        nodes, inputs, {"y": (np.float32, None)}, weights, 17
    )
    onnx.save(model, tmp_path / "model.onnx")
    flags = ("--loss", "mse", "--batch-size", "4", "--precision", precision)
    text = mpctest.mpc_ok(
        "compile", tmp_path / "model.onnx", *flags, "--emit=precision"
    ).stdout
    # Query, key, value and both biases.
    operands = re.findall(r"mpc\.attention %.* : \((.*)\) -> tensor", text)
    assert operands
    for types in operands:
        assert re.findall(r"x(b?f\d+)>", types)[3:5] == ["f32", "f32"]
