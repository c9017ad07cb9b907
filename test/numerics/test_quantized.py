"""Quantization and products of quantized numbers give the exact integers,
unless a float32 division decides the rounding.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

F4 = np.float32


def run(op, arguments, types, folder, opset=21, flags=(), **attributes):
    """Returns the results of one node. None is an absent argument."""
    outputs = [f"out{i}" for i in range(len(types))]
    names = [k if v is not None else "" for k, v in arguments.items()]
    node = helper.make_node(op, names, outputs, "node", **attributes)
    given = {k: v for k, v in arguments.items() if v is not None}
    model = mpctest.make_model(
        [node],
        {k: (v.dtype, v.shape) for k, v in given.items()},
        {name: (dtype, None) for name, dtype in zip(outputs, types)},
        {},
        opset,
    )
    results = mpctest.run(model, given, folder, *flags)
    return [results[name] for name in outputs]


def saturate(quotient, zero, dtype):
    limits = np.iinfo(dtype)
    whole = np.rint(quotient.astype(np.float64)) + np.int64(zero)
    return np.clip(whole, limits.min, limits.max).astype(dtype)


def spread(value, shape, axis, block):
    """Returns a scale or zero point for every element."""
    value = np.asarray(value)
    if value.ndim == 0:
        return np.broadcast_to(value, shape)
    if block:
        value = np.repeat(value, block, axis)
        return np.take(value, range(shape[axis]), axis)
    lines = [1] * len(shape)
    lines[axis] = -1
    return np.broadcast_to(value.reshape(lines), shape)


SHAPE = (3, 7, 2)
GRANULARITIES = {
    "tensor": ((), 0, 0),
    "axis": ((7,), 1, 0),
    "last_axis": ((2,), -1, 0),
    "blocks": ((3, 3, 2), 1, 3),
    "blocks_of_rows": ((2, 7, 2), 0, 2),
}


def granular(name, dtype):
    shape, axis, block = GRANULARITIES[name]
    random = np.random.RandomState(len(name))
    scale = np.asarray(random.rand(*shape) + 0.1, F4)
    limits = np.iinfo(dtype)
    zero = np.asarray(random.randint(limits.min, limits.max, shape), dtype)
    attributes = {"axis": axis, **({"block_size": block} if block else {})}
    return scale, zero, attributes


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2"])
@pytest.mark.parametrize("name", GRANULARITIES)
def test_quantize(name, dtype, tmp_path):
    scale, zero, attributes = granular(name, dtype)
    limits = np.iinfo(dtype)
    x = np.random.RandomState(1).standard_normal(SHAPE) * limits.max / 2
    x = x.astype(F4)
    x[0, 0] = [np.inf, -np.inf]
    _, axis, block = GRANULARITIES[name]
    scales = spread(scale, SHAPE, axis, block)
    # Ties round to even.
    x[1, :, 0] = (np.arange(7) - 2.5).astype(F4) * scales[1, :, 0]
    arguments = {"x": x, "scale": scale, "zero": zero}
    (y,) = run("QuantizeLinear", arguments, [dtype], tmp_path, **attributes)
    with np.errstate(invalid="ignore"):
        expected = saturate(
            np.clip(x / scales, -1e9, 1e9),
            spread(zero, SHAPE, axis, block),
            dtype,
        )
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "i4"])
@pytest.mark.parametrize("name", GRANULARITIES)
def test_dequantize(name, dtype, tmp_path):
    scale, zero, attributes = granular(name, dtype)
    limits = np.iinfo(dtype)
    random = np.random.RandomState(1)
    x = random.randint(limits.min, limits.max, SHAPE).astype(dtype)
    arguments = {"x": x, "scale": scale, "zero": zero}
    (y,) = run("DequantizeLinear", arguments, [F4], tmp_path, **attributes)
    _, axis, block = GRANULARITIES[name]
    centered = x.astype(np.int64) - spread(zero, SHAPE, axis, block)
    expected = centered.astype(F4) * spread(scale, SHAPE, axis, block)
    np.testing.assert_array_equal(y, expected)


def test_without_zero_points(tmp_path):
    x, scale = F4([-3, 0.6, 1.5, 2.5, 300]), np.asarray(1, F4)
    (y,) = run("QuantizeLinear", {"x": x, "s": scale}, ["u1"], tmp_path, 10)
    np.testing.assert_array_equal(y, [0, 1, 2, 2, 255])
    (z,) = run("DequantizeLinear", {"y": y, "s": scale}, [F4], tmp_path, 10)
    np.testing.assert_array_equal(z, F4(y))


def test_one_scale_may_have_an_axis_and_its_zero_point_none(tmp_path):
    """ONNX Runtime's quantizer writes biases this way."""
    arguments = {
        "x": np.array([3, -4], np.int32),
        "scale": F4([0.5]),
        "zero": np.asarray(1, np.int32),
    }
    (y,) = run("DequantizeLinear", arguments, [F4], tmp_path, 17)
    np.testing.assert_array_equal(y, F4([1, -2.5]))


def test_nodes_of_onnx_runtime_have_16_bits(tmp_path):
    """Before opset 21, these nodes are in ONNX Runtime's own domain."""
    scale, zero, attributes = granular("axis", "u2")
    x = np.random.RandomState(2).randint(-9000, 40000, SHAPE).astype(F4)
    arguments = {"x": x, "scale": scale, "zero": zero}
    attributes["domain"] = "com.microsoft"
    (q,) = run("QuantizeLinear", arguments, ["u2"], tmp_path, 17, **attributes)
    s, z = spread(scale, SHAPE, 1, 0), spread(zero, SHAPE, 1, 0)
    np.testing.assert_array_equal(q, saturate(x / s, z, "u2"))
    arguments["x"] = q
    (y,) = run("DequantizeLinear", arguments, [F4], tmp_path, 17, **attributes)
    centered = q.astype(np.int64) - z
    np.testing.assert_array_equal(y, centered.astype(F4) * s)


def test_types_that_are_asked_for(tmp_path):
    x, scale = F4([-3, 0.6, 300]), np.asarray(0.5, np.float16)
    (y,) = run(
        *("QuantizeLinear", {"x": x, "s": scale}, [np.int16], tmp_path, 23),
        output_dtype=onnx.TensorProto.INT16,
        precision=onnx.TensorProto.FLOAT,
    )
    np.testing.assert_array_equal(y, [-6, 1, 600])
    (z,) = run(
        *("DequantizeLinear", {"y": y, "s": scale}, [F4], tmp_path, 23),
        output_dtype=onnx.TensorProto.FLOAT,
    )
    np.testing.assert_array_equal(z, F4([-3, 0.5, 300]))


@pytest.mark.parametrize(
    "x", [[-1.2, 0.4, 3.7], [0.1, 2, 5], [-4, -1, -0.5], [0, 0, 0]]
)
def test_dynamic_quantization(x, tmp_path):
    x = F4(x)
    types = [np.uint8, F4, np.uint8]
    y, scale, zero = run("DynamicQuantizeLinear", {"x": x}, types, tmp_path, 11)
    low, high = min(x.min(), F4(0)), max(x.max(), F4(0))
    expected = (high - low) / F4(255) if high > low else F4(1)
    np.testing.assert_array_equal(scale, expected)
    offset = saturate(-low / expected, 0, np.uint8)
    np.testing.assert_array_equal(zero, offset)
    np.testing.assert_array_equal(y, saturate(x / expected, offset, np.uint8))


def bytes_of(dtype, *shape):
    limits = np.iinfo(dtype)
    random = np.random.RandomState(sum(shape) + len(dtype))
    return random.randint(limits.min, limits.max + 1, shape).astype(dtype)


PRODUCTS = {
    "plain": ((5, 300), (300, 4), None, None),
    "scalars": ((5, 30), (30, 4), (), ()),
    "lines": ((5, 30), (30, 4), (5,), (4,)),
    "batches": ((2, 5, 30), (2, 30, 4), (2, 5, 1), (2, 1, 4)),
    "broadcast": ((3, 1, 5, 30), (2, 30, 4), (), (1,)),
    "vectors": ((30,), (30,), (), ()),
    "row": ((30,), (30, 4), (), (4,)),
}


def lines_of(zero, rank, is_row):
    """Returns a vector for the rows, or for the columns, of matrices."""
    zero = np.asarray(zero, np.int64)
    return zero[:, None] if zero.size > 1 and zero.ndim == 1 and is_row else zero


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("types", [("u1", "i1"), ("i1", "i1"), ("u1", "u1")])
@pytest.mark.parametrize("name", PRODUCTS)
def test_integer_products(name, types, precision, tmp_path):
    """The product is exact in every precision."""
    shapes = PRODUCTS[name]
    a, b = (bytes_of(t, *s) for t, s in zip(types, shapes[:2]))
    zeros = [
        None if s is None else bytes_of(t, *s, 1)[..., 0]
        for t, s in zip(types, shapes[2:])
    ]
    arguments = {"a": a, "b": b, "za": zeros[0], "zb": zeros[1]}
    (y,) = run(
        *("MatMulInteger", arguments, [np.int32], tmp_path, 10),
        flags=("--precision", precision),
    )
    left, right = (np.int64(0) if z is None else z for z in zeros)
    expected = (a.astype(np.int64) - lines_of(left, a.ndim, True)) @ (
        b.astype(np.int64) - lines_of(right, b.ndim, False)
    )
    np.testing.assert_array_equal(y, expected)


def convolve(x, w, strides, pads, group):
    """Returns the sums of a 2-D convolution of integers."""
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    extents = [
        (x.shape[d + 2] - w.shape[d + 2]) // strides[d] + 1 for d in (0, 1)
    ]
    y = np.zeros((len(x), len(w), *extents), np.int64)
    inputs, filters = w.shape[1], len(w) // group
    for m in range(len(w)):
        own = x[:, m // filters * inputs :][:, :inputs]
        for i, j in np.ndindex(*extents):
            box = own[
                (..., *(slice(k * s, k * s + n) for k, s, n in zip((i, j), strides, w.shape[2:])))
            ]
            y[:, m, i, j] = (box * w[m]).sum(axis=(1, 2, 3))
    return y


WINDOW = {"strides": [2, 1], "pads": [1, 0, 1, 2], "group": 2}


@pytest.mark.parametrize("zero_w", [(), (6,)])
def test_integer_convolution(zero_w, tmp_path):
    x, w = bytes_of("u1", 2, 4, 5, 6), bytes_of("i1", 6, 2, 3, 2)
    zeros = bytes_of("u1", 1)[0], bytes_of("i1", *zero_w, 1)[..., 0]
    arguments = {"x": x, "w": w, "zx": np.asarray(zeros[0]), "zw": zeros[1]}
    (y,) = run(
        "ConvInteger", arguments, [np.int32], tmp_path, 10, **WINDOW
    )
    per_filter = zeros[1].astype(np.int64).reshape(-1, 1, 1, 1)
    expected = convolve(
        x.astype(np.int64) - int(zeros[0]), w - per_filter, **WINDOW
    )
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("types", [("u1", "i1", "u1"), ("i1", "i1", "i1")])
@pytest.mark.parametrize("per_line", [False, True])
def test_quantized_product(types, per_line, tmp_path):
    a, b = bytes_of(types[0], 2, 5, 9), bytes_of(types[1], 2, 9, 4)
    of_a, of_b = ((2, 5, 1), (2, 1, 4)) if per_line else ((), ())
    random = np.random.RandomState(7)
    scale_a, scale_b = (F4(random.rand(*s) * 0.01 + 0.01) for s in (of_a, of_b))
    zero_a = bytes_of(types[0], *of_a, 1)[..., 0]
    zero_b = bytes_of(types[1], *of_b, 1)[..., 0]
    scale_y, zero_y = F4(0.05), np.asarray(3, types[2])
    arguments = {
        **{"a": a, "sa": np.asarray(scale_a), "za": zero_a},
        **{"b": b, "sb": np.asarray(scale_b), "zb": zero_b},
        **{"sy": np.asarray(scale_y), "zy": zero_y},
    }
    (y,) = run("QLinearMatMul", arguments, [types[2]], tmp_path)
    sums = (a.astype(np.int64) - zero_a) @ (b.astype(np.int64) - zero_b)
    factor = scale_a * scale_b / scale_y
    expected = saturate(sums.astype(F4) * factor, zero_y, types[2])
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("per_filter", [False, True])
def test_quantized_convolution(per_filter, tmp_path):
    x, w = bytes_of("u1", 2, 4, 5, 6), bytes_of("i1", 6, 2, 3, 2)
    of_w = (6,) if per_filter else ()
    scale_w = np.asarray(np.random.RandomState(7).rand(*of_w) + 0.1, F4)
    zero_w = bytes_of("i1", *of_w, 1)[..., 0]
    scale_x, scale_y, bias = F4(0.02), F4(0.9), np.arange(6, dtype=np.int32) * 99
    zero_x, zero_y = np.asarray(117, "u1"), np.asarray(-4, "i1")
    arguments = {
        **{"x": x, "sx": np.asarray(scale_x), "zx": zero_x},
        **{"w": w, "sw": scale_w, "zw": zero_w},
        **{"sy": np.asarray(scale_y), "zy": zero_y, "bias": bias},
    }
    (y,) = run("QLinearConv", arguments, ["i1"], tmp_path, 10, **WINDOW)
    sums = convolve(
        x.astype(np.int64) - int(zero_x),
        w - zero_w.astype(np.int64).reshape(-1, 1, 1, 1),
        **WINDOW,
    )
    sums += bias[:, None, None]
    factor = (scale_x * scale_w / scale_y).reshape(-1, 1, 1)
    expected = saturate(sums.astype(F4) * factor, zero_y, "i1")
    np.testing.assert_array_equal(y, expected)


def train(nodes, initializers, folder):
    nodes = [
        *nodes,
        helper.make_node("Mul", ["y", "d"], ["m"], "weigh"),
        helper.make_node("ReduceSum", ["m"], ["loss"], "sum", keepdims=0),
    ]
    model = mpctest.make_model(
        nodes,
        {"d": (F4, ["N", 3])},
        {"loss": (F4, [])},
        initializers,
    )
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "data.npz", d=np.ones((1, 3), F4))
    return mpctest.mpc(
        *("train", folder / "model.onnx", "--data", folder / "data.npz"),
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1"),
        *("--train", "^(w|s)$", "--output", folder / "trained.onnx"),
    )


def test_scales_of_integers_are_trained(tmp_path):
    """The gradient of (q - z) s by s is the sum of q - z."""
    process = train(
        [helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], "back")],
        {
            "q": np.array([7, -2, 5], np.int8),
            "s": np.asarray(0.5, F4),
            "z": np.asarray(1, np.int8),
        },
        tmp_path,
    )
    assert process.returncode == 0, process.stderr
    trained = mpctest.read_weights(tmp_path / "trained.onnx")
    assert trained["s"] == 0.5 - (6 - 3 + 4)
