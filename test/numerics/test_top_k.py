"""TopK's values and indices exactly equal a stable sort.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import pytest
from onnx import helper

import mpctest


def top_k(x, k, axis, largest):
    """NaN is above all numbers. The first of equal elements comes first."""
    keys = x.astype(object) if x.dtype.kind in "iu" else x.astype(np.float64)
    if x.dtype.kind == "f":
        keys = np.where(np.isnan(x), np.inf, keys)
        # NaN and infinity are not equal.
        rank = np.isnan(x).astype(np.int64)
    else:
        rank = np.zeros(x.shape, np.int64)
    sign = -1 if largest else 1

    def line(pair):
        keys, rank = pair
        order = sorted(
            range(len(keys)), key=lambda i: (sign * keys[i], sign * rank[i], i)
        )
        return order[:k]

    keys, rank = np.moveaxis(keys, axis, -1), np.moveaxis(rank, axis, -1)
    indices = np.zeros((*keys.shape[:-1], k), np.int64)
    for at in np.ndindex(*keys.shape[:-1]):
        indices[at] = line((list(keys[at]), list(rank[at])))
    indices = np.moveaxis(indices, -1, axis)
    return np.take_along_axis(x, indices, axis), indices


def run(x, k, folder, opset=11, **attributes):
    outputs = {"v": (x.dtype, None), "i": (np.int64, None)}
    inputs, initializers = ["x"], {}
    if opset >= 10:
        inputs, initializers = ["x", "k"], {"k": np.array([k])}
    else:
        attributes["k"] = k
    node = helper.make_node("TopK", inputs, ["v", "i"], "node", **attributes)
    model = mpctest.make_model(
        [node], {"x": (x.dtype, x.shape)}, outputs, initializers, opset
    )
    results = mpctest.run(model, {"x": x}, folder)
    return results["v"], results["i"]


def check(x, k, folder, axis=-1, largest=1, **options):
    if options.get("opset", 11) >= 11:
        options["largest"] = largest
    values, indices = run(x, k, folder, axis=axis, **options)
    expected = top_k(x, k, axis, largest)
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_array_equal(values, expected[0])
    assert values.dtype == x.dtype


def numbers(shape, dtype):
    """Returns numbers with duplicates, and the limits of the type."""
    random = np.random.RandomState(int(np.prod(shape)))
    if np.dtype(dtype).kind == "f":
        x = random.randint(-9, 9, shape).astype(dtype)
        odd = [np.nan, np.inf, -np.inf, -0.0, np.nan, np.inf, -np.inf]
    else:
        limits = np.iinfo(dtype)
        x = random.randint(0, 9, shape).astype(dtype)
        odd = [limits.min, limits.max, limits.max, limits.min]
    x.reshape(-1)[random.permutation(x.size)[: len(odd)]] = odd
    return x


# Rounds as ops and as a loop, and counting: see ImportTopK.cpp.
SIZES = [((3, 40), 3, 1), ((2, 90, 3), 20, 1), ((23, 2), 12, 0), ((9,), 9, -1)]


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("shape, k, axis", SIZES)
@pytest.mark.parametrize(
    "dtype",
    ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"],
)
def test_follows_a_stable_sort(dtype, shape, k, axis, largest, tmp_path):
    check(numbers(shape, dtype), k, tmp_path, axis, largest)


@pytest.mark.parametrize("opset", [6, 9, 10])
def test_older_opsets(opset, tmp_path):
    check(numbers((3, 40), "f4"), 4, tmp_path, axis=1, opset=opset)


@pytest.mark.parametrize("shape, k", [((3, 0), 0), ((3, 4), 0), ((0, 4), 2)])
def test_of_nothing(shape, k, tmp_path):
    check(np.zeros(shape, np.float32), k, tmp_path)


def test_need_not_be_sorted(tmp_path):
    """Sorted order is a permitted order."""
    x = numbers((3, 40), "f4")
    values, _ = run(x, 5, tmp_path, sorted=0)
    np.testing.assert_array_equal(values, top_k(x, 5, -1, 1)[0])


def test_long_lines_do_not_fill_memory(tmp_path):
    """All pairs of 3,000 elements would take 36 MB as bytes."""
    x = np.random.RandomState(0).standard_normal((4, 3000)).astype(np.float32)
    check(x, 1000, tmp_path)
    process = mpctest.mpc_ok(
        *("compile", tmp_path / "model.onnx", "--emit=plan", "-o", "-")
    )
    arena = re.search(r"arena_bytes = (\d+)", process.stdout)
    assert int(arena.group(1)) < 2**20


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("k", [3, 30])
def test_order_is_that_of_what_is_computed(k, precision, tmp_path):
    """In every precision, each element is named once."""
    x = np.random.RandomState(1).standard_normal((4, 64)).astype(np.float32)
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], "sigmoid"),
        helper.make_node("MatMul", ["s", "w"], ["m"], "product"),
        helper.make_node("TopK", ["m", "k"], ["v", "i"], "top"),
    ]
    w = np.random.RandomState(2).standard_normal((64, 40)).astype(np.float32)
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, x.shape)},
        {"v": (np.float32, None), "i": (np.int64, None)},
        {"w": w, "k": np.array([k])},
    )
    results = mpctest.run(model, {"x": x}, tmp_path, "--precision", precision)
    for line, values in zip(results["i"], results["v"]):
        assert len(set(line)) == k
        assert (np.diff(values) <= 0).all()
