"""Evaluates the training graphs of embedded_graphs.py in float64.

SPDX-License-Identifier: Apache-2.0
"""

import math

import numpy as np
from onnx import helper, numpy_helper

from embedded_graphs import BATCH, EPSILON, RATE


def _windows(x, w, strides, pads, group):
    """Yields each kernel offset, and the elements of padded x that it meets."""
    top, left, bottom, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows = (padded.shape[2] - w.shape[2]) // strides[0] + 1
    columns = (padded.shape[3] - w.shape[3]) // strides[1] + 1
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            place = (
                slice(None),
                slice(None),
                slice(i, i + strides[0] * rows, strides[0]),
                slice(j, j + strides[1] * columns, strides[1]),
            )
            part = padded[place]
            shape = (part.shape[0], group, -1, rows, columns)
            yield i, j, place, part.reshape(shape), padded.shape


def _conv(x, w, b=None, *, strides, pads, group, **_):
    maps = w.shape[0] // group
    kernel = w.reshape(group, maps, *w.shape[1:])
    y = 0
    for i, j, _, part, _ in _windows(x, w, strides, pads, group):
        y = y + np.einsum("ngchw,gmc->ngmhw", part, kernel[..., i, j])
    y = y.reshape(y.shape[0], -1, *y.shape[3:])
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def _conv_grad(dy, x, w, *, strides, pads, group, **_):
    maps = w.shape[0] // group
    kernel = w.reshape(group, maps, *w.shape[1:])
    dw, dx = np.zeros_like(kernel), None
    parts = dy.reshape(dy.shape[0], group, maps, *dy.shape[2:])
    for i, j, place, part, whole in _windows(x, w, strides, pads, group):
        if dx is None:
            dx = np.zeros(whole)
        dw[..., i, j] = np.einsum("ngmhw,ngchw->gmc", parts, part)
        moved = np.einsum("ngmhw,gmc->ngchw", parts, kernel[..., i, j])
        dx[place] += moved.reshape(dx[place].shape)
    top, left, bottom, right = pads
    dx = dx[:, :, top : dx.shape[2] - bottom, left : dx.shape[3] - right]
    return dx, dw.reshape(w.shape), dy.sum(axis=(0, 2, 3))


def _max_pool(x, **_):
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    parts = parts.reshape(n, c, h // 2, w // 2, 4)
    # Indices within a window of four: the gradient below reads them.
    return parts.max(axis=-1), parts.argmax(axis=-1)


def _max_pool_grad(dy, which, **_):
    n, c, h, w = dy.shape
    parts = np.where(np.arange(4) == which[..., None], dy[..., None], 0.0)
    parts = parts.reshape(n, c, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return parts.reshape(n, c, 2 * h, 2 * w)


def _gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0, **_):
    swap = lambda m: np.swapaxes(m, -1, -2)  # noqa: E731
    y = alpha * ((swap(a) if transA else a) @ (swap(b) if transB else b))
    return y if c is None else y + beta * c


_erf = np.vectorize(math.erf, otypes=[float])


def _gelu_grad(dy, x, **_):
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return dy * ((1 + _erf(x / math.sqrt(2))) / 2 + x * density)


def _layer_norm(x, scale, bias, *, epsilon, **_):
    mean = x.mean(axis=-1, keepdims=True)
    inverse = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon)
    return (x - mean) * inverse * scale + bias, mean, inverse


def _layer_norm_grad(dy, x, scale, *rest, epsilon=EPSILON, **_):
    _, mean, inverse = _layer_norm(x, scale, 0, epsilon=epsilon)
    unit, g = (x - mean) * inverse, dy * scale
    average = lambda v: v.mean(axis=-1, keepdims=True)  # noqa: E731
    dx = inverse * (g - average(g) - unit * average(g * unit))
    axes = tuple(range(x.ndim - 1))
    return dx, (dy * unit).sum(axis=axes), dy.sum(axis=axes)


def _log_softmax(scores):
    moved = scores - scores.max(axis=-1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=-1, keepdims=True))


def _cross_entropy_grad(log_prob, labels, **_):
    one_hot = np.eye(log_prob.shape[-1])[labels]
    return (np.exp(log_prob) - one_hot) / len(labels)


def _gather_grad(shape, index, dy, *, axis):
    dx = np.zeros(shape)
    np.moveaxis(dx, axis, 0)[index] = dy
    return dx


def _sum(x, *, axes, keepdims):
    return x.sum(axis=tuple(axes), keepdims=bool(keepdims))


OPERATORS = {
    "Add": lambda a, b: a + b,
    "Conv": _conv,
    "ConvGrad": _conv_grad,
    "Gather": lambda x, i, axis: np.take(x, i, axis=axis),
    "GatherGrad": _gather_grad,
    "Gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "GeluGrad": _gelu_grad,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: x.mean(axis=(2, 3), keepdims=True),
    "GlobalAveragePoolGrad": lambda dy, kernel_shape: np.broadcast_to(
        dy / np.prod(kernel_shape), (*dy.shape[:2], *kernel_shape)
    ),
    "InPlaceAccumulator": lambda *_: True,
    "InPlaceAccumulatorV2": lambda *_: True,
    "LayerNormalization": _layer_norm,
    "LayerNormalizationGrad": _layer_norm_grad,
    "MSELoss": lambda x, target: ((x - target) ** 2).mean(),
    "MSELossGrad": lambda x, target: 2 * (x - target) / x.size,
    "MatMul": lambda a, b: a @ b,
    "MaxPool": _max_pool,
    "MaxPoolGrad": _max_pool_grad,
    "ReduceSum": _sum,
    "Relu": lambda x: np.maximum(x, 0),
    "ReluGrad": lambda dy, y: dy * (y > 0),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Softmax": lambda x, axis: np.exp(_log_softmax(x)),
    "SoftmaxCrossEntropyLoss": lambda x, labels, **_: _log_softmax(x),
    "SoftmaxCrossEntropyLossGrad": _cross_entropy_grad,
    "SoftmaxGrad": lambda dy, y, axis: y
    * (dy - (dy * y).sum(axis=-1, keepdims=True)),
    "Transpose": lambda x, perm: x.transpose(perm),
}


def evaluate(made, parameters, data):
    """Returns the loss of a batch, and the gradients by parameter."""
    graph = made.training.graph
    values = {
        init.name: numpy_helper.to_array(init) for init in graph.initializer
    }
    values |= {k: np.asarray(v, float) for k, v in made.frozen.items()}
    values |= {k: v.astype(float) for k, v in parameters.items()}
    for name, array in data.items():
        values[name] = array if name == "labels" else array.astype(float)
    for node in graph.node:
        # Constants have values already, and train_reference makes the updates.
        if node.op_type in ("Constant", "SGD"):
            continue
        attributes = {
            a.name: helper.get_attribute_value(a)
            for a in node.attribute
            if a.name != "description"
        }
        # No equation reads the accumulators' buffers.
        operands = [values.get(name) for name in node.input]
        results = OPERATORS[node.op_type](*operands, **attributes)
        if not isinstance(results, tuple):
            results = (results,)
        values |= {k: v for k, v in zip(node.output, results) if k}
    loss = values.get("loss")
    if loss is None:
        node = next(n for n in graph.node if n.op_type.endswith("Loss"))
        labels = values["labels"]
        loss = -values[node.output[0]][np.arange(len(labels)), labels].mean()
    return loss, {p: values[g] for p, g in made.gradients.items()}


def train_reference(made, data, accumulate):
    """Returns the losses of the steps, each the mean over its batches, and the
    final parameters. A step adds up its batches' gradients."""
    parameters = {k: v.astype(float) for k, v in made.parameters.items()}
    count = len(next(iter(data.values()))) // BATCH
    losses = []
    for step in range(0, count, accumulate):
        sums = {p: 0.0 for p in parameters}
        total = 0.0
        for i in range(step, step + accumulate):
            part = {
                k: v[i * BATCH : (i + 1) * BATCH] for k, v in data.items()
            }
            loss, gradients = evaluate(made, parameters, part)
            total += loss / accumulate
            sums = {p: sums[p] + gradients[p] for p in sums}
        parameters = {p: parameters[p] - RATE * sums[p] for p in parameters}
        losses.append(total)
    return np.array(losses), parameters
