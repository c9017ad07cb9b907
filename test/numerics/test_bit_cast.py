"""BitCast reads bits as another type, for every pair of types of one width.

SPDX-License-Identifier: Apache-2.0
"""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import mpctest

BITS = {
    8: (np.int8, np.uint8),
    16: (np.float16, "bfloat16", np.int16, np.uint16),
    32: (np.float32, np.int32, np.uint32),
    64: (np.float64, np.int64, np.uint64),
}
RECASTS = [
    (source, target)
    for types in BITS.values()
    for source in types
    for target in types
    if source != target
]


def numpy_type(dtype):
    return np.dtype(getattr(ml_dtypes, dtype) if isinstance(dtype, str) else dtype)


def some_bits(dtype):
    """Returns numbers of the type: limits, subnormals, infinities and others,
    of both signs. There is no NaN, because a conversion may change its bits."""
    width = dtype.itemsize * 8
    random = np.random.RandomState(width)
    bits = random.randint(0, 256, 64 * dtype.itemsize, np.uint8)
    bits = bits.view(f"u{dtype.itemsize}")
    edges = np.array([0, 1, 3, 2 ** (width - 1), 2**width - 1], bits.dtype)
    numbers = np.concatenate([edges, bits]).view(dtype)
    if dtype.kind != "f" and dtype.name != "bfloat16":
        return numbers
    zero = np.zeros_like(numbers)
    return np.where(np.isfinite(numbers.astype(np.float64)), numbers, zero)


def recast_model(source, target, numbers, known):
    """Returns a BitCast of an input or of an initializer. NumPy files cannot
    hold bfloat16, so bfloat16 inputs are cast from float32."""
    source, target = numpy_type(source), numpy_type(target)
    nodes, inputs, initializers = [], {}, {}
    if known:
        initializers["x"] = numbers
    elif source.name == "bfloat16":
        inputs["wide"] = (np.float32, numbers.shape)
        nodes.append(
            helper.make_node("Cast", ["wide"], ["x"], to=TensorProto.BFLOAT16)
        )
    else:
        inputs["x"] = (source, numbers.shape)
    to = helper.np_dtype_to_tensor_dtype(target)
    is_low = target.name == "bfloat16"
    nodes.append(
        helper.make_node("BitCast", ["x"], ["bits" if is_low else "y"], to=to)
    )
    if is_low:
        nodes.append(helper.make_node("Cast", ["bits"], ["y"], to=1))
    result = np.float32 if is_low else target
    return mpctest.make_model(
        nodes, inputs, {"y": (result, numbers.shape)}, initializers, 26
    )


@pytest.mark.parametrize("known", [False, True], ids=["given", "known"])
@pytest.mark.parametrize(
    ("source", "target"),
    RECASTS,
    ids=lambda dtype: numpy_type(dtype).name,
)
def test_bit_cast(source, target, known, tmp_path):
    # Bits that are numbers in both types. With bfloat16 there are no
    # subnormals, which its instructions may flush to zero.
    first, second = numpy_type(source), numpy_type(target)
    numbers = some_bits(first)
    other = numbers.view(second)
    if second.kind == "f" or second.name == "bfloat16":
        wide = other.astype(np.float64)
        numbers = np.where(np.isfinite(wide), numbers, np.zeros_like(numbers))
    if "bfloat16" in (first.name, second.name):
        low = np.abs(numbers.view(ml_dtypes.bfloat16).astype(np.float32))
        numbers = np.where(low < 2.0**-126, np.zeros_like(numbers), numbers)
    model = recast_model(source, target, numbers, known)
    given = numbers.astype(np.float32) if first.name == "bfloat16" else numbers
    inputs = {} if known else {model.graph.input[0].name: given}
    actual = mpctest.run(model, inputs, tmp_path)["y"]
    expected = numbers.view(second)
    if second.name == "bfloat16":
        actual = actual.astype(second)
    np.testing.assert_array_equal(
        actual.view(f"u{second.itemsize}"), expected.view(f"u{second.itemsize}")
    )


@pytest.mark.parametrize("precision", ("32-true", "64-true", "bf16-mixed"))
def test_bits_of_an_f32_are_32_in_any_mode(precision, tmp_path):
    """Reads an exponent from bits and makes a power of two. A mode has both
    float values in another type."""
    nodes = [
        helper.make_node("BitCast", ["x"], ["bits"], to=TensorProto.INT32),
        helper.make_node("BitwiseAnd", ["bits", "mask"], ["exponent"]),
        helper.make_node("BitCast", ["exponent"], ["power"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["power", "half"], ["y"]),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, (6,))},
        {"y": (np.float32, (6,))},
        {
            "mask": np.array(0x7F800000, np.int32),
            "half": np.array(0.5, np.float32),
        },
        26,
    )
    x = np.array([1.5, -3.0, 0.3, 100.0, 1e-20, -0.0], np.float32)
    y = mpctest.run(model, {"x": x}, tmp_path, "--precision", precision)["y"]
    expected = np.where(x == 0, 0, 2.0 ** np.floor(np.log2(np.abs(x + (x == 0)))))
    np.testing.assert_array_equal(y.astype(np.float32), (expected / 2).astype("f4"))
