"""Every operator's result in every precision against its float64 definition.

The bound is derived, not tuned. With u the unit roundoff of a type, an element
made of n terms whose absolute values sum to M may be off by

    M * (u_store + (n + 8) * u_compute)         where nothing is low precision
    M * (2 * u_low + u_low + (n + 8) * u_32)    for a contraction in low types

the first u_low term for the two rounded operands, the next for the rounded
result. 8 covers the last digits of exp, log, tanh and division. M is measured
by running the definition on absolute values where it is a sum of products, and
by the largest magnitude of arguments and result otherwise.

SPDX-License-Identifier: Apache-2.0
"""

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


def float_names(case):
    return [k for k, v in case.arguments.items() if v.dtype == np.float64]


def one_op_model(case, dtype):
    """A model of the case in `dtype`, its inputs and the expected result.

    Arguments are graph inputs, but for the constant ones and shapes and axes.
    """
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
    """M of the module's comment."""
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
    """An explicit mode binds: a contraction's error exceeds float32's bound."""
    case = next(case for case in CASES if case.name == name)
    model, inputs, expected = one_op_model(case, np.float32)
    outputs = mpctest.run(model, inputs, tmp_path, "--precision", precision)
    error = np.abs(outputs["y"].astype(np.float64) - expected)
    assert (error > bound(case, "32-true", expected)).any()
