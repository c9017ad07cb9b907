"""Cases of operators that the importer decomposes: triangles, running sums,
norms, resized images, equations.

SPDX-License-Identifier: Apache-2.0
"""

import math

import numpy as np

import reference
from case import add, apart, int64, normal, positive

# Diagonals.
for name, upper, k in (
    ("upper", 1, 0),
    ("upper_above", 1, 2),
    ("lower_below", 0, -1),
    ("lower_all", 0, 100),
):
    add(
        f"trilu_{name}",
        "Trilu",
        {"x": normal(2, 5, 7), "k": np.array(k)},
        lambda x, k, upper: (np.triu if upper else np.tril)(x, int(k)),
        attributes={"upper": upper},
        constant=("k",),
    )


# Classes.
def one_hot(indices, depth, values, axis):
    classes = np.arange(int(depth))
    named = np.where(indices < 0, indices + int(depth), indices)
    hot = np.expand_dims(named, -1) == classes
    hot = np.moveaxis(hot, -1, axis if axis >= 0 else axis + hot.ndim)
    return np.where(hot, values[1], values[0])


for axis in (-1, 1):
    add(
        f"one_hot_axis_{axis}",
        "OneHot",
        {
            # One index counts from the end, and two name no class.
            "indices": np.array([[3, -1, 0], [5, 9, -7]]),
            "depth": np.array(6),
            "values": np.array([-0.25, 1.5]),
        },
        one_hot,
        attributes={"axis": axis},
        constant=("depth",),
        terms=36,
    )
for axis in (-1, 1):
    add(
        f"hardmax_axis_{axis}",
        "Hardmax",
        # The first of two largest elements wins.
        {"x": np.maximum(apart(3, 5, 4), -0.5) // 0.25},
        lambda x, axis: np.moveaxis(
            np.eye(x.shape[axis])[x.argmax(axis)], -1, axis
        ),
        attributes={"axis": axis},
        gradient=False,
    )


# Running sums.
def cumsum(x, axis, exclusive=0, reverse=0):
    x = np.flip(x, int(axis)) if reverse else x
    y = np.cumsum(x, int(axis))
    if exclusive:
        y = y - x
    return np.flip(y, int(axis)) if reverse else y


for name, shape, axis, attributes in (
    ("rows", (6, 33), 1, {}),
    ("columns", (33, 19), 0, {"exclusive": 1}),
    ("middle", (3, 17, 5), -2, {"reverse": 1}),
    ("both", (4, 40), 1, {"exclusive": 1, "reverse": 1}),
):
    add(
        f"cumsum_{name}",
        "CumSum",
        {"x": normal(*shape), "axis": np.array(axis)},
        cumsum,
        attributes=attributes,
        constant=("axis",),
        terms=shape[axis],
    )


# Running products, some with zeros.
def cumprod(x, axis, exclusive=0, reverse=0):
    axis = int(axis)
    x = np.flip(x, axis) if reverse else x
    y = np.cumprod(x, axis)
    if exclusive:
        ones = np.ones_like(np.take(y, [0], axis))
        y = np.concatenate([ones, np.take(y, range(y.shape[axis] - 1), axis)], axis)
    return np.flip(y, axis) if reverse else y


for name, shape, axis, attributes in (
    ("rows", (6, 9), 1, {}),
    ("columns", (7, 5), 0, {"exclusive": 1}),
    ("middle", (3, 8, 5), -2, {"reverse": 1}),
    ("both", (4, 6), 1, {"exclusive": 1, "reverse": 1}),
    ("one", (4, 1), 1, {"exclusive": 1}),
):
    factors = normal(*shape)
    factors.flat[3] = 0
    add(
        f"cumprod_{name}",
        "CumProd",
        {"x": factors, "axis": np.array(axis)},
        cumprod,
        attributes=attributes,
        constant=("axis",),
        terms=shape[axis],
        opset=26,
        # A running product of one element is a constant.
        gradient=shape[axis] > 1,
    )


# Sequences.
def reverse_sequence(x, lengths, batch_axis, time_axis):
    result = np.array(x)
    for i, length in enumerate(lengths):
        at = [slice(None)] * x.ndim
        at[batch_axis] = i
        part = np.moveaxis(result[tuple(at)], 0, 0)
        part[:length] = part[:length][::-1].copy()
    return result


for batch, time in ((0, 1), (1, 0)):
    shape = (4, 6, 3) if batch == 0 else (6, 4, 3)
    add(
        f"reverse_sequence_batch_{batch}",
        "ReverseSequence",
        {"x": normal(*shape), "lengths": int64(6, 1, 3, 4)},
        reverse_sequence,
        attributes={"batch_axis": batch, "time_axis": time},
        constant=("lengths",),
    )
CHOSEN = np.array([True, False, True, True, False])
for name, attributes in (("rows", {"axis": 0}), ("all", {})):
    add(
        f"compress_{name}",
        "Compress",
        {"x": normal(5, 4), "condition": CHOSEN},
        lambda x, condition, axis=None: np.compress(condition, x, axis),
        attributes=attributes,
        constant=("condition",),
    )


# Norms.
def norm(x, axes, p):
    return (np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)


for p in (1, 2):
    add(
        f"lp_normalization_{p}",
        "LpNormalization",
        {"x": apart(3, 5, 4)},
        lambda x, axis, p: x / norm(x, axis, p),
        attributes={"axis": 1, "p": p},
        terms=8,
    )


def space_to_depth(x, blocksize, mode):
    n, c, h, w = x.shape
    apart = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return apart.transpose(order).reshape(n, -1, h // blocksize, w // blocksize)


for mode in ("DCR", "CRD"):
    add(
        f"space_to_depth_{mode.lower()}",
        "SpaceToDepth",
        {"x": normal(2, 3, 4, 6)},
        space_to_depth,
        attributes={"blocksize": 2, "mode": mode},
        opset=28,
    )
for p in (1, 2, 3):
    add(
        f"global_lp_pool_{p}",
        "GlobalLpPool",
        {"x": apart(2, 3, 4, 5)},
        lambda x, p: norm(x, (2, 3), p),
        attributes={"p": p},
        terms=40,
    )
for name, attributes in (
    ("plain", {"kernel_shape": [2, 3]}),
    ("padded", {"kernel_shape": [3, 3], "pads": [1, 0, 1, 1], "p": 3}),
    ("ceil", {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    (
        "dilated",
        {
            "kernel_shape": [2, 3],
            "dilations": [3, 2],
            "pads": [1, 0, 0, 2],
            "strides": [2, 2],
            "ceil_mode": 1,
        },
    ),
):
    add(
        f"lp_pool_{name}",
        "LpPool",
        {"x": apart(2, 3, 6, 7)},
        reference.lp_pool,
        attributes=attributes,
        opset=18,
        terms=18,
    )
add(
    "mean_variance_normalization",
    "MeanVarianceNormalization",
    {"x": normal(4, 3, 5, 2)},
    lambda x, axes: (
        (x - x.mean(tuple(axes), keepdims=True))
        / (x.std(tuple(axes), keepdims=True) + 1e-9)
    ),
    attributes={"axes": [0, 2, 3]},
    terms=80,
)
for name, attributes in (
    ("hard", {"lambd": 1.5}),
    ("soft", {"lambd": 0.75, "bias": 0.75}),
):
    add(
        f"shrink_{name}",
        "Shrink",
        {"x": apart(5, 37)},
        lambda x, lambd, bias=0.0: np.where(
            x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)
        ),
        attributes=attributes,
    )

# Padding with elements of the input.
for mode in ("edge", "reflect", "wrap"):
    add(
        f"pad_{mode}",
        "Pad",
        {"x": normal(2, 4, 5), "pads": int64(0, 1, 3, 0, 2, 4)},
        lambda x, pads, mode: np.pad(x, list(zip(pads[:3], pads[3:])), mode),
        attributes={"mode": mode},
        opset=19,
        constant=("pads",),
    )

# Resized images: sizes and scales, all coordinates, every filter.
NOTHING = np.zeros(0, np.float32)
# The absolute cubic weights sum to less than 1.4 on each of two axes.
WEIGHED = 2 * np.abs(normal(1, 2, 3, 5)).max()
for name, extents, attributes in (
    ("nearest_twice", (1, 2, 6, 10), {}),
    ("nearest_odd", (1, 2, 5, 7), {"nearest_mode": "round_prefer_ceil"}),
    ("nearest_half", (1, 2, 3, 2), {"nearest_mode": "floor"}),
    ("nearest_asymmetric", (1, 2, 4, 9), {"nearest_mode": "ceil"}),
    ("linear_up", (1, 2, 7, 9), {"mode": "linear"}),
    ("linear_down", (1, 2, 2, 3), {"mode": "linear"}),
    (
        "linear_antialias",
        (1, 2, 2, 2),
        {"mode": "linear", "antialias": 1},
    ),
    (
        "linear_corners",
        (1, 2, 6, 9),
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    ("cubic_up", (1, 2, 5, 8), {"mode": "cubic"}),
    (
        "cubic_exclude_outside",
        (1, 2, 7, 3),
        {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
    ),
    ("cubic_antialias", (1, 2, 2, 3), {"mode": "cubic", "antialias": 1}),
    (
        "not_larger",
        (1, 2, 9, 8),
        {
            "mode": "linear",
            "keep_aspect_ratio_policy": "not_larger",
            "axes": [2, 3],
        },
    ),
):
    if name == "nearest_asymmetric":
        attributes["coordinate_transformation_mode"] = "asymmetric"
    add(
        f"resize_{name}",
        "Resize",
        {
            "x": normal(1, 2, 3, 5),
            "roi": NOTHING,
            "scales": NOTHING,
            "sizes": int64(*extents[4 - len(attributes.get("axes", [0] * 4)) :]),
        },
        reference.resize,
        attributes=attributes,
        opset=19,
        terms=40,
        contraction=2 if "mode" in attributes else 0,
        magnitude=WEIGHED,
        constant=("roi", "scales", "sizes"),
    )
for name, scales, roi, attributes in (
    ("scales", [1.0, 1.3, 0.6, 2.4], [], {"mode": "linear"}),
    (
        "symmetric",
        [1.0, 1.0, 2.3, 1.3],
        [],
        {
            "mode": "cubic",
            "coordinate_transformation_mode": "half_pixel_symmetric",
        },
    ),
    (
        "crop",
        [1.0, 1.0, 2.0, 1.5],
        [0, 0, 0.4, -0.3, 1, 1, 1.2, 0.8],
        {
            "mode": "linear",
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "extrapolation_value": 7.0,
        },
    ),
):
    add(
        f"resize_{name}",
        "Resize",
        {
            "x": normal(1, 2, 3, 5),
            "roi": np.array(roi, np.float32),
            "scales": np.array(scales, np.float32),
        },
        reference.resize,
        attributes=attributes,
        opset=19,
        terms=40,
        contraction=3,
        magnitude=WEIGHED,
        constant=("roi", "scales"),
    )
# ONNX computes these in float32. 2.6 is rounded down, but 5 * 2.6 is 13. At
# scale 0.6, element 3 of the result is element 5 of the input.
for name, columns, scale, chosen in (
    ("extent", 5, 2.6, [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4]),
    ("places", 8, 0.6, [0, 1, 3, 5]),
):
    add(
        f"resize_{name}_in_float",
        "Resize",
        {
            "x": normal(3, columns),
            "roi": NOTHING,
            "scales": np.array([1.0, scale], np.float32),
        },
        lambda x, *_, chosen=chosen, **attributes: x[:, chosen],
        attributes={
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
        opset=19,
        constant=("roi", "scales"),
    )
add(
    "upsample",
    "Upsample",
    {
        "x": normal(1, 2, 3, 5),
        "scales": np.array([1.0, 1.0, 3.0, 2.0], np.float32),
    },
    lambda x, scales: x.repeat(3, 2).repeat(2, 3),
    opset=9,
    terms=6,
    constant=("scales",),
)

# Equations.
for name, equation, shapes in (
    ("matrices", "ij,jk->ik", ((7, 9), (9, 5))),
    ("batches", "bhqd,bhkd->bhqk", ((2, 3, 4, 6), (2, 3, 5, 6))),
    ("ellipsis", "...ij,...jk->...ik", ((2, 1, 4, 6), (3, 6, 5))),
    ("implicit", "ba,cb", ((4, 5), (3, 4))),
    ("outer", "i,j->ij", ((4,), (6,))),
    ("dots", "bi,bi->b", ((4, 9), (4, 9))),
    ("trace", "bii->b", ((3, 5, 5),)),
    ("thrice", "iii->i", ((4, 4, 4),)),
    ("sum", "abc->c", ((3, 4, 5),)),
    ("turned", "abc->cab", ((3, 4, 5),)),
    ("three", "ab,bc,cd->ad", ((3, 4), (4, 5), (5, 2))),
    ("kept_apart", "abc,cd,b->bd", ((3, 4, 5), (5, 2), (4,))),
    ("scalar", "ij,ij->", ((3, 4), (3, 4))),
):
    add(
        f"einsum_{name}",
        "Einsum",
        {f"x{i}": normal(*shape) for i, shape in enumerate(shapes)},
        lambda *terms, equation: np.einsum(equation, *terms),
        attributes={"equation": equation},
        terms=60,
        contraction=2,
    )

# Determinants, some of singular matrices. A determinant is a polynomial in the
# elements.
SINGULAR = normal(2, 4, 4)
SINGULAR[0, :, 1] = 2 * SINGULAR[0, :, 3]
SINGULAR[1, 2:] = 0
for name, matrices in (
    ("of_one", normal(1, 1)),
    ("of_three", normal(2, 2, 3, 3)),
    ("singular", SINGULAR),
    ("of_six", normal(6, 6)),
):
    add(
        f"det_{name}",
        "Det",
        {"x": matrices},
        np.linalg.det,
        # The absolute products sum to less than this many times the result.
        terms=4 * math.factorial(matrices.shape[-1]),
    )
