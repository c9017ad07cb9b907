"""Arithmetic of floats that are constants of the model: folding gives the bits
that kernels give of the same values as inputs.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

OPSET = 26
BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}
UNARY = {
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Neg": np.negative,
    "Reciprocal": lambda x: x.dtype.type(1) / x,
    "Relu": lambda x: np.where(x <= 0, x.dtype.type(0), x),
    "Round": np.round,
    "Sign": np.sign,
    "Sqrt": np.sqrt,
}


def pairs(dtype):
    """Two arrays with all pairs of the type's edges, and random numbers."""
    info = np.finfo(dtype)
    edges = [0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.5, 1 / 3, np.inf, -np.inf]
    edges += [np.nan, float(info.max), float(info.tiny)]
    edges += [float(info.smallest_subnormal), -float(info.smallest_subnormal)]
    a, b = np.meshgrid(np.array(edges, dtype), np.array(edges, dtype))
    random = np.random.RandomState(info.bits)
    scales = 2.0 ** random.uniform(-12, 12, (2, 400))
    more = (random.standard_normal((2, 400)) * scales).astype(dtype)
    return (
        np.concatenate([a.ravel(), more[0]]),
        np.concatenate([b.ravel(), more[1]]),
    )


def assert_same_bits(found, expected, name):
    """NaN is NaN, and -0 no 0; but which of two zeros is the larger, an x86 does
    not say."""
    assert found.dtype == expected.dtype, name
    np.testing.assert_array_equal(found, expected, name)
    if expected.dtype.kind == "f" and name not in ("Max", "Min"):
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(
            np.signbit(found[known]), np.signbit(expected[known]), name
        )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_folds_to_what_kernels_compute(dtype, tmp_path):
    a, b = pairs(dtype)
    nodes, expected = [], {}
    with np.errstate(all="ignore"):
        for op, function in BINARY.items():
            nodes.append(helper.make_node(op, ["a", "b"], [op]))
            expected[op] = function(a, b)
        for op, function in UNARY.items():
            nodes.append(helper.make_node(op, ["a"], [op]))
            expected[op] = function(a).astype(dtype)
        nodes.append(helper.make_node("Sum", ["a", "b", "a"], ["Sum"]))
        expected["Sum"] = a + b + a
    outputs = {k: (v.dtype, v.shape) for k, v in expected.items()}
    inputs = {"a": a, "b": b}
    types = {k: (v.dtype, v.shape) for k, v in inputs.items()}
    for folder in ("kernels", "folded"):
        (tmp_path / folder).mkdir()
    model = mpctest.make_model(nodes, types, outputs, {}, OPSET)
    kernels = mpctest.run(model, inputs, tmp_path / "kernels")
    for name, value in expected.items():
        np.testing.assert_array_equal(kernels[name], value, name)
    # Constants by their bits, for floats of the model's own are parameters.
    bits = {f"{k}_bits": v.view(f"i{v.itemsize}") for k, v in inputs.items()}
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constants = [
        helper.make_node("BitCast", [f"{k}_bits"], [k], to=to) for k in inputs
    ]
    model = mpctest.make_model(constants + nodes, {}, outputs, bits, OPSET)
    folded = mpctest.run(model, {}, tmp_path / "folded")
    for name in expected:
        assert_same_bits(folded[name], kernels[name], name)
    # No op is left to compute anything.
    path = tmp_path / "folded" / "constants.onnx"
    onnx.save(model, path)
    process = mpctest.mpc("compile", path, "--emit=import")
    assert process.returncode == 0, process.stderr
    ops = set(re.findall(r"= mpc\.([a-z_]+) ", process.stdout))
    assert ops == {"constant"}, ops


def test_parameters_never_fold(tmp_path):
    """What is trained is computed in every step."""
    model = mpctest.make_model(
        [
            helper.make_node("Mul", ["w", "w"], ["square"]),
            helper.make_node("MatMul", ["x", "square"], ["y"]),
        ],
        {"x": (np.float32, (2, 2))},
        {"y": (np.float32, (2, 2))},
        {"w": np.eye(2, dtype=np.float32) * 3},
        OPSET,
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("compile", tmp_path / "model.onnx", "--emit=import")
    assert process.returncode == 0, process.stderr
    assert "mpc.mul" in process.stdout
