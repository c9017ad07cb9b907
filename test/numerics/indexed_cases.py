"""Cases of ops that read or write elements by index.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from case import add, apart, normal


def indices(*shape, size, distinct=False):
    """Returns indices of an axis of `size`, some counted from the end. If
    `distinct`, no two of them along axis 0 are equal."""
    random = np.random.RandomState(sum(shape) + size)
    if distinct:
        count = shape[0]
        lines = [
            random.permutation(size)[:count]
            for _ in range(int(np.prod(shape[1:])))
        ]
        chosen = np.array(lines).T.reshape(shape)
    else:
        chosen = random.randint(0, size, shape)
    return np.where(random.rand(*shape) < 0.5, chosen, chosen - size).astype(
        np.int64
    )


def gather(data, index, axis):
    return np.take(data, index, axis=axis)


def gather_elements(data, index, axis):
    box = tuple(
        slice(None) if d == axis % data.ndim else slice(0, size)
        for d, size in enumerate(index.shape)
    )
    return np.take_along_axis(data[box], index, axis=axis)


def scatter_elements(data, index, updates, axis, reduction="none"):
    combine = {
        "none": lambda old, new: new,
        "add": lambda old, new: old + new,
        "mul": lambda old, new: old * new,
        "max": max,
        "min": min,
    }[reduction]
    result = np.array(data)
    for at in np.ndindex(*index.shape):
        to = list(at)
        to[axis] = index[at]
        result[tuple(to)] = combine(result[tuple(to)], updates[at])
    return result


# A table of words, whose rows are read in whole vectors, in parts of a vector,
# and element by element; along the first, a middle and the last axis.
for name, data, index, axis in (
    ("words", (50, 32), (4, 7), 0),
    ("words_odd", (50, 13), (9,), 0),
    ("words_scalar_rows", (50,), (4, 7), 0),
    ("middle", (3, 11, 8), (5,), 1),
    ("last", (6, 11), (4, 3), -1),
    ("single_per_row", (6, 11), (1,), 1),
):
    size = data[axis]
    add(
        f"gather_{name}",
        "Gather",
        {"data": normal(*data), "indices": indices(*index, size=size)},
        lambda data, indices, axis=axis: gather(data, indices, axis),
        attributes={"axis": axis},
        terms=int(np.prod(index)),
    )

for name, data, index, axis in (
    ("rows", (9, 6), (4, 6), 0),
    ("columns", (5, 17), (5, 33), 1),
    ("middle", (3, 7, 16), (3, 5, 16), 1),
    ("box", (6, 9, 5), (3, 4, 5), 1),
    ("vector", (40,), (19,), 0),
):
    size = data[axis]
    add(
        f"gather_elements_{name}",
        "GatherElements",
        {"data": normal(*data), "indices": indices(*index, size=size)},
        lambda data, indices, axis=axis: gather_elements(data, indices, axis),
        attributes={"axis": axis},
        terms=index[axis],
    )

for reduction in ("none", "add", "mul", "max", "min"):
    for name, data, index, axis in (
        ("rows", (9, 6), (4, 6), 0),
        ("columns", (5, 17), (5, 9), 1),
        ("box", (6, 9, 5), (3, 4, 2), 1),
    ):
        size = data[axis]
        # ONNX does not define which of two updates of an element stays.
        distinct = reduction == "none"
        chosen = indices(
            index[axis],
            *(n for d, n in enumerate(index) if d != axis),
            size=size,
            distinct=distinct,
        )
        add(
            f"scatter_elements_{reduction}_{name}",
            "ScatterElements",
            {
                "data": normal(*data),
                "indices": np.moveaxis(chosen, 0, axis),
                "updates": normal(*index, 1)[..., 0],
            },
            lambda data, indices, updates, axis=axis, reduction=reduction: (
                scatter_elements(data, indices, updates, axis, reduction)
            ),
            attributes={"axis": axis, "reduction": reduction},
            opset=18,
            terms=index[axis] + 1,
        )

# Products with one factor of 0, with two, and with none.
add(
    "scatter_elements_mul_zeros",
    "ScatterElements",
    {
        "data": np.array([2.0, 0.0, 3.0, 0.0, -1.0]),
        "indices": np.array([0, 0, 1, 3, 2, 2]),
        "updates": np.array([0.0, 4.0, 5.0, 0.0, -2.0, 3.0]),
    },
    scatter_elements,
    attributes={"axis": 0, "reduction": "mul"},
    opset=18,
    terms=3,
)


def gather_nd(data, index, batch_dims=0):
    batch = index.shape[:batch_dims]
    rows = [
        data[at][tuple(np.moveaxis(index[at], -1, 0))]
        for at in np.ndindex(*batch)
    ]
    return np.array(rows).reshape(batch + rows[0].shape)


def scatter_nd(data, index, updates, reduction="none"):
    result = np.array(data)
    for at in np.ndindex(*index.shape[:-1]):
        to = tuple(index[at])
        old, new = result[to], updates[at]
        result[to] = {
            "none": new,
            "add": old + new,
            "mul": old * new,
            "max": np.maximum(old, new),
            "min": np.minimum(old, new),
        }[reduction]
    return result


# Tuples of one index, also given at run time, and of several.
PARTS = np.array([[2], [-1], [4], [0]], np.int64)
PAIRS = np.array([[[2, 0], [-1, 3]], [[0, -2], [1, 1]]], np.int64)
for name, data, index, batch_dims in (
    ("parts", (6, 5, 3), PARTS, 0),
    ("pairs", (3, 4, 2), PAIRS, 0),
    ("elements", (3, 4), PAIRS, 0),
    ("batches", (2, 6, 3), PARTS.reshape(2, 2, 1), 1),
    ("pairs_of_batches", (2, 3, 4), PAIRS, 1),
):
    add(
        f"gather_nd_{name}",
        "GatherND",
        {"data": normal(*data), "indices": index},
        lambda data, indices, batch_dims=batch_dims: gather_nd(
            data, indices, batch_dims
        ),
        attributes={"batch_dims": batch_dims},
        terms=4,
    )

for reduction in ("none", "add", "mul", "max", "min"):
    for name, data, index in (
        ("parts", (6, 5, 3), PARTS),
        ("pairs", (3, 4, 2), PAIRS),
    ):
        updates = index.shape[:-1] + data[index.shape[-1] :]
        add(
            f"scatter_nd_{reduction}_{name}",
            "ScatterND",
            {
                "data": normal(*data),
                "indices": index,
                "updates": normal(*updates, 1)[..., 0],
            },
            lambda data, indices, updates, reduction=reduction: scatter_nd(
                data, indices, updates, reduction
            ),
            attributes={"reduction": reduction},
            opset=18,
            terms=2,
        )


def col2im(columns, image_shape, block_shape, strides, pads, dilations):
    """Returns the sum of all blocks, each at its original place."""
    rank = len(image_shape)
    padded = [
        size + pads[d] + pads[rank + d] for d, size in enumerate(image_shape)
    ]
    counts = [
        (size - dilations[d] * (block_shape[d] - 1) - 1) // strides[d] + 1
        for d, size in enumerate(padded)
    ]
    blocks = columns.reshape(len(columns), -1, *block_shape, *counts)
    image = np.zeros((*blocks.shape[:2], *padded))
    for at in np.ndindex(*counts):
        box = tuple(
            slice(
                i * strides[d],
                i * strides[d] + dilations[d] * (block_shape[d] - 1) + 1,
                dilations[d],
            )
            for d, i in enumerate(at)
        )
        image[(..., *box)] += blocks[(..., *at)]
    inside = tuple(slice(pads[d], pads[d] + image_shape[d]) for d in range(rank))
    return image[(..., *inside)]


for name, columns, image, block, strides, pads, dilations in (
    ("plain", (2, 12, 12), (4, 5), (2, 2), [1, 1], [0] * 4, [1, 1]),
    ("holes", (1, 8, 6), (6, 7), (2, 4), [3, 3], [0, 1, 1, 2], [2, 1]),
    ("1d", (2, 6, 3), (5,), (3,), [2], [2, 3], [2]),
    ("3d", (1, 8, 18), (2, 4, 3), (2, 1, 2), [1, 2, 1], [0, 1, 0, 1, 0, 1], [1] * 3),
):
    add(
        f"col2im_{name}",
        "Col2Im",
        {
            "x": normal(*columns),
            "image_shape": np.array(image),
            "block_shape": np.array(block),
        },
        col2im,
        attributes={"strides": strides, "pads": pads, "dilations": dilations},
        constant=("image_shape", "block_shape"),
        opset=18,
        terms=int(np.prod(block)),
    )


def tensor_scatter(cache, update, places=None, mode="linear", axis=-2):
    cache, update = (np.moveaxis(x, axis, 1).copy() for x in (cache, update))
    for sample, first in enumerate([0] * len(cache) if places is None else places):
        for i, part in enumerate(update[sample]):
            at = first + i
            cache[sample, at % cache.shape[1] if mode == "circular" else at] = part
    return np.moveaxis(cache, 1, axis)


for name, cache, length, places, mode, axis in (
    ("first", (2, 3, 5, 4), 2, None, "linear", -2),
    ("linear", (2, 3, 5, 4), 2, [3, 0], "linear", -2),
    ("circular", (3, 2, 4, 4), 3, [3, 0, -2], "circular", 2),
    ("axis", (3, 6, 2), 4, [1, 0, 2], "linear", 1),
    ("last", (2, 3, 5), 1, [4, 2], "linear", -1),
):
    update = list(cache)
    update[axis] = length
    arguments = {"cache": normal(*cache), "new": normal(*update, 1)[..., 0]}
    if places is not None:
        arguments["places"] = np.array(places)
    add(
        f"tensor_scatter_{name}",
        "TensorScatter",
        arguments,
        tensor_scatter,
        attributes={"mode": mode, "axis": axis},
        opset=24,
    )


def top_k(x, k, axis=-1, largest=1):
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    return np.take_along_axis(x, np.take(order, range(k[0]), axis), axis)


for name, shape, k, attributes in (
    ("counting", (3, 8), 4, {}),
    ("rounds", (2, 21, 3), 2, {"axis": 1, "largest": 0}),
    ("loop", (2, 50), 9, {}),
):
    add(
        f"top_k_{name}",
        "TopK",
        {"x": apart(*shape), "k": np.array([k])},
        top_k,
        attributes=attributes,
        constant=("k",),
    )
