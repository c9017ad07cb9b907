"""Subsets of selected rows, and shapes that count them, work as PyTorch's
exporters write them: box losses, targets that start as zeros, and joined rows.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
from test_selected_rows import (
    LABELS,
    MASK,
    N,
    W,
    WIDTH,
    X,
    Y,
    data_of,
    differences,
    make_model,
    node,
    select,
    train_step,
)


def total(values, result="loss"):
    return [
        node("Mul", f"{values} {values}", f"{result}_squares"),
        node("ReduceSum", f"{result}_squares", result, keepdims=0),
    ]


def log_softmax(a):
    return a - np.log(np.exp(a).sum(-1, keepdims=True))


def softmax(a, axis):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# o = zeros(a[m].shape); o[p] = a[m][p] - y[m][p], where p = a[m][:, 0] > y[m][:, 0]
NESTED = [
    *select("a", "mask", "a_m"),
    *select("y", "mask", "y_m"),
    node("Gather", "a_m first", "a_0", axis=1),
    node("Gather", "y_m first", "y_0", axis=1),
    node("Greater", "a_0 y_0", "part"),
    *select("a_m", "part", "a_p"),
    *select("y_m", "part", "y_p"),
    node("Sub", "a_p y_p", "d"),
    node("Shape", "a_m", "extents"),
    node("ConstantOfShape", "extents", "nothing_yet"),
    node("NonZero", "part", "places"),
    node("Transpose", "places", "rows", perm=[1, 0]),
    node("ScatterND", "nothing_yet rows d", "o"),
    node("Add", "o a_m", "s"),
    *total("s"),
]


def nested(a, m):
    part = a[m][:, 0] > Y[m][:, 0]
    o = np.zeros_like(a[m])
    o[part] = (a[m] - Y[m])[part]
    return ((o + a[m]) ** 2).sum()


COUNT = [
    node("Cast", "mask", "ones", to=7),
    node("ReduceSum", "ones", "count"),
]
SPREAD = [
    node("Unsqueeze", "mask last", "column"),
    node("Expand", "column whole", "all"),
    node("NonZero", "all", "places"),
    node("Transpose", "places", "indices", perm=[1, 0]),
]
THEN = [  # a[m].mean() in a branch; rows are selected there or outside
    *select("a", "mask", "a_m"),
    node("ReduceMean", "a_m", "mean", keepdims=0),
]


def branch(nodes, result):
    info = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, [])
    return helper.make_graph(nodes, result, [], [info])


def conditional(inside, outside):
    other = [node("ReduceMean", "a", "all_of_them", keepdims=0)]
    choice = helper.make_node(
        *("If", ["some"], ["loss"], "loss"),
        then_branch=branch(inside, "mean"),
        else_branch=branch(other, "all_of_them"),
    )
    return [
        node("Cast", "mask", "bits_of_mask", to=7),
        node("ReduceMax", "bits_of_mask", "largest", keepdims=0),
        node("Cast", "largest", "some", to=9),
        *outside,
        choice,
    ]


CASES = {
    "nested": (NESTED, nested),
    # zeros_like(a)[m] = a.mean()
    "one_number": (
        [
            node("ReduceMean", "a", "mean", keepdims=0),
            *SPREAD,
            *COUNT,
            node("Concat", "count width", "extents", axis=0),
            node("Expand", "mean extents", "rows"),
            node("Reshape", "rows last", "flat"),
            node("ScatterND", "zeros indices flat", "o"),
            *total("o"),
        ],
        lambda a, m: m.sum() * WIDTH * a.mean() ** 2,
    ),
    # log_softmax(a[m])[arange(n), t[m]]
    "arange": (
        [
            *select("a", "mask", "a_m"),
            *select("labels", "mask", "t_m"),
            node("LogSoftmax", "a_m", "logs", axis=-1),
            node("Shape", "a_m", "extents"),
            node("Gather", "extents first", "count"),
            node("Range", "first count unit", "numbers"),
            node("Unsqueeze", "numbers last", "number"),
            node("Unsqueeze", "t_m last", "label"),
            node("Concat", "number label", "both", axis=-1),
            node("GatherND", "logs both", "chosen"),
            node("ReduceMean", "chosen", "loss", keepdims=0),
        ],
        lambda a, m: log_softmax(a[m])[np.arange(m.sum()), LABELS[m]].mean(),
    ),
    # normalize(a[m]) where the norm is expanded to the shape of a[m]
    "normalized": (
        [
            *select("a", "mask", "a_m"),
            node("ReduceL2", "a_m", "norm", axes=[-1], keepdims=1),
            node("Shape", "a_m", "extents"),
            node("Expand", "norm extents", "norms"),
            node("Div", "a_m norms", "n"),
            node("Exp", "n", "e"),
            node("ReduceSum", "e", "loss", keepdims=0),
        ],
        lambda a, m: np.exp(a[m] / np.linalg.norm(a[m], axis=1)[:, None]).sum(),
    ),
    "joined": (
        [
            node("Not", "mask", "others"),
            *select("a", "mask", "a_m"),
            *select("y", "others", "y_o"),
            node("Concat", "a_m y_o a", "all", axis=0),
            node("Exp", "all", "e"),
            node("ReduceMean", "e", "loss", keepdims=0),
        ],
        lambda a, m: np.exp(np.concatenate([a[m], Y[~m], a])).mean(),
    ),
    "compress": (
        [
            helper.make_node("Compress", ["a", "mask"], ["a_m"], "a_m", axis=0),
            *total("a_m"),
        ],
        lambda a, m: (a[m] ** 2).sum(),
    ),
    "softmax_over_rows": (
        [
            *select("a", "mask", "a_m"),
            node("Softmax", "a_m", "p", axis=0),
            *total("p"),
        ],
        lambda a, m: (softmax(a[m], 0) ** 2).sum(),
    ),
    "sums_of_rows_before": (
        [
            *select("a", "mask", "a_m"),
            node("CumSum", "a_m first", "sums"),
            *total("sums"),
        ],
        lambda a, m: (a[m].cumsum(0) ** 2).sum(),
    ),
    "best_rows": (
        [
            *select("a", "mask", "a_m"),
            helper.make_node("TopK", ["a_m", "two"], ["top", "which"], "top", axis=0),
            *total("top"),
        ],
        lambda a, m: (np.sort(a[m], axis=0)[-2:] ** 2).sum(),
    ),
    "product_over_rows": (
        [
            *select("a", "mask", "a_m"),
            node("Transpose", "a_m", "turned", perm=[1, 0]),
            node("MatMul", "turned a_m", "b"),
            *total("b"),
        ],
        lambda a, m: ((a[m].T @ a[m]) ** 2).sum(),
    ),
    "einsum": (
        [
            *select("a", "mask", "a_m"),
            node("Einsum", "a_m w", "b", equation="nc,cd->nd"),
            node("Einsum", "b a_m", "loss", equation="nd,nd->"),
        ],
        None,
    ),
    "in_a_branch": (conditional(THEN, []), lambda a, m: a[m].mean()),
    "before_a_branch": (conditional(THEN[-1:], THEN[:-1]), lambda a, m: a[m].mean()),
    "part_of_columns": (
        [
            *select("a", "mask", "a_m"),
            node("Transpose", "a_m", "turned", perm=[1, 0]),
            node("GatherND", "turned columns", "some"),
            *total("some"),
        ],
        lambda a, m: (a[m][:, [0, 2]] ** 2).sum(),
    ),
}


def einsum(w):
    a = (X @ w)[MASK]
    return ((a @ w) * a).sum()


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_the_rows(name, tmp_path):
    nodes, loss = CASES[name]
    function = (lambda w: loss(X @ w, MASK)) if loss else einsum
    found, gradient = train_step(
        make_model(nodes), MASK, tmp_path, "--precision", "64-true"
    )
    weights = W.astype(np.float32).astype(np.float64)
    expected = differences(function)
    np.testing.assert_allclose(found, function(weights), rtol=1e-5)
    largest = np.abs(expected).max()
    np.testing.assert_allclose(gradient, expected, atol=1e-4 * largest)


@pytest.mark.parametrize(
    "name", ["nested", "one_number", "softmax_over_rows", "product_over_rows"]
)
def test_no_row_at_all(name, tmp_path):
    loss, gradient = train_step(make_model(CASES[name][0]), np.zeros(N, bool), tmp_path)
    assert loss == 0
    assert (gradient == 0).all()


# Positions among the selected rows index the selected rows only.
NUMBERS = [
    *select("a", "mask", "a_m"),
    node("Shape", "a_m", "extents"),
    node("Gather", "extents first", "count"),
    node("Range", "first count unit", "numbers"),
]
REFUSED = {
    "as data": [
        *NUMBERS,
        node("Cast", "numbers", "floats", to=1),
        node("Unsqueeze", "floats last", "column"),
        node("Mul", "a_m column", "weighted"),
        *total("weighted"),
    ],
    "of all rows": [*NUMBERS, node("Gather", "a numbers", "chosen"), *total("chosen")],
    "of a part": [
        *NESTED[:9],
        node("NonZero", "part", "part_places"),
        node("Transpose", "part_places", "part_rows", perm=[1, 0]),
        node("GatherND", "a part_rows", "chosen"),
        *total("chosen"),
    ],
}


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_of_rows_are_nothing_else(name, tmp_path):
    onnx.save(make_model(REFUSED[name]), tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1
    assert "has as many rows as the data in" in process.stdout
