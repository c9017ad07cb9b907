"""Cases of ops that interpolate at positions given by boxes and offsets.

SPDX-License-Identifier: Apache-2.0
"""

import itertools

import numpy as np

from case import add, normal, positive


def corners(places):
    """Yields for many positions the neighbouring elements, an array per axis,
    and their weights."""
    below = [np.floor(place).astype(int) for place in places]
    for up in itertools.product((0, 1), repeat=len(places)):
        at = [b + u for b, u in zip(below, up)]
        shares = 1.0
        for place, i in zip(places, at):
            shares = shares * (1 - np.abs(place - i))
        yield at, shares


def roi_align(
    x,
    rois,
    batch_indices,
    mode="avg",
    output_height=1,
    output_width=1,
    sampling_ratio=0,
    spatial_scale=1.0,
    coordinate_transformation_mode="half_pixel",
):
    half = coordinate_transformation_mode == "half_pixel"
    bins, extents = (output_height, output_width), np.array(x.shape[2:])
    result = np.zeros((len(rois), x.shape[1], *bins))
    for r, (box, image) in enumerate(zip(rois, batch_indices)):
        low, high = box[[1, 0]] * spatial_scale, box[[3, 2]] * spatial_scale
        size = high - low if half else np.maximum(high - low, 1)
        low = low - (0.5 if half else 0)
        samples = (sampling_ratio,) * 2
        if sampling_ratio == 0:
            samples = [int(np.ceil(s / b)) for s, b in zip(size, bins)]
        if min(samples) < 1:
            continue
        # Bins, then samples, along either axis. The two axes span a grid.
        along = [
            l + (np.arange(b)[:, None] + (np.arange(n) + 0.5) / n) * s / b
            for l, s, b, n in zip(low, size, bins, samples)
        ]
        places = np.meshgrid(*(a.reshape(-1) for a in along), indexing="ij")
        inside = np.all(
            [(p >= -1) & (p <= e) for p, e in zip(places, extents)], axis=0
        )
        places = [np.clip(p, 0, e - 1) for p, e in zip(places, extents)]
        read = []
        for at, shares in corners(places):
            at = tuple(np.minimum(i, e - 1) for i, e in zip(at, extents))
            read.append(shares * inside * x[image][(slice(None), *at)])
        read = np.reshape(
            read, (4, -1, bins[0], samples[0], bins[1], samples[1])
        )
        result[r] = (
            read.sum(axis=0).mean(axis=(2, 4))
            if mode == "avg"
            else read.max(axis=(0, 3, 5))
        )
    return result


BOXES = np.array(
    [[1.3, 0.9, 7.1, 5.2], [0.2, 2.1, 3.3, 8.4], [3.1, 3.2, 3.7, 3.9]]
)
# Some boxes extend beyond the image, and one is empty.
ODD_BOXES = np.array(
    [[-3.1, -2.2, 3.3, 20.4], [5.1, 0.2, 4.2, 3.3], [1.1, 1.2, 9.3, 2.4]]
)
IMAGES = np.array([1, 0, 1])
for name, mode, boxes, ratio, coordinates, opset in (
    ("avg", "avg", BOXES, 2, "half_pixel", 16),
    ("odd", "avg", ODD_BOXES, 3, "half_pixel", 22),
    ("whole", "avg", ODD_BOXES, 1, "output_half_pixel", 16),
    ("max", "max", BOXES, 2, "output_half_pixel", 16),
    ("opset10", "avg", BOXES, 2, None, 10),
    ("adaptive", "avg", ODD_BOXES, 0, "half_pixel", 16),
    ("adaptive_max", "max", BOXES, 0, "output_half_pixel", 16),
):
    chosen = {"coordinate_transformation_mode": coordinates}
    add(
        f"roi_align_{name}",
        "RoiAlign",
        {
            "x": (positive if mode == "max" else normal)(2, 3, 6, 7),
            "rois": boxes,
            "batch_indices": IMAGES,
        },
        (
            roi_align
            if coordinates
            else lambda *values, **options: roi_align(
                *values,
                coordinate_transformation_mode="output_half_pixel",
                **options,
            )
        ),
        attributes={
            "mode": mode,
            "output_height": 2,
            "output_width": 3,
            "sampling_ratio": ratio,
            "spatial_scale": 0.75,
            **(chosen if coordinates else {}),
        },
        opset=opset,
        terms=64,
        constant=("rois",) if ratio == 0 else (),
    )


def max_roi_pool(x, rois, pooled_shape, spatial_scale=1.0):
    """Bins overlap if they do not divide a box. Bins outside the image are 0."""
    result = np.zeros((len(rois), x.shape[1], *pooled_shape))
    for r, (image, *box) in enumerate(rois):
        places = np.sign(box) * np.floor(np.abs(box) * spatial_scale + 0.5)
        first, last = places[[1, 0]], places[[3, 2]]
        size = np.maximum(last - first + 1, 1) / pooled_shape
        for bins in np.ndindex(*pooled_shape):
            low = np.floor(bins * size) + first
            high = np.ceil((np.array(bins) + 1) * size) + first
            low, high = (
                np.clip(limit, 0, x.shape[2:]).astype(int) for limit in (low, high)
            )
            seen = x[int(image), :, low[0] : high[0], low[1] : high[1]]
            if seen[0].size > 0:
                result[(r, slice(None), *bins)] = seen.max(axis=(1, 2))
    return result


for name, scale, rois in (
    ("boxes", 1.0, [[0, 1, 0, 5, 4], [1, 2, 2, 2, 3]]),
    ("outside", 0.5, [[1, -3, 7, 9, 20], [0, 12, 8, 5, 3], [1, 30, 30, 40, 40]]),
):
    add(
        f"max_roi_pool_{name}",
        "MaxRoiPool",
        {"x": normal(2, 3, 6, 7), "rois": np.array(rois, float)},
        max_roi_pool,
        attributes={"pooled_shape": [2, 3], "spatial_scale": scale},
        opset=13,
        terms=1,
        constant=("rois",),
    )


def deform_conv(
    x,
    w,
    offset,
    bias=None,
    mask=None,
    strides=None,
    pads=None,
    dilations=None,
    group=1,
    offset_group=1,
):
    kernel, results = w.shape[2:], offset.shape[2:]
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * rank
    count = int(np.prod(kernel))
    offset = offset.reshape(len(x), offset_group, count, rank, *results)
    if mask is not None:
        mask = mask.reshape(len(x), offset_group, count, *results)
    shared, image = x.shape[1] // offset_group, x.shape[2:]
    whole = np.indices(results)
    samples = np.arange(len(x)).reshape(-1, *[1] * rank)
    read = np.zeros((*x.shape[:2], count, *results))
    for g, (t, tap) in itertools.product(
        range(offset_group), enumerate(np.ndindex(*kernel))
    ):
        channels = slice(g * shared, (g + 1) * shared)
        places = [
            whole[d] * strides[d] - pads[d] + tap[d] * dilations[d]
            + offset[:, g, t, d]
            for d in range(rank)
        ]
        for at, shares in corners(places):
            inside = np.all(
                [(0 <= i) & (i < e) for i, e in zip(at, image)], axis=0
            )
            at = [np.clip(i, 0, e - 1) for i, e in zip(at, image)]
            # NumPy puts indexed axes with a slice between them first.
            values = x[(samples, channels, *at)]
            read[:, channels, t] += np.moveaxis(
                (shares * inside)[..., None] * values, -1, 1
            )
        if mask is not None:
            read[:, channels, t] *= mask[:, g, t][:, None]
    y = np.zeros((len(x), len(w), *results))
    for m in range(len(w)):
        first = m // (len(w) // group) * w.shape[1]
        own = read[:, first : first + w.shape[1]]
        taps = w[m].reshape(1, w.shape[1], count, *[1] * rank)
        y[:, m] = (own * taps).sum(axis=(1, 2))
        y[:, m] += 0 if bias is None else bias[m]
    return y


for name, x, w, results, rest in (
    ("plain", (2, 2, 4, 5), (3, 2, 2, 2), (3, 4), {}),
    (
        "groups",
        (2, 4, 5, 6),
        (4, 2, 3, 2),
        (3, 2),
        {
            "group": 2,
            "offset_group": 2,
            "strides": [2, 3],
            "pads": [1, 0, 1, 0],
            "dilations": [1, 2],
        },
    ),
    ("1d", (1, 2, 9), (2, 2, 3), (9,), {"pads": [1, 1]}),
    ("3d", (1, 2, 3, 2, 4), (1, 2, 2, 1, 2), (2, 2, 3), {}),
):
    offsets = rest.get("offset_group", 1) * int(np.prod(w[2:]))
    arguments = {
        "x": normal(*x),
        "w": normal(*w),
        "offset": normal(x[0], offsets * len(results), *results),
    }
    for masked in (False, True):
        if masked:
            arguments = {
                **arguments,
                "bias": normal(w[0]),
                "mask": positive(x[0], offsets, *results),
            }
        add(
            f"deform_conv_{name}{'_masked' if masked else ''}",
            "DeformConv",
            arguments,
            deform_conv,
            attributes=rest,
            opset=19,
            terms=4 * int(np.prod(w[1:])),
            contraction=1,
            magnitude=10.0 * int(np.prod(w[1:])),
        )
