"""Functions of one operand are right over their whole range: every number of 16
bits, and wide numbers of every size, with infinities and NaN.

Kernels compute in float32 or float64. A 16-bit result is therefore correctly
rounded, unless the function is very close to the middle of two numbers.

SPDX-License-Identifier: Apache-2.0
"""

import math
import pathlib

import numpy as np
import pytest
from onnx import TensorProto, helper

import mpctest

FUNCTIONS = {
    "Acos": math.acos,
    "Acosh": math.acosh,
    "Asin": math.asin,
    "Asinh": math.asinh,
    "Atan": math.atan,
    "Atanh": math.atanh,
    "Ceil": math.ceil,
    "Cos": math.cos,
    "Cosh": math.cosh,
    "Floor": math.floor,
    "Round": round,
    "Sin": math.sin,
    "Sinh": math.sinh,
    "Tan": math.tan,
}
STEPS = ("Ceil", "Floor", "Round")
# At the ends of the domain, Python's math raises an error.
POLES = {("Atanh", 1.0): np.inf, ("Atanh", -1.0): -np.inf}
OPSET = 22


def evaluate(op, x):
    """Evaluates in float64, by libm."""
    if op in STEPS and not np.isfinite(x):
        return x
    try:
        y = FUNCTIONS[op](x)
    except OverflowError:
        return -np.inf if op == "Sinh" and x < 0 else np.inf
    except ValueError:
        return POLES.get((op, x), np.nan)
    return math.copysign(y, x) if y == 0 and op in STEPS else y


def evaluate_all(op, x):
    return np.array([evaluate(op, float(v)) for v in x.ravel()], np.float64)


def run_all(x, casts, folder, *flags):
    """Runs every function of x, in the types of `casts`."""
    nodes, source = [], "x"
    if casts:
        nodes.append(helper.make_node("Cast", ["x"], ["low"], to=casts))
        source = "low"
    for op in FUNCTIONS:
        result = f"{op}_low" if casts else op
        nodes.append(helper.make_node(op, [source], [result], op))
        if casts:
            nodes.append(
                helper.make_node("Cast", [result], [op], to=TensorProto.FLOAT)
            )
    model = mpctest.make_model(
        nodes,
        {"x": (x.dtype, x.shape)},
        {op: (x.dtype, x.shape) for op in FUNCTIONS},
        {},
        OPSET,
    )
    return mpctest.run(model, {"x": x}, folder, *flags)


def bfloat16(x):
    """Rounds to nearest even, as float32."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


def ordered(bits):
    """Maps floats' bits to integers in the order of the numbers. Both zeros are
    equal."""
    bits = bits.astype(np.int64)
    return np.where(bits & 0x8000, -(bits & 0x7FFF), bits)


def flushes_subnormals():
    """True if the target rounds to bfloat16 by the CPU's instruction, which
    flushes subnormal arguments and results to zero."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return not mpctest.TARGET and "avx512_bf16" in flags


@pytest.mark.parametrize("kind", ("float16", "bfloat16"))
def test_every_number_of_16_bits(kind, tmp_path):
    bits = np.arange(65536, dtype=np.uint16)
    if kind == "float16":
        x = bits.view(np.float16)
        results = run_all(x, None, tmp_path)
    else:
        x = (bits.astype(np.uint32) << 16).view(np.float32)
        results = run_all(x, TensorProto.BFLOAT16, tmp_path)
    for op in FUNCTIONS:
        exact = evaluate_all(op, x)
        with np.errstate(over="ignore"):
            if kind == "float16":
                expected = exact.astype(np.float16).view(np.uint16)
                found = results[op].view(np.uint16)
            else:
                expected = bfloat16(exact).view(np.uint32) >> 16
                found = results[op].view(np.uint32) >> 16
        is_nan = np.isnan(exact)
        np.testing.assert_array_equal(np.isnan(results[op]), is_nan, op)
        distance = np.abs(ordered(found) - ordered(expected))
        if kind == "bfloat16" and flushes_subnormals():
            least = np.minimum(np.abs(x), np.abs(exact))
            distance[(found & 0x7FFF == 0) & (least < 2.0**-126)] = 0
        distance = distance[~is_nan]
        assert distance.max() <= (0 if op in STEPS else 1), op
        assert np.count_nonzero(distance) <= 20, op


def wide_numbers(dtype):
    """Returns numbers of every exponent and both signs, and special values."""
    info = np.finfo(dtype)
    low, high = (-149, 128) if dtype == np.float32 else (-1074, 1024)
    random = np.random.RandomState(11)
    mantissas = random.uniform(1, 2, 4 * (high - low))
    powers = np.repeat(np.arange(low, high), 4)
    sizes = np.ldexp(mantissas, powers).astype(dtype)
    special = [0, 0.5, 1, 1.5, 2.5, np.inf, np.nan, info.max, np.pi, 0.75]
    near = np.nextafter(dtype(1), dtype(0)), np.nextafter(dtype(1), dtype(2))
    sizes = np.concatenate([sizes, np.array([*special, *near], dtype)])
    return np.concatenate([sizes, -sizes])


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_numbers_of_every_size(dtype, tmp_path):
    x = wide_numbers(dtype)
    precision = "64-true" if dtype == np.float64 else "32-true"
    results = run_all(x, None, tmp_path, "--precision", precision)
    for op in FUNCTIONS:
        exact = evaluate_all(op, x)
        with np.errstate(over="ignore"):
            expected = exact.astype(dtype)
        found = results[op]
        is_number = np.isfinite(expected)
        np.testing.assert_array_equal(found[~is_number], expected[~is_number])
        with np.errstate(over="ignore"):
            unit = np.spacing(np.abs(expected[is_number]))
        error = np.abs(found[is_number].astype(exact.dtype) - exact[is_number])
        excess = (error / unit).max()
        assert excess <= (0 if op in STEPS else 2), f"{op}: {excess} units"


@pytest.mark.parametrize("precision", ("bf16-mixed", "16-mixed"))
def test_mixed_precision_keeps_large_angles(precision, tmp_path):
    """A position of 1000 has no fraction bits in bfloat16."""
    x = np.linspace(900, 1000, 256).astype(np.float32).reshape(16, 16)
    w = np.eye(16, dtype=np.float32)
    nodes = [
        helper.make_node("Sin", ["x"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (x.dtype, x.shape), "w": (w.dtype, w.shape)},
        {"y": (x.dtype, x.shape)},
        {},
    )
    flags = ("--precision", precision)
    y = mpctest.run(model, {"x": x, "w": w}, tmp_path, *flags)["y"]
    np.testing.assert_allclose(y, np.sin(x), atol=2.0**-7)
