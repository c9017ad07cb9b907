"""Cases of ops that read between elements, at places that boxes and offsets
name.

SPDX-License-Identifier: Apache-2.0
"""

import itertools

import numpy as np

from case import add, normal, positive


def corners(place):
    """The elements around a place, each with its share."""
    below = [int(np.floor(x)) for x in place]
    for up in itertools.product((0, 1), repeat=len(place)):
        at = tuple(b + u for b, u in zip(below, up))
        shares = [1 - abs(x - i) for x, i in zip(place, at)]
        yield at, np.prod(shares)


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
        for at in np.ndindex(*bins):
            read = []
            for sub in np.ndindex(*samples):
                part = (np.array(sub) + 0.5) / samples
                place = low + (np.array(at) + part) * size / bins
                if (place < -1).any() or (place > extents).any():
                    read.append(np.zeros((4, x.shape[1])))
                    continue
                place = np.clip(place, 0, extents - 1)
                read.append(
                    [
                        share * x[(image, slice(None), *np.minimum(i, extents - 1))]
                        for i, share in corners(place)
                    ]
                )
            read = np.array(read)
            result[(r, slice(None), *at)] = (
                read.sum(axis=1).mean(axis=0)
                if mode == "avg"
                else read.max(axis=(0, 1))
            )
    return result


BOXES = np.array(
    [[1.3, 0.9, 7.1, 5.2], [0.2, 2.1, 3.3, 8.4], [3.1, 3.2, 3.7, 3.9]]
)
# Some reach out of the image, one is none.
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
    y = np.zeros((len(x), len(w), *results))
    shared = x.shape[1] // offset_group
    for n, o in itertools.product(range(len(x)), np.ndindex(*results)):
        read = np.zeros((x.shape[1], *kernel))
        for c, (t, tap) in itertools.product(
            range(x.shape[1]), enumerate(np.ndindex(*kernel))
        ):
            g = c // shared
            place = [
                o[d] * strides[d]
                - pads[d]
                + tap[d] * dilations[d]
                + offset[(n, g, t, d, *o)]
                for d in range(rank)
            ]
            for at, share in corners(place):
                if all(0 <= i < size for i, size in zip(at, x.shape[2:])):
                    read[(c, *tap)] += share * x[(n, c, *at)]
            if mask is not None:
                read[(c, *tap)] *= mask[(n, g, t, *o)]
        for m in range(len(w)):
            first = m // (len(w) // group) * w.shape[1]
            own = read[first : first + w.shape[1]]
            y[(n, m, *o)] = (own * w[m]).sum() + (0 if bias is None else bias[m])
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
