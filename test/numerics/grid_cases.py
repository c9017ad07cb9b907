"""Cases of ops that read images at computed positions.

SPDX-License-Identifier: Apache-2.0
"""

import itertools

import numpy as np

from case import add, normal


def center_crop_pad(x, shape, axes=None):
    for axis, extent in zip(range(x.ndim) if axes is None else axes, shape):
        own = x.shape[axis]
        if extent <= own:
            first = (own - extent) // 2
            x = np.take(x, range(first, first + extent), axis)
        else:
            pads = [(0, 0)] * x.ndim
            before = (extent - own) // 2
            pads[axis] = (before, extent - own - before)
            x = np.pad(x, pads)
    return x


for name, shape, axes in (
    ("crop", (3, 4, 2), None),
    ("pad", (8, 9, 4), None),
    ("axes", (4, 8), (-1, 0)),
):
    add(
        f"center_crop_pad_{name}",
        "CenterCropPad",
        {"x": normal(5, 6, 3), "shape": np.array(shape)},
        center_crop_pad,
        attributes={} if axes is None else {"axes": axes},
        opset=18,
    )


def affine_grid(theta, size, align_corners=0):
    lines = [
        np.linspace(-1, 1, n)
        if align_corners
        else np.arange(1 - n, n, 2.0) / n
        for n in size[2:]
    ]
    places = np.meshgrid(*lines, indexing="ij")[::-1]
    places = np.stack([*places, np.ones(size[2:])], axis=-1)
    return np.einsum("nij,...j->n...i", theta, places)


for name, size, align_corners in (
    ("2d", (3, 1, 4, 5), 0),
    ("2d_aligned", (3, 2, 5, 4), 1),
    ("3d", (2, 1, 3, 4, 2), 0),
    ("3d_aligned", (2, 1, 3, 2, 4), 1),
):
    rank = len(size) - 2
    add(
        f"affine_grid_{name}",
        "AffineGrid",
        {"theta": normal(size[0], rank, rank + 1), "size": np.array(size)},
        affine_grid,
        attributes={"align_corners": align_corners},
        constant=("size",),
        opset=20,
        terms=2 * int(np.prod(size[2:])),
        magnitude=16.0,
    )


def keys(distance):
    """Returns the cubic filter with a = -3/4."""
    t = abs(distance)
    if t <= 1:
        return 1.25 * t**3 - 2.25 * t**2 + 1
    return -0.75 * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0.0


FILTERS = {
    "linear": (1, lambda distance: max(0.0, 1 - abs(distance))),
    "cubic": (2, keys),
}


def thrown_back(x, low, high):
    """Reflects x at two mirrors."""
    if high == low:
        return low
    length = high - low
    rest = (x - low) % (2 * length)
    return low + (2 * length - rest if rest > length else rest)


def line_at(x, size, mode, padding, aligned):
    """Returns the elements of an axis and their weights: a list of pairs."""
    x = ((x + 1) * (size - 1) if aligned else (x + 1) * size - 1) / 2
    mirrors = (0, size - 1) if aligned else (-0.5, size - 0.5)
    if mode == "nearest":
        x = np.rint(x)
    if padding == "reflection":
        x = thrown_back(x, *mirrors)
    if mode == "nearest":
        taps = [(int(x), 1.0)]
    else:
        reach, weigh = FILTERS[mode]
        first = int(np.floor(x)) - reach + 1
        taps = [(i, weigh(x - i)) for i in range(first, first + 2 * reach)]
    if padding == "border":
        return [(min(max(i, 0), size - 1), weight) for i, weight in taps]
    if padding == "reflection":
        return [(int(thrown_back(i, *mirrors)), weight) for i, weight in taps]
    return [(i, weight) for i, weight in taps if 0 <= i < size]


def grid_sample(
    x, grid, mode="linear", padding_mode="zeros", align_corners=0
):
    mode = mode.removeprefix("bi")
    result = np.zeros(x.shape[:2] + grid.shape[1:-1])
    for at in np.ndindex(*grid.shape[:-1]):
        lines = [
            line_at(place, size, mode, padding_mode, align_corners)
            for place, size in zip(grid[at][::-1], x.shape[2:])
        ]
        for taps in itertools.product(*lines):
            weight = np.prod([weight for _, weight in taps])
            place = tuple(i for i, _ in taps)
            result[(at[0], slice(None), *at[1:])] += (
                weight * x[(at[0], slice(None), *place)]
            )
    return result


# Positions inside the image, at its edges and far outside. Some axes are
# shorter than the filter.
for mode, padding, aligned in itertools.product(
    ("nearest", "linear", "cubic"), ("zeros", "border", "reflection"), (0, 1)
):
    for name, extents, grid in (
        ("2d", (5, 6), (3, 4)),
        ("small", (1, 2), (2, 7)),
        ("3d", (3, 4, 2), (2, 1, 3)),
        ("1d", (7,), (9,)),
    ):
        # Volumes have every padding in the mode that reads 4 * 4 * 4 elements.
        if (name == "small" and padding != "reflection") or (
            name in ("3d", "1d")
            and (padding != "zeros" or aligned)
            and (name, mode) != ("3d", "cubic")
        ):
            continue
        add(
            f"grid_sample_{name}_{mode}_{padding}_{aligned}",
            "GridSample",
            {
                "x": normal(2, 3, *extents),
                "grid": 1.3 * normal(2, *grid, len(extents)),
            },
            grid_sample,
            attributes={
                "mode": mode,
                "padding_mode": padding,
                "align_corners": aligned,
            },
            opset=20,
            terms=4 ** len(extents),
            # A cubic's absolute weights of an axis sum to at most 1.4.
            magnitude=8.0 if mode == "cubic" else None,
        )

for mode in ("bilinear", "bicubic"):
    add(
        f"grid_sample_{mode}",
        "GridSample",
        {"x": normal(2, 3, 5, 6), "grid": normal(2, 3, 4, 2)},
        grid_sample,
        attributes={"mode": mode},
        opset=16,
        terms=16,
        magnitude=8.0,
    )

# PyTorch's exporter also writes a volume before opset 20.
add(
    "grid_sample_volume",
    "GridSample",
    {"x": normal(2, 3, 3, 4, 2), "grid": normal(2, 2, 1, 3, 3)},
    grid_sample,
    attributes={"mode": "bilinear"},
    opset=16,
    terms=64,
)
