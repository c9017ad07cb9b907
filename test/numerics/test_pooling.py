"""MaxPool's Indices, MaxUnpool and MaxPool of bytes are right. Indices count in
the whole tensor, by rows or by columns.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest
import reference
from case import apart

WINDOWS = {
    "plain": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "padded": {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
    "dilated": {"kernel_shape": [2, 3], "dilations": [3, 2]},
}


def indices_of(x, y, attributes, by_columns):
    """Finds indices by value: all values differ."""
    places = np.arange(x.size).reshape(x.shape)
    if by_columns:
        plane = x.shape[2:]
        own = np.arange(np.prod(plane)).reshape(plane[::-1]).T
        starts = np.arange(x.shape[0] * x.shape[1]) * own.size
        places = starts.reshape(*x.shape[:2], *[1] * own.ndim) + own
    at = {float(value): place for value, place in zip(x.flat, places.flat)}
    return np.array([at[float(value)] for value in y.flat]).reshape(y.shape)


def pool(x, attributes, folder, *flags):
    y = reference.max_pool(x, **attributes)
    model = mpctest.make_model(
        [
            helper.make_node("MaxPool", ["x"], ["y", "rows"], **attributes),
            helper.make_node(
                "MaxPool", ["x"], ["z", "columns"], storage_order=1, **attributes
            ),
        ],
        {"x": (x.dtype, x.shape)},
        {
            "y": (x.dtype, y.shape),
            "rows": (np.int64, y.shape),
            "columns": (np.int64, y.shape),
        },
        {},
    )
    outputs = mpctest.run(model, {"x": x}, folder, *flags)
    np.testing.assert_array_equal(outputs["y"], y)
    for name in ("rows", "columns"):
        assert outputs[name].dtype == np.int64
        expected = indices_of(x, y, attributes, name == "columns")
        np.testing.assert_array_equal(outputs[name], expected)


@pytest.mark.parametrize("name", WINDOWS)
def test_indices_name_the_maxima(name, tmp_path):
    pool(apart(2, 3, 6, 8).astype(np.float32), WINDOWS[name], tmp_path)


@pytest.mark.parametrize("rank", (1, 3))
def test_indices_of_other_ranks(rank, tmp_path):
    shape = (2, 3, 5, 4, 6)[: rank + 2]
    attributes = {"kernel_shape": [2] * rank, "strides": [1] * rank}
    pool(apart(*shape).astype(np.float64), attributes, tmp_path)


@pytest.mark.parametrize("dtype", (np.uint8, np.int8))
@pytest.mark.parametrize("precision", ("32-true", "bf16-mixed"))
def test_bytes(dtype, precision, tmp_path):
    info = np.iinfo(dtype)
    values = np.random.RandomState(1).permutation(info.max - info.min + 1)
    x = (values + info.min).astype(dtype)[:240].reshape(2, 1, 12, 10)
    # The lowest value of the reference must be representable as a float.
    attributes = WINDOWS["padded"]
    y = reference.max_pool(x.astype(np.float64), **attributes)
    model = mpctest.make_model(
        [helper.make_node("MaxPool", ["x"], ["y", "i"], **attributes)],
        {"x": (dtype, x.shape)},
        {"y": (dtype, y.shape), "i": (np.int64, y.shape)},
        {},
    )
    outputs = mpctest.run(model, {"x": x}, tmp_path, "--precision", precision)
    assert outputs["y"].dtype == dtype
    np.testing.assert_array_equal(outputs["y"], y)
    expected = indices_of(x, outputs["y"], attributes, False)
    np.testing.assert_array_equal(outputs["i"], expected)


def test_unpooling_turns_pooling_round(tmp_path):
    """The gradient passes both ops and reaches only the maxima."""
    x = apart(2, 2, 4, 6)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p", "i"], **window),
        helper.make_node("MaxUnpool", ["p", "i"], ["y"], **window),
        helper.make_node("Mul", ["y", "direction"], ["terms"]),
        helper.make_node("ReduceSum", ["terms"], ["loss"], keepdims=0),
    ]
    model = mpctest.make_model(
        nodes,
        {"direction": (np.float64, ["N", *x.shape])},
        {"loss": (np.float64, [])},
        {"x": x},
    )
    direction = np.random.RandomState(2).standard_normal(x.shape)
    _, weights = mpctest.train(
        model,
        {"direction": direction[None]},
        tmp_path,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1"),
        *("--precision", "64-true", "--train", "^x$"),
    )
    is_maximum = np.isin(x, reference.max_pool(x, **window))
    expected = np.where(is_maximum, direction, 0)
    np.testing.assert_allclose(x - weights["x"], expected, atol=1e-14)


def test_indices_that_name_nothing_are_refused(tmp_path):
    x = np.ones((1, 1, 2, 2), np.float32)
    node = helper.make_node(
        "MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2]
    )
    model = mpctest.make_model(
        [node],
        {"x": (x.dtype, x.shape)},
        {"y": (x.dtype, (1, 1, 4, 4))},
        {"i": np.array([0, 1, 2, 16]).reshape(x.shape)},
    )
    with pytest.raises(AssertionError, match="index 16 of .* is outside an axis"):
        mpctest.run(model, {"x": x}, tmp_path)
