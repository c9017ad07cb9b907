"""Folding float arithmetic on constants gives the bits of kernels on equal
inputs.

SPDX-License-Identifier: Apache-2.0
"""

import re

import ml_dtypes
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
    """Returns two arrays with all pairs of the type's limits, and random
    numbers."""
    info = ml_dtypes.finfo(dtype)
    edges = [0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.5, 1 / 3, np.inf, -np.inf]
    edges += [np.nan, float(info.max), float(info.tiny)]
    # Some processors flush bfloat16's subnormals to 0.
    if dtype != ml_dtypes.bfloat16:
        least = float(info.smallest_subnormal)
        edges += [least, -least]
    a, b = np.meshgrid(np.array(edges, dtype), np.array(edges, dtype))
    random = np.random.RandomState(info.bits)
    scales = 2.0 ** random.uniform(-12, 12, (2, 400))
    more = (random.standard_normal((2, 400)) * scales).astype(dtype)
    return (
        np.concatenate([a.ravel(), more[0]]),
        np.concatenate([b.ravel(), more[1]]),
    )


def is_float(dtype):
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


def widen(array):
    """Converts bfloat16 to float32, whose NaN NumPy knows. Subnormals become 0,
    as on some processors."""
    if array.dtype != ml_dtypes.bfloat16:
        return array
    wide = array.astype(np.float32)
    is_normal = ~(np.abs(wide) < float(ml_dtypes.finfo(array.dtype).tiny))
    return np.where(is_normal, wide, np.copysign(np.float32(0), wide))


def assert_same_bits(found, expected, name):
    """Treats all NaN as equal, and -0 as different from 0. x86 does not define
    the larger of two zeros."""
    assert found.dtype == expected.dtype, name
    found, expected = widen(found), widen(expected)
    np.testing.assert_array_equal(found, expected, name)
    if is_float(expected.dtype) and name not in ("Max", "Min"):
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(
            np.signbit(found[known]), np.signbit(expected[known]), name
        )


def as_bits(array):
    return array.view(f"i{array.itemsize}")


def run_on_bits(nodes, arrays, expected, are_given, folder):
    """Returns the outputs of `nodes`, whose arrays are inputs or constants. All
    floats go in and out as bits: NumPy files cannot hold bfloat16, and float
    initializers would be parameters."""
    folder.mkdir()
    bits = {f"{name}_bits": as_bits(array) for name, array in arrays.items()}
    before, after, outputs = [], [], {}
    for name, array in arrays.items():
        to = helper.np_dtype_to_tensor_dtype(array.dtype)
        before.append(helper.make_node("BitCast", [f"{name}_bits"], [name], to=to))
    for name, value in expected.items():
        outputs[name] = (value.dtype, value.shape)
        if is_float(value.dtype):
            to = helper.np_dtype_to_tensor_dtype(as_bits(value).dtype)
            result = f"{name}_bits"
            after.append(helper.make_node("BitCast", [name], [result], to=to))
            outputs[result] = (as_bits(value).dtype, outputs.pop(name)[1])
    inputs = bits if are_given else {}
    model = mpctest.make_model(
        *(before + nodes + after, {k: (v.dtype, v.shape) for k, v in inputs.items()}),
        *(outputs, {} if are_given else bits, OPSET),
    )
    found = mpctest.run(model, inputs, folder)
    return model, {
        name: found[f"{name}_bits"].view(value.dtype)
        if is_float(value.dtype)
        else found[name]
        for name, value in expected.items()
    }


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
)
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
    arrays = {"a": a, "b": b}
    _, kernels = run_on_bits(nodes, arrays, expected, True, tmp_path / "kernels")
    for name, value in expected.items():
        np.testing.assert_array_equal(widen(kernels[name]), widen(value), name)
    model, folded = run_on_bits(nodes, arrays, expected, False, tmp_path / "folded")
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
    """Every step computes trained values."""
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
