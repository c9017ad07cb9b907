"""Defines the operators in plain NumPy, in float64.

The code favours clarity: loops over output positions, no blocking. Names and
arguments are ONNX's.

SPDX-License-Identifier: Apache-2.0
"""

import itertools
import math

import numpy as np
from onnx.reference.ops.op_resize import Resize


def gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = alpha * (a.T if transA else a) @ (b.T if transB else b)
    return y if c is None else y + beta * c


def elu(x, alpha=1.0):
    return np.where(x < 0, alpha * np.expm1(x), x)


def celu(x, alpha=1.0):
    return np.where(x < 0, alpha * np.expm1(x / alpha), x)


def hard_sigmoid(x, alpha=0.2, beta=0.5):
    return np.clip(alpha * x + beta, 0, 1)


def selu(x):
    """Uses the constants of the specification."""
    alpha, gamma = 1.67326319217681884765625, 1.05070102214813232421875
    return gamma * np.where(x < 0, alpha * np.expm1(x), x)


def softplus(x):
    return np.logaddexp(x, 0)


erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x, approximate="none"):
    if approximate == "tanh":
        inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + np.tanh(inner))
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def output_size(size, kernel, stride, dilation, pads, ceil_mode):
    room = size + pads[0] + pads[1] - (dilation * (kernel - 1) + 1)
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    # A window must start inside the image or its leading padding.
    if ceil_mode and (count - 1) * stride >= size + pads[0]:
        count -= 1
    return count


def windows(x, kernel, strides, dilations, pads, ceil_mode=0):
    """Yields for every output position the indices of its window along each
    axis. They count in the unpadded image and may lie outside."""
    spatial = x.shape[2:]
    rank = len(spatial)
    sizes = [
        output_size(
            spatial[i],
            kernel[i],
            strides[i],
            dilations[i],
            (pads[i], pads[i + rank]),
            ceil_mode,
        )
        for i in range(rank)
    ]
    for position in np.ndindex(*sizes):
        axes = [
            position[i] * strides[i]
            - pads[i]
            + np.arange(kernel[i]) * dilations[i]
            for i in range(rank)
        ]
        yield position, axes, sizes


def gather_window(x, axes, fill):
    """Returns the window's values, N x C x kernel, with `fill` outside the
    image."""
    shape = x.shape[:2] + tuple(len(a) for a in axes)
    values = np.full(shape, fill, x.dtype)
    inside = [
        [(k, i) for k, i in enumerate(axis) if 0 <= i < size]
        for axis, size in zip(axes, x.shape[2:])
    ]
    for pairs in itertools.product(*inside):
        to = tuple(k for k, _ in pairs)
        at = tuple(i for _, i in pairs)
        values[(slice(None), slice(None)) + to] = x[
            (slice(None), slice(None)) + at
        ]
    return values


def defaults(x, kernel, strides, dilations, pads):
    rank = x.ndim - 2
    return (
        kernel,
        strides or [1] * rank,
        dilations or [1] * rank,
        pads or [0] * (2 * rank),
    )


def conv(x, w, b=None, strides=None, dilations=None, pads=None, group=1):
    kernel, strides, dilations, pads = defaults(
        x, w.shape[2:], strides, dilations, pads
    )
    filters, per_group = w.shape[0] // group, x.shape[1] // group
    rank = x.ndim - 2
    sizes = [
        output_size(*axis, (pads[i], pads[i + rank]), 0)
        for i, axis in enumerate(zip(x.shape[2:], kernel, strides, dilations))
    ]
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])])
    y = np.zeros((len(x), group, filters, *sizes), x.dtype)
    w = w.reshape(group, filters, *w.shape[1:]).astype(x.dtype)
    for tap in np.ndindex(*kernel):
        # The elements that this filter element meets, at every output position.
        met = x
        for i in range(rank):
            first = tap[i] * dilations[i]
            end = first + (sizes[i] - 1) * strides[i] + 1
            met = met[(slice(None),) * (2 + i) + (slice(first, end, strides[i]),)]
        met = met.reshape(len(x), group, per_group, *sizes)
        here = w[(slice(None),) * 3 + tap]
        y += np.einsum("ngc...,gfc->ngf...", met, here)
    y = y.reshape(len(x), group * filters, *sizes)
    if b is not None:
        y = y + b.reshape(1, -1, *[1] * (x.ndim - 2))
    return y


def conv_transpose(
    x,
    w,
    b=None,
    strides=None,
    dilations=None,
    pads=None,
    output_padding=None,
    group=1,
    output_shape=None,
):
    """Adds a scaled filter to the result for every element of the input.
    `output_shape` is no smaller than the area that the filters cover."""
    kernel, strides, dilations, pads = defaults(
        x, w.shape[2:], strides, dilations, pads
    )
    rank = x.ndim - 2
    extra = output_padding or [0] * rank
    full = [
        strides[i] * (x.shape[2 + i] - 1)
        + extra[i]
        + (kernel[i] - 1) * dilations[i]
        + 1
        for i in range(rank)
    ]
    full = output_shape or full
    filters, per_group = w.shape[1], x.shape[1] // group
    y = np.zeros((len(x), filters * group, *full), x.dtype)
    for at in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*kernel):
            to = tuple(
                at[i] * strides[i] + tap[i] * dilations[i] for i in range(rank)
            )
            for g in range(group):
                rows = slice(g * per_group, (g + 1) * per_group)
                out = slice(g * filters, (g + 1) * filters)
                y[(slice(None), out) + to] += (
                    x[(slice(None), rows) + at]
                    @ w[(rows, slice(None)) + tap].astype(x.dtype)
                )
    inside = tuple(
        slice(pads[i], full[i] - pads[rank + i]) for i in range(rank)
    )
    y = y[(slice(None), slice(None)) + inside]
    if b is not None:
        y = y + b.reshape(1, -1, *[1] * rank)
    return y


def lrn(x, size, alpha, beta, bias):
    squares = np.zeros_like(x)
    for c in range(x.shape[1]):
        first = max(0, c - (size - 1) // 2)
        last = min(x.shape[1] - 1, c + size // 2)
        squares[:, c] = (x[:, first : last + 1] ** 2).sum(axis=1)
    return x / (bias + alpha / size * squares) ** beta


def depth_to_space(x, blocksize, mode):
    n, c, h, w = x.shape
    b, c = blocksize, c // blocksize**2
    if mode == "DCR":
        x = x.reshape(n, b, b, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, c, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c, h * b, w * b)


def space_to_depth(x, blocksize):
    n, c, h, w = x.shape
    b = blocksize
    x = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return x.reshape(n, b * b * c, h // b, w // b)


def max_pool(
    x, kernel_shape, strides=None, dilations=None, pads=None, ceil_mode=0
):
    kernel, strides, dilations, pads = defaults(
        x, kernel_shape, strides, dilations, pads
    )
    y = None
    for at, axes, sizes in windows(
        x, kernel, strides, dilations, pads, ceil_mode
    ):
        if y is None:
            y = np.zeros((*x.shape[:2], *sizes), x.dtype)
        values = gather_window(x, axes, -np.inf)
        y[(slice(None), slice(None)) + at] = values.max(
            axis=tuple(range(2, x.ndim))
        )
    return y


def average_pool(
    x,
    kernel_shape,
    strides=None,
    dilations=None,
    pads=None,
    ceil_mode=0,
    count_include_pad=0,
):
    kernel, strides, dilations, pads = defaults(
        x, kernel_shape, strides, dilations, pads
    )
    rank = x.ndim - 2
    y = None
    for at, axes, sizes in windows(
        x, kernel, strides, dilations, pads, ceil_mode
    ):
        if y is None:
            y = np.zeros((*x.shape[:2], *sizes), x.dtype)
        count = 1
        for i, axis in enumerate(axes):
            low, high = 0, x.shape[2 + i]
            if count_include_pad:
                low, high = -pads[i], high + pads[i + rank]
            count *= np.count_nonzero((axis >= low) & (axis < high))
        values = gather_window(x, axes, 0.0)
        y[(slice(None), slice(None)) + at] = (
            values.sum(axis=tuple(range(2, x.ndim))) / count
        )
    return y


def max_unpool(x, indices, kernel_shape, strides=None, pads=None, shape=None):
    """Puts each element at its index. The last of several elements with one
    index stays."""
    _, strides, _, pads = defaults(x, kernel_shape, strides, None, pads)
    rank = x.ndim - 2
    spatial = [
        (x.shape[2 + i] - 1) * strides[i]
        + kernel_shape[i]
        - pads[i]
        - pads[i + rank]
        for i in range(rank)
    ]
    y = np.zeros((*x.shape[:2], *spatial), x.dtype)
    y.reshape(-1)[indices.reshape(-1)] = x.reshape(-1)
    if shape is None:
        return y
    whole = np.zeros(shape, x.dtype)
    whole[tuple(slice(0, extent) for extent in y.shape)] = y
    return whole


def batch_norm(x, scale, bias, mean, var, epsilon=1e-5):
    # ONNX stores the attribute as a float32.
    epsilon = float(np.float32(epsilon))
    shape = (1, -1) + (1,) * (x.ndim - 2)
    normal = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + epsilon)
    return normal * scale.reshape(shape) + bias.reshape(shape)


def batch_norm_training(x, scale, bias, epsilon=1e-5):
    axes = (0,) + tuple(range(2, x.ndim))
    return batch_norm(x, scale, bias, x.mean(axes), x.var(axes), epsilon)


def log_softmax(x, axis=-1):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def softmax(x, axis=-1):
    return np.exp(log_softmax(x, axis))


def nll_loss(
    log_prob, labels, weight=None, reduction="mean", ignore_index=None
):
    classes = log_prob.shape[1]
    weight = np.ones(classes) if weight is None else weight
    kept = np.ones(labels.shape, bool)
    if ignore_index is not None:
        kept = labels != ignore_index
    safe = np.where(kept, labels, 0)
    chosen = np.take_along_axis(log_prob, safe[:, None], axis=1)[:, 0]
    factors = np.where(kept, weight[safe], 0.0)
    loss = -chosen * factors
    if reduction == "none":
        return loss
    return loss.sum() / (factors.sum() if reduction == "mean" else 1.0)


def softmax_cross_entropy(scores, labels, weight=None, **attributes):
    return nll_loss(log_softmax(scores, 1), labels, weight, **attributes)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(X, W, R, B=None, linear_before_reset=False):
    """Computes ONNX's GRU of one direction from a state of zeros: [steps, 1,
    batch, hidden]."""
    h, result = np.zeros((X.shape[1], R.shape[-1])), []
    wb, rb = np.split(B[0], 2) if B is not None else (0, np.zeros(len(W[0])))
    rz, rr, rn = np.split(R[0], 3)
    bz, br, bn = np.split(rb, 3)
    for part in X @ W[0].T + wb:
        z, r, n = np.split(part, 3, axis=-1)
        z, r = sigmoid(z + h @ rz.T + bz), sigmoid(r + h @ rr.T + br)
        if linear_before_reset:
            n = np.tanh(n + r * (h @ rn.T + bn))
        else:
            n = np.tanh(n + (r * h) @ rn.T + bn)
        h = (1 - z) * n + z * h
        result.append(h[None])
    return np.array(result)


def lp_pool(
    x,
    kernel_shape,
    strides=None,
    dilations=None,
    pads=None,
    ceil_mode=0,
    p=2,
):
    kernel, strides, dilations, pads = defaults(
        x, kernel_shape, strides, dilations, pads
    )
    y = None
    for at, axes, sizes in windows(
        x, kernel, strides, dilations, pads, ceil_mode
    ):
        if y is None:
            y = np.zeros((*x.shape[:2], *sizes), x.dtype)
        powers = np.abs(gather_window(x, axes, 0.0)) ** p
        y[(slice(None), slice(None)) + at] = powers.sum(
            axis=tuple(range(2, x.ndim))
        ) ** (1 / p)
    return y


def resize(x, roi, scales, sizes=None, **attributes):
    """Applies ONNX's one-axis definition to each axis in turn."""
    attributes = {
        "antialias": 0,
        "coordinate_transformation_mode": "half_pixel",
        "cubic_coeff_a": -0.75,
        "exclude_outside": 0,
        "extrapolation_value": 0.0,
        "keep_aspect_ratio_policy": "stretch",
        "mode": "nearest",
        "nearest_mode": "round_prefer_floor",
        "axes": None,
        **attributes,
    }
    (y,) = Resize.__new__(Resize)._run(
        x.astype(np.float64),
        roi.astype(np.float64) if roi.size else None,
        scales.astype(np.float64) if scales.size else None,
        None if sizes is None or not sizes.size else sizes,
        **attributes,
    )
    return y
