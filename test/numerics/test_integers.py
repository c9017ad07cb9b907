"""Arithmetic of integers and booleans equals NumPy exactly, in kernels (the
values are inputs) and in folding (they are initializers).

mpc defines the cases that NumPy and ONNX leave open. Division by 0 gives 0 with
remainder 0, and a negative power of 0 is 0. Shifts by the width or more shift
out all bits. A float beyond 64 bits becomes the smallest 64-bit number before
the conversion to an integer type.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mpctest

SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
INTEGERS = SIGNED + UNSIGNED
FLOATS = [np.float16, np.float32, np.float64]
OPSET = 20


def name_of(dtype):
    return np.dtype(dtype).name


def pairs(dtype):
    """Returns two arrays with all pairs of the type's limits, and random
    numbers."""
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max]
    if info.min < 0:
        edges += [-1, -2, -3, -7]
    left, right = np.meshgrid(np.array(edges, dtype), np.array(edges, dtype))
    random = np.random.RandomState(info.bits)
    more = random.randint(info.min, info.max, (2, 60), dtype)
    return (
        np.concatenate([left.ravel(), more[0]]),
        np.concatenate([right.ravel(), more[1]]),
    )


def divide(a, b):
    """Truncates like C."""
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    exact = [
        abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)
        for x, y in zip(a, safe)
    ]
    return wrap(exact, a.dtype) * (b != 0).astype(a.dtype)


def wrap(numbers, dtype):
    """Returns Python's integers modulo 2^n."""
    bits = np.iinfo(dtype).bits
    unsigned = np.array([n % 2**bits for n in numbers], np.uint64)
    return unsigned.astype(f"u{bits // 8}").view(dtype)


def power(a, b):
    def one(base, exponent):
        if exponent >= 0:
            return pow(base, exponent, 2**64)
        return {1: 1, -1: (-1) ** (exponent % 2)}.get(base, 0)

    return wrap([one(int(x), int(y)) for x, y in zip(a, b)], a.dtype)


def shift(a, b, left):
    bits = np.iinfo(a.dtype).bits

    def one(x, amount):
        if left:
            return x << amount if 0 <= amount < bits else 0
        return x >> (amount if 0 <= amount < bits else bits)

    return wrap([one(int(x), int(y)) for x, y in zip(a, b)], a.dtype)


BINARY = {
    "Add": (np.add, {}),
    "Sub": (np.subtract, {}),
    "Mul": (np.multiply, {}),
    "Div": (divide, {}),
    "Mod": (np.mod, {}),
    "Mod_fmod": (np.fmod, {"fmod": 1}),
    "Pow": (power, {}),
    "Max": (np.maximum, {}),
    "Min": (np.minimum, {}),
    "Equal": (np.equal, {}),
    "Less": (np.less, {}),
    "LessOrEqual": (np.less_equal, {}),
    "Greater": (np.greater, {}),
    "GreaterOrEqual": (np.greater_equal, {}),
    "BitwiseAnd": (np.bitwise_and, {}),
    "BitwiseOr": (np.bitwise_or, {}),
    "BitwiseXor": (np.bitwise_xor, {}),
    "BitShift_left": (
        lambda a, b: shift(a, b, True),
        {"direction": "LEFT"},
    ),
    "BitShift_right": (
        lambda a, b: shift(a, b, False),
        {"direction": "RIGHT"},
    ),
}
UNARY = {
    "Neg": np.negative,
    "Abs": np.abs,
    "Sign": np.sign,
    "BitwiseNot": np.invert,
    "Relu": lambda a: np.maximum(a, 0),
}


def run_both(nodes, inputs, outputs, folder):
    """Returns the outputs of kernels. Folding must give equal outputs."""
    (folder / "kernels").mkdir()
    (folder / "folded").mkdir()
    types = {k: (v.dtype, v.shape) for k, v in inputs.items()}
    model = mpctest.make_model(nodes, types, outputs, {}, OPSET)
    kernels = mpctest.run(model, inputs, folder / "kernels")
    model = mpctest.make_model(nodes, {}, outputs, inputs, OPSET)
    folded = mpctest.run(model, {}, folder / "folded")
    for name in outputs:
        np.testing.assert_array_equal(kernels[name], folded[name], name)
    return kernels


def check(nodes, inputs, expected, folder):
    outputs = {k: (v.dtype, v.shape) for k, v in expected.items()}
    results = run_both(nodes, inputs, outputs, folder)
    for name, value in expected.items():
        assert results[name].dtype == value.dtype, name
        np.testing.assert_array_equal(results[name], value, name)


@pytest.mark.parametrize("dtype", INTEGERS, ids=name_of)
def test_elementwise(dtype, tmp_path):
    a, b = pairs(dtype)
    nodes, expected = [], {}
    with np.errstate(all="ignore"):
        for name, (function, attributes) in BINARY.items():
            op = name.split("_")[0]
            nodes.append(
                helper.make_node(op, ["a", "b"], [name], **attributes)
            )
            expected[name] = function(a, b)
        for op, function in UNARY.items():
            nodes.append(helper.make_node(op, ["a"], [op]))
            expected[op] = function(a).astype(dtype)
    nodes.append(helper.make_node("Sum", ["a", "b", "a"], ["Sum"]))
    expected["Sum"] = a + b + a
    nodes.append(helper.make_node("Where", ["Less", "a", "b"], ["Where"]))
    expected["Where"] = np.where(a < b, a, b)
    check(nodes, {"a": a, "b": b}, expected, tmp_path)


@pytest.mark.parametrize("dtype", INTEGERS, ids=name_of)
def test_broadcasting_and_clip(dtype, tmp_path):
    a, b = pairs(dtype)
    a, b = a[:24].reshape(4, 1, 6), b[-15:].reshape(5, 3)[:, :1]
    low, high = dtype(2), dtype(np.iinfo(dtype).max - 2)
    nodes = [
        helper.make_node("Sub", ["a", "b"], ["difference"]),
        helper.make_node("Clip", ["a", "low", "high"], ["clipped"]),
    ]
    expected = {
        "difference": a - b,
        "clipped": np.clip(a, low, high),
    }
    inputs = {
        "a": a,
        "b": b,
        "low": np.asarray(low),
        "high": np.asarray(high),
    }
    check(nodes, inputs, expected, tmp_path)


@pytest.mark.parametrize("axes", ([0], [1], [0, 1, 2], [1, 2]), ids=str)
@pytest.mark.parametrize("dtype", INTEGERS, ids=name_of)
def test_reductions(dtype, axes, tmp_path):
    info = np.iinfo(dtype)
    x = np.random.RandomState(5).randint(info.min, info.max, (6, 11, 37), dtype)
    functions = {
        "ReduceSum": np.sum,
        "ReduceProd": np.prod,
        "ReduceMax": np.max,
        "ReduceMin": np.min,
    }
    nodes, expected = [], {}
    for op, function in functions.items():
        nodes.append(helper.make_node(op, ["x", "axes"], [op], keepdims=0))
        options = {"dtype": dtype} if op in ("ReduceSum", "ReduceProd") else {}
        expected[op] = np.asarray(function(x, axis=tuple(axes), **options))
    inputs = {"x": x}
    outputs = {k: (v.dtype, v.shape) for k, v in expected.items()}
    axes = {"axes": np.array(axes, np.int64)}
    types = {"x": (dtype, x.shape)}
    model = mpctest.make_model(nodes, types, outputs, axes, OPSET)
    results = mpctest.run(model, inputs, tmp_path)
    for name, value in expected.items():
        np.testing.assert_array_equal(results[name], value, name)
    model = mpctest.make_model(nodes, {}, outputs, {**inputs, **axes}, OPSET)
    folded = mpctest.run(model, {}, tmp_path)
    for name, value in expected.items():
        np.testing.assert_array_equal(folded[name], value, name)


@pytest.mark.parametrize("dtype", INTEGERS, ids=name_of)
def test_norms_and_logarithms(dtype, tmp_path):
    """Sums of integers below 2^53 are exact, and results are truncated towards
    zero."""
    largest = min(np.iinfo(dtype).max, 2**24)
    smallest = max(np.iinfo(dtype).min, -(2**24))
    random = np.random.RandomState(3)
    x = random.randint(smallest, largest, (5, 4, 7), dtype)
    x[0, 0] = [3, 4] + [0] * 5
    wide = x.astype(np.float64)
    expected = {"ReduceL2": np.sqrt((wide * wide).sum(axis=2))}
    positive = np.abs(wide) % 90 + 1
    expected["ReduceLogSum"] = np.log(positive.sum(axis=2))
    expected["ReduceLogSumExp"] = np.log(np.exp(positive).sum(axis=2))
    inputs = {"x": x, "p": positive.astype(dtype)}
    nodes = [
        helper.make_node(
            op, ["x" if op == "ReduceL2" else "p", "axes"], [op], keepdims=0
        )
        for op in expected
    ]
    types = {name: (dtype, value.shape) for name, value in inputs.items()}
    outputs = {name: (dtype, (5, 4)) for name in expected}
    model = mpctest.make_model(
        nodes, types, outputs, {"axes": np.array([2])}, OPSET
    )
    results = mpctest.run(model, inputs, tmp_path)
    # The norms of bytes may overflow.
    for name, value in expected.items():
        assert results[name].dtype == dtype
        cut = truncate(value.ravel(), dtype).reshape(value.shape)
        np.testing.assert_array_equal(results[name], cut)
    assert results["ReduceL2"][0, 0] == 5


@pytest.mark.parametrize(
    "lambd, bias", ((0.5, 0.0), (2.0, 1.0), (-3.0, -2.0), (5.0, 300.0))
)
@pytest.mark.parametrize("dtype", INTEGERS, ids=name_of)
def test_shrink(dtype, lambd, bias, tmp_path):
    x, _ = pairs(dtype)

    def shrink(number):
        if number < -lambd:
            return number + int(bias)
        return number - int(bias) if number > lambd else 0

    node = helper.make_node("Shrink", ["x"], ["y"], lambd=lambd, bias=bias)
    expected = wrap([shrink(int(number)) for number in x], dtype)
    check([node], {"x": x}, {"y": expected}, tmp_path)


@pytest.mark.parametrize("dtype", (np.int8, np.int32), ids=name_of)
def test_shrink_by_a_fraction(dtype, tmp_path):
    """Results are truncated towards zero: 3 - 1.5 is 1, and -3 + 1.5 is -1."""
    x = np.arange(-5, 6).astype(dtype)
    node = helper.make_node("Shrink", ["x"], ["y"], lambd=1.5, bias=1.5)
    expected = np.array([-3, -2, -1, 0, 0, 0, 0, 0, 1, 2, 3], dtype)
    check([node], {"x": x}, {"y": expected}, tmp_path)


def test_a_sum_over_many_slices_wraps(tmp_path):
    """The axis is long enough for a reduction in two steps."""
    x = np.random.RandomState(1).randint(0, 2**31, 1 << 20).astype(np.int32)
    for op, function in (("ReduceSum", np.sum), ("ReduceMax", np.max)):
        node = helper.make_node(op, ["x"], ["y"], keepdims=0)
        model = mpctest.make_model(
            [node], {"x": (np.int32, x.shape)}, {"y": (np.int32, ())}, {}
        )
        result = mpctest.run(model, {"x": x}, tmp_path)["y"]
        options = {"dtype": np.int32} if op == "ReduceSum" else {}
        assert result == function(x, **options)


def test_booleans(tmp_path):
    a = np.array([[False], [True]])
    b = np.array([False, True, True])
    functions = {
        "And": np.logical_and,
        "Or": np.logical_or,
        "Xor": np.logical_xor,
        "Equal": np.equal,
    }
    nodes, expected = [], {}
    for op, function in functions.items():
        nodes.append(helper.make_node(op, ["a", "b"], [op]))
        expected[op] = function(a, b)
    nodes.append(helper.make_node("Not", ["a"], ["Not"]))
    expected["Not"] = ~a
    nodes.append(helper.make_node("Where", ["a", "b", "Not"], ["Where"]))
    expected["Where"] = np.where(a, b, ~a)
    check(nodes, {"a": a, "b": b}, expected, tmp_path)


@pytest.mark.parametrize("op", ("ReduceMax", "ReduceMin"))
def test_extrema_of_booleans(op, tmp_path):
    x = np.random.RandomState(2).rand(5, 3) < 0.4
    node = helper.make_node(op, ["x", "axes"], ["y"], keepdims=0)
    model = mpctest.make_model(
        [node],
        {"x": (bool, x.shape)},
        {"y": (bool, (5,))},
        {"axes": np.array([1])},
        OPSET,
    )
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    function = np.any if op == "ReduceMax" else np.all
    np.testing.assert_array_equal(y, function(x, axis=1))


def edges_of(dtype):
    """Returns numbers with error-prone conversions."""
    if np.dtype(dtype) == bool:
        return np.array([False, True])
    if np.issubdtype(dtype, np.integer):
        return pairs(dtype)[0]
    powers = [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64)]
    values = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.75, 300.0, -300.0, 1e30, -1e30]
    values += [np.nan, np.inf, -np.inf] + powers + [-p for p in powers]
    values += [p * (1 - 2.0**-10) for p in powers]
    with np.errstate(over="ignore"):
        return np.array(values).astype(dtype)


def truncate(x, dtype):
    """Converts floats to integers."""
    limit = 2**64 if dtype == np.uint64 else 2**63
    numbers = [
        int(v) if np.isfinite(v) and -(2**63) <= v < limit else -(2**63)
        for v in x.astype(np.float64)
    ]
    return wrap(numbers, dtype)


def cast(x, dtype):
    if np.dtype(dtype) == bool:
        return x != 0
    if np.issubdtype(x.dtype, np.floating) and np.issubdtype(dtype, np.integer):
        return truncate(x, dtype)
    if dtype == np.float16 and x.dtype.kind in "iu":
        x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize("source", [bool] + INTEGERS + FLOATS, ids=name_of)
def test_casts(source, tmp_path):
    x = edges_of(source)
    nodes, expected = [], {}
    for dtype in [bool] + INTEGERS + FLOATS:
        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        name = f"to_{name_of(dtype)}"
        nodes.append(helper.make_node("Cast", ["x"], [name], to=to))
        expected[name] = cast(x, dtype)
    if np.dtype(source).kind == "f":
        # An initializer of floats is a parameter and does not fold.
        outputs = {k: (v.dtype, v.shape) for k, v in expected.items()}
        types = {"x": (x.dtype, x.shape)}
        model = mpctest.make_model(nodes, types, outputs, {}, OPSET)
        results = mpctest.run(model, {"x": x}, tmp_path)
        for name, value in expected.items():
            np.testing.assert_array_equal(results[name], value, name)
    else:
        check(nodes, {"x": x}, expected, tmp_path)


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_classification_of_floats(dtype, tmp_path):
    x = np.array([0, 1, np.nan, np.inf, -np.inf, -np.nan, 3] * 3, dtype)
    nodes = [
        helper.make_node("IsNaN", ["x"], ["nan"]),
        helper.make_node("IsInf", ["x"], ["inf"]),
        helper.make_node("IsInf", ["x"], ["up"], detect_negative=0),
        helper.make_node("IsInf", ["x"], ["down"], detect_positive=0),
        helper.make_node(
            *("IsInf", ["x"], ["none"]), detect_positive=0, detect_negative=0
        ),
    ]
    expected = {
        "nan": np.isnan(x),
        "inf": np.isinf(x),
        "up": x == np.inf,
        "down": x == -np.inf,
        "none": np.zeros(x.shape, bool),
    }
    outputs = {k: (bool, v.shape) for k, v in expected.items()}
    model = mpctest.make_model(
        nodes, {"x": (dtype, x.shape)}, outputs, {}, OPSET
    )
    results = mpctest.run(model, {"x": x}, tmp_path)
    for name, value in expected.items():
        np.testing.assert_array_equal(results[name], value, name)


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_the_remainder_of_floats_is_exact(dtype, tmp_path):
    info = np.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.5, 3.0, 0.1, -7.3, float(info.max)]
    values += [float(info.smallest_subnormal), float(info.tiny), np.inf]
    values += [-np.inf, np.nan, float(info.max) / 3, 5.3, 1e4 / 3]
    a, b = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    random = np.random.RandomState(3)
    scales = 2.0 ** random.uniform(-14, 14, (2, 500))
    more = (random.standard_normal((2, 500)) * scales).astype(dtype)
    a = np.concatenate([a.ravel(), more[0]])
    b = np.concatenate([b.ravel(), more[1]])
    node = helper.make_node("Mod", ["a", "b"], ["y"], fmod=1)
    model = mpctest.make_model(
        [node],
        {"a": (dtype, a.shape), "b": (dtype, b.shape)},
        {"y": (dtype, a.shape)},
        {},
    )
    y = mpctest.run(model, {"a": a, "b": b}, tmp_path)["y"]
    with np.errstate(all="ignore"):
        expected = np.fmod(a, b)
    np.testing.assert_array_equal(y, expected)
    finite = ~np.isnan(expected)
    np.testing.assert_array_equal(
        np.signbit(y[finite]), np.signbit(expected[finite])
    )


@pytest.mark.parametrize("exponent", (np.int64, np.float32), ids=name_of)
def test_powers_of_integers_by_other_types(exponent, tmp_path):
    a = np.array([1, 2, 3, -3, 5], np.int32)
    b = np.array([4, 5, 6, 3, 2], exponent)
    node = helper.make_node("Pow", ["a", "b"], ["y"])
    model = mpctest.make_model(
        [node],
        {"a": (np.int32, a.shape), "b": (exponent, b.shape)},
        {"y": (np.int32, a.shape)},
        {},
    )
    y = mpctest.run(model, {"a": a, "b": b}, tmp_path)["y"]
    np.testing.assert_array_equal(y, np.power(a, b.astype(np.int32)))


def test_powers_beyond_the_signed_integers(tmp_path):
    a, b = np.array([2, 3], np.uint64), np.array([63, 40], np.float64)
    node = helper.make_node("Pow", ["a", "b"], ["y"])
    types = {"a": (np.uint64, a.shape), "b": (np.float64, b.shape)}
    outputs = {"y": (np.uint64, a.shape)}
    model = mpctest.make_model([node], types, outputs, {})
    y = mpctest.run(model, {"a": a, "b": b}, tmp_path)["y"]
    np.testing.assert_allclose(y.astype(float), [2.0**63, 3.0**40], rtol=1e-14)


def test_tokens_are_counted_at_run_time(tmp_path):
    """Integer inputs are not constants: the artifact accepts other values."""
    node = [
        helper.make_node("Equal", ["ids", "pad"], ["is_pad"]),
        helper.make_node("Not", ["is_pad"], ["kept"]),
        helper.make_node("Cast", ["kept"], ["ones"], to=TensorProto.INT64),
        helper.make_node("ReduceSum", ["ones", "axes"], ["n"], keepdims=0),
    ]
    model = mpctest.make_model(
        node,
        {"ids": (np.int64, (2, 4))},
        {"n": (np.int64, (2,))},
        {"pad": np.array(0), "axes": np.array([1])},
    )
    onnx.save(model, tmp_path / "model.onnx")
    mpctest.mpc_ok(
        "compile", tmp_path / "model.onnx", "-o", tmp_path / "model.mpc"
    )
    for ids in ([[1, 2, 0, 0], [3, 4, 5, 0]], [[0, 0, 0, 0], [9, 8, 7, 6]]):
        np.save(tmp_path / "ids.npy", np.array(ids))
        mpctest.mpc_ok(
            *("run", tmp_path / "model.mpc"),
            *("--input", f"ids=@{tmp_path}/ids.npy"),
            *("--output", tmp_path / "y.npz"),
        )
        with np.load(tmp_path / "y.npz") as arrays:
            np.testing.assert_array_equal(
                arrays["n"], np.count_nonzero(ids, axis=1)
            )


@pytest.mark.parametrize("precision", ("32-true", "16-mixed", "bf16-mixed"))
def test_training_on_integers_is_training_on_what_they_make(
    precision, tmp_path
):
    """Token arithmetic before a layer gets no gradient, and mpc does not
    mistake it for a step counter."""
    random = np.random.RandomState(4)
    ids = random.randint(0, 50, (32, 4))
    target = random.standard_normal((32, 3)).astype(np.float32)
    weight = random.standard_normal((4, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Add", ["ids", "one"], ["next"]),
        helper.make_node("Mod", ["next", "seven"], ["rest"]),
        helper.make_node("Equal", ["rest", "none"], ["is_none"]),
        helper.make_node("Cast", ["rest"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("Where", ["is_none", "minus", "x"], ["input"]),
        helper.make_node("MatMul", ["input", "w"], ["y"], "fc"),
    ]
    constants = {
        "one": np.array(1),
        "seven": np.array(7),
        "none": np.array(0),
        "minus": np.array(-1, np.float32),
        "w": weight,
    }
    y = {"y": (np.float32, ("N", 3))}
    ids_model = mpctest.make_model(
        nodes, {"ids": (np.int64, ("N", 4))}, y, constants
    )
    float_model = mpctest.make_model(
        nodes[-1:], {"input": (np.float32, ("N", 4))}, y, {"w": weight}
    )
    rest = (ids + 1) % 7
    made = np.where(rest == 0, -1, rest).astype(np.float32)
    flags = ["--loss", "mse", "--optimizer", "sgd", "--lr", "0.01"]
    flags += ["--precision", precision, "--batch-size", "8", "--epochs", "2"]
    results = [
        mpctest.train(model, data, tmp_path / name, *flags)
        for name, model, data in (
            ("ids", ids_model, {"ids": ids, "target": target}),
            ("floats", float_model, {"input": made, "target": target}),
        )
    ]
    assert mpctest.losses(results[0][0]) == mpctest.losses(results[1][0])
    np.testing.assert_array_equal(results[0][1]["w"], results[1][1]["w"])
