"""Every operator's result in every precision matches its float64 definition.

The bound is derived, not tuned. With u the unit roundoff of a type, an element
of n terms with absolute sum M may be off by

    M * (u_store + (n + 8) * u_compute)         where nothing is low precision
    M * (2 * u_low + u_low + (n + 8) * u_32)    for a contraction in low types

The first u_low term is for the two rounded operands, the next for the rounded
result. 8 covers the last digits of exp, log, tanh and division. For a sum of
products, M is the definition's result on absolute values. Otherwise M is the
largest magnitude of arguments and result.

SPDX-License-Identifier: Apache-2.0
"""

import functools

import numpy as np
import pytest
from onnx import helper

import mpctest
from cases import CASES

UNIT = {
    "64-true": 2.0**-53,
    "32-true": 2.0**-24,
    "bf16-mixed": 2.0**-8,
    "16-mixed": 2.0**-11,
}
# Half the distance between the smallest numbers, for results near zero.
TINY = {"16-mixed": 2.0**-25}


BY_NAME = {case.name: case for case in CASES}
assert len(BY_NAME) == len(CASES)


def float_names(case):
    return [k for k, v in case.arguments.items() if v.dtype == np.float64]


def one_op_model(case, dtype):
    return make_one_op_model(case.name, dtype)


@functools.lru_cache(maxsize=4)
def make_one_op_model(name, dtype):
    """Returns a model of the case in `dtype`, its inputs and the expected
    result. All precisions that store `dtype` share the result.

    Arguments are graph inputs, except constants, shapes and axes.
    """
    case = BY_NAME[name]
    arguments = {
        name: value.astype(dtype) if name in float_names(case) else value
        for name, value in case.arguments.items()
    }
    initializers = {
        name: value
        for name, value in arguments.items()
        if name in case.constant or name in ("shape", "axes")
    }
    inputs = {k: v for k, v in arguments.items() if k not in initializers}
    expected = case.function(
        *(
            value.astype(np.float64) if name in float_names(case) else value
            for name, value in arguments.items()
        ),
        **case.attributes,
    )
    node = helper.make_node(
        case.op, list(arguments), ["y"], "node", **case.attributes
    )
    model = mpctest.make_model(
        [node],
        {k: (v.dtype, v.shape) for k, v in inputs.items()},
        {"y": (dtype, np.shape(expected))},
        initializers,
        case.opset,
    )
    return model, inputs, expected


def magnitude(case, expected):
    """Returns M of the module's comment."""
    if case.magnitude:
        return np.full(np.shape(expected), case.magnitude)
    if case.contraction:
        absolute = {k: np.abs(v) for k, v in case.arguments.items()}
        return np.abs(case.function(*absolute.values(), **case.attributes))
    largest = max(
        float(np.abs(case.arguments[k]).max()) for k in float_names(case)
    )
    return np.maximum(np.abs(expected), largest)


def bound(case, precision, expected):
    m = magnitude(case, expected)
    if precision == "64-true":
        return m * (case.terms + 9) * UNIT["64-true"]
    result = m * (case.terms + 9) * UNIT["32-true"]
    if precision.endswith("-mixed") and case.contraction:
        rounded = 3 * m * UNIT[precision] + TINY.get(precision, 0)
        result = result + case.contraction * rounded
    return result


@pytest.mark.parametrize("precision", UNIT)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_matches_float64(case, precision, tmp_path):
    dtype = np.float64 if precision == "64-true" else np.float32
    model, inputs, expected = one_op_model(case, dtype)
    outputs = mpctest.run(model, inputs, tmp_path, "--precision", precision)
    actual = outputs["y"]
    assert actual.dtype == dtype
    assert actual.shape == np.shape(expected)
    error = np.abs(actual.astype(np.float64) - expected)
    excess = (error / bound(case, precision, expected)).max()
    assert excess <= 1, f"error is {excess:.2f} times its bound"


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("name", ["matmul_2d", "gemm_nt", "conv_plain"])
def test_low_precision_is_really_used(name, precision, tmp_path):
    """Proves that an explicit mode takes effect: a contraction's error exceeds
    float32's bound."""
    case = next(case for case in CASES if case.name == name)
    model, inputs, expected = one_op_model(case, np.float32)
    outputs = mpctest.run(model, inputs, tmp_path, "--precision", precision)
    error = np.abs(outputs["y"].astype(np.float64) - expected)
    assert (error > bound(case, "32-true", expected)).any()


NORMS = {
    "ReduceL2": ({}, lambda x: np.sqrt((x * x).sum(axis=-1))),
    "ReduceLogSum": ({}, lambda x: np.log(x.sum(axis=-1))),
    "LpNormalization": (
        {"axis": -1, "p": 2},
        lambda x: x / np.sqrt((x * x).sum(axis=-1, keepdims=True)),
    ),
    "GlobalLpPool": (
        {"p": 3},
        lambda x: (x**3).sum(axis=-1, keepdims=True) ** (1 / 3),
    ),
    "LpPool": (
        {"p": 2, "kernel_shape": [2]},
        lambda x: np.sqrt(x[..., :-1] ** 2 + x[..., 1:] ** 2),
    ),
    "MeanVarianceNormalization": (
        {"axes": [2]},
        lambda x: (x - x.mean(axis=-1, keepdims=True))
        / (x.std(axis=-1, keepdims=True) + 1e-9),
    ),
}


@pytest.mark.parametrize("op", NORMS)
def test_what_lies_between_need_not_fit_16_bits(op, tmp_path):
    """A square of 300 overflows float16, and so does a sum of 300 squares."""
    attributes, function = NORMS[op]
    x = np.linspace(280, 320, 2 * 3 * 300).reshape(2, 3, 300)
    x = x.astype(np.float16)
    expected = function(x.astype(np.float64))
    inputs, initializers = ["x"], {}
    if op.startswith("Reduce"):
        inputs, attributes = ["x", "axes"], {"keepdims": 0}
        initializers = {"axes": np.array([-1], np.int64)}
    model = mpctest.make_model(
        [helper.make_node(op, inputs, ["y"], **attributes)],
        {"x": (x.dtype, x.shape)},
        {"y": (x.dtype, expected.shape)},
        initializers,
        opset=18,
    )
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, expected, rtol=2.0**-10)


@pytest.mark.parametrize("dtype", (np.float16, np.float32, np.float64))
def test_a_remainder_of_zero_has_the_sign_of_the_divisor(dtype, tmp_path):
    """Follows numpy.mod for zeros of both signs, multiples, and remainders by
    infinity."""
    a = np.array([0.0, -0.0, 6.0, -6.0, 1.0, -1.0], dtype)[:, None]
    b = np.array([3.0, -3.0, np.inf, -np.inf], dtype)
    model = mpctest.make_model(
        [helper.make_node("Mod", ["a", "b"], ["y"])],
        {"a": (dtype, a.shape), "b": (dtype, b.shape)},
        {"y": (dtype, (6, 4))},
        {},
        opset=28,
    )
    y = mpctest.run(model, {"a": a, "b": b}, tmp_path)["y"]
    expected = np.mod(a, b)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(expected))
