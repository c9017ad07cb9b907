"""Cases of Fourier transforms.

SPDX-License-Identifier: Apache-2.0
"""

import functools

import numpy as np

from case import add, normal


@functools.lru_cache
def turns(n, inverse):
    """Returns the factors exp(±2πi jk / n) of element j in result k."""
    sign = 2j if inverse else -2j
    places = np.outer(np.arange(n), np.arange(n)) % n
    return np.exp(sign * np.pi * places / n)


def transform(x, axis, inverse=0, onesided=0):
    """Follows the definition, a sum of rotated elements. `x` holds real, or
    real and imaginary parts along its last axis."""
    x = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    n = x.shape[axis]
    y = np.moveaxis(x, axis, -1) @ turns(n, inverse)
    y = np.moveaxis(y, -1, axis)
    if inverse:
        y = y / n
    if onesided:
        y = np.take(y, range(n // 2 + 1), axis)
    return np.stack([y.real, y.imag], axis=-1)


def dft(x, *rest, axis=None, inverse=0, onesided=0, opset=17):
    names = ("length",) if opset < 20 else ("length", "axis")
    given = {name: int(value) for name, value in zip(names, rest)}
    axis = given.get("axis", (1 if opset < 20 else -2) if axis is None else axis)
    axis %= x.ndim
    length = given.get("length", x.shape[axis])
    have = min(length, x.shape[axis])
    x = np.take(x, range(have), axis)
    pads = [(0, 0)] * x.ndim
    pads[axis] = (0, length - have)
    return transform(np.pad(x, pads), axis, inverse, onesided)


for name, shape, rest, attributes, opset in (
    ("real", (2, 9, 1), (), {}, 17),
    ("complex", (2, 9, 2), (), {}, 17),
    ("axis", (3, 4, 5, 2), (), {"axis": 2}, 17),
    ("first_axis", (6, 2, 1), (), {"axis": 0, "onesided": 1}, 17),
    ("inverse", (2, 7, 3, 2), (), {"inverse": 1}, 19),
    ("onesided", (2, 10, 1), (), {"onesided": 1}, 17),
    ("onesided_odd", (2, 9, 2, 1), (), {"onesided": 1}, 17),
    ("onesided_inverse", (2, 6, 1), (), {"onesided": 1, "inverse": 1}, 17),
    ("one", (2, 1, 2), (), {"inverse": 1}, 17),
    ("opset20", (2, 3, 7, 2), (), {}, 20),
    ("padded", (2, 3, 5, 1), (8, 1), {}, 20),
    ("cut", (2, 7, 2, 2), (4, 1), {"inverse": 1}, 20),
    ("negative_axis", (2, 5, 3, 1), (5, -3), {"onesided": 1}, 20),
    # Long transforms are split: 150 = 10 * 15, 17 * 17 and 8 * (16 * 16).
    ("split", (2, 150, 2), (), {}, 17),
    ("split_real", (2, 289, 1), (), {"onesided": 1}, 17),
    ("split_inverse", (1, 150, 2), (), {"inverse": 1}, 17),
):
    arguments = {"x": normal(*shape)}
    for key, value in zip(("length", "axis"), rest):
        arguments[key] = np.array(value)
    add(
        f"dft_{name}",
        "DFT",
        arguments,
        lambda *values, opset=opset, **options: dft(
            *values, opset=opset, **options
        ),
        attributes=attributes,
        constant=("length", "axis"),
        opset=opset,
        terms=max(shape),
        magnitude=4.0 * np.sqrt(max(shape)),
    )


def irfft(x, length=None, axis=None, inverse=1, onesided=1):
    axis = -2 if axis is None else int(axis)
    axis %= x.ndim
    length = 2 * (x.shape[axis] - 1) if length is None else int(length)
    y = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, axis)
    return y[..., None]


# From half a spectrum, also cropped and padded, back to a real signal.
for name, shape, rest in (
    ("even", (2, 6, 2), ()),
    ("odd", (2, 5, 2), (9, 1)),
    ("cut", (2, 6, 3, 2), (7, 1)),
    ("padded", (2, 4, 2), (11, 1)),
    ("one", (2, 1, 2), (1, 1)),
):
    arguments = {"x": normal(*shape)}
    for key, value in zip(("length", "axis"), rest):
        arguments[key] = np.array(value)
    add(
        f"dft_real_inverse_{name}",
        "DFT",
        arguments,
        irfft,
        attributes={"inverse": 1, "onesided": 1},
        constant=("length", "axis"),
        opset=20,
        terms=12,
        magnitude=8,
    )


def stft(x, step, window=None, length=None, onesided=1):
    length = int(length or (x.shape[1] if window is None else len(window)))
    frames = [
        x[:, first : first + length]
        for first in range(0, x.shape[1] - length + 1, int(step))
    ]
    frames = np.stack(frames, axis=1)
    if window is not None:
        frames = frames * window[:, None]
    return transform(frames, 2, onesided=onesided)


for name, shape, rest, attributes in (
    ("window", (2, 20, 1), {"step": 3, "window": normal(6)}, {}),
    ("apart", (2, 20, 1), {"step": 5, "window": normal(5)}, {}),
    (
        "complex",
        (1, 12, 2),
        {"step": 4, "window": normal(7), "length": 7},
        {"onesided": 0},
    ),
    ("gaps", (2, 17, 1), {"step": 7, "window": normal(4)}, {"onesided": 0}),
    ("whole", (2, 9, 1), {"step": 1}, {}),
):
    add(
        f"stft_{name}",
        "STFT",
        {"x": normal(*shape), **{k: np.array(v) for k, v in rest.items()}},
        stft,
        attributes=attributes,
        constant=("step", "length"),
        terms=max(shape),
        magnitude=16.0,
    )
