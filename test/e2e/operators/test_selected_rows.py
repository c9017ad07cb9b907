"""A mask of the data selects rows, with any number of rows and the gradients of
those rows only. The nodes are PyTorch's exporters'.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

N, WIDTH = 6, 4
RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=(N, WIDTH))
Y = RANDOM.normal(size=(N, WIDTH))
W = RANDOM.normal(size=(WIDTH, WIDTH)) / 2
GIVEN = RANDOM.normal(size=(3, WIDTH))
MASK = np.array([0, 1, 0, 1, 1, 0], bool)
LABELS = np.array([7, 1, 9, 3, 0, 8])  # labels of unselected rows are not classes
MATCHES = np.array([-1, 2, -1, 0, 2, -1])
TOLERANCES = {"32-true": 1e-4, "bf16-mixed": 5e-2, "16-mixed": 1e-2}


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], output, **attributes)


def select(values, mask, result):
    """Returns values[mask] as PyTorch's previous exporter writes it."""
    return [
        node("NonZero", mask, f"{result}_places"),
        node("Transpose", f"{result}_places", f"{result}_rows", perm=[1, 0]),
        node("GatherND", f"{values} {result}_rows", result),
    ]


def select_as_today(values, mask, result):
    return [
        node("NonZero", mask, f"{result}_a"),
        node("Transpose", f"{result}_a", f"{result}_b", perm=[1, 0]),
        node("Squeeze", f"{result}_b one", f"{result}_c"),
        node("Max", f"{result}_c", f"{result}_d"),
        node("Shape", f"{result}_d", f"{result}_e"),
        node("Expand", f"{result}_c {result}_e", f"{result}_f"),
        node("Unsqueeze", f"{result}_f last", f"{result}_g"),
        node("GatherND", f"{values} {result}_g", result),
    ]


# Assigns o[m] = a[m] - y[m], and sums the squares of o.
def assign(rows):
    return [
        node("NonZero", "all", "places"),
        node("Transpose", "places", "indices", perm=[1, 0]),
        node("Reshape", f"{rows} last", "flat"),
        node("ScatterND", "zeros indices flat", "o"),
        node("Mul", "o o", "squares"),
        node("ReduceSum", "squares", "loss", keepdims=0),
    ]


SPREAD = [node("Unsqueeze", "mask last", "column"), node("Expand", "column whole", "all")]
OLDER = [
    *select("a", "mask", "a_m"),
    *select("y", "mask", "y_m"),
    node("Sub", "a_m y_m", "d"),
    *SPREAD,
    node("NonZero", "all", "places"),
    node("Transpose", "places", "indices", perm=[1, 0]),
    node("Reshape", "d last", "flat"),
    node("Shape", "indices", "extents"),
    node("Gather", "extents first", "count"),
    node("Unsqueeze", "count zero", "end"),
    node("Slice", "flat zero end zero", "cut"),
    node("ScatterND", "zeros indices cut", "o"),
    node("Mul", "o o", "squares"),
    node("ReduceSum", "squares", "loss", keepdims=0),
]
TODAY = [
    *select_as_today("a", "mask", "a_m"),
    *select_as_today("y", "mask", "y_m"),
    node("Sub", "a_m y_m", "d"),
    *SPREAD,
    node("Reshape", "mask last", "bits"),
    node("Cast", "bits", "ones", to=7),
    node("ReduceSum", "ones", "count"),
    node("Concat", "count width", "extents", axis=0),
    node("Expand", "d extents", "same"),
    *assign("same"),
]
BOXES = [  # as in torchvision's detectors: l1_loss(a[fg], given[matches[fg]]) / n
    node("GreaterOrEqual", "matches nothing", "fg"),
    node("NonZero", "fg", "places"),
    node("Transpose", "places", "rows", perm=[1, 0]),
    node("Shape", "rows", "extent", start=0, end=1),
    node("Squeeze", "extent", "count"),
    node("Slice", "rows zero one one", "part"),
    node("Squeeze", "part one", "index"),
    node("Unsqueeze", "index last", "indices"),
    node("GatherND", "a indices", "a_fg"),
    node("GatherND", "matches indices", "matches_fg"),
    node("Gather", "given matches_fg", "given_fg"),
    node("Sub", "a_fg given_fg", "difference"),
    node("Abs", "difference", "sizes"),
    node("ReduceSum", "sizes", "sum", keepdims=0),
    node("Max", "count unit", "least"),
    node("Cast", "least", "divisor", to=1),
    node("Div", "sum divisor", "loss"),
]


def cross_entropy(scores, labels):
    logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    return -logs[np.arange(len(labels)), labels].mean()


CASES = {
    "assigned": (OLDER, lambda a, m: ((a[m] - Y[m]) ** 2).sum()),
    "assigned_as_today": (TODAY, lambda a, m: ((a[m] - Y[m]) ** 2).sum()),
    "mean": (
        [
            *select_as_today("a", "mask", "a_m"),
            node("ReduceMean", "a_m", "loss", keepdims=0),
        ],
        lambda a, m: a[m].mean(),
    ),
    # The logarithm of an unselected row would be NaN.
    "log": (
        [
            node("Abs", "a", "sizes"),
            node("Mul", "sizes bits", "cleared"),
            *select("cleared", "mask", "a_m"),
            node("Log", "a_m", "logs"),
            node("ReduceMean", "logs", "loss", keepdims=0),
        ],
        lambda a, m: np.log(np.abs(a[m])).mean(),
    ),
    "masked_select": (
        [
            node("Greater", "y nought", "positive"),
            *select("a", "positive", "a_m"),
            node("Mul", "a_m a_m", "squares"),
            node("ReduceMean", "squares", "loss", keepdims=0),
        ],
        lambda a, m: (a[Y > 0] ** 2).mean(),
    ),
    "largest": (
        [
            *select("a", "mask", "a_m"),
            node("ReduceMax", "a_m", "top", axes=[0], keepdims=0),
            node("ReduceSum", "top", "loss", keepdims=0),
        ],
        lambda a, m: a[m].max(0).sum(),
    ),
    "cross_entropy": (
        [
            *select("a", "mask", "a_m"),
            *select("labels", "mask", "t_m"),
            node("SoftmaxCrossEntropyLoss", "a_m t_m", "loss"),
        ],
        lambda a, m: cross_entropy(a[m], LABELS[m]),
    ),
    "boxes": (
        BOXES,
        lambda a, m: np.abs(a[m] - GIVEN[MATCHES[m]]).sum() / max(1, m.sum()),
    ),
    "labels_as_numbers": (
        [
            *select("a", "mask", "a_m"),
            *select("labels", "mask", "t_m"),
            node("CastLike", "t_m nought", "numbers"),
            node("Unsqueeze", "numbers last", "column_m"),
            node("Mul", "a_m column_m", "scaled"),
            node("ReduceSum", "scaled", "loss", keepdims=0),
        ],
        lambda a, m: (a[m] * LABELS[m][:, None]).sum(),
    ),
    "rows_times_a_matrix": (
        [
            *select("a", "mask", "a_m"),
            node("MatMul", "a_m w", "b"),
            node("Softmax", "b", "p", axis=-1),
            node("Mul", "p p", "squares"),
            node("ReduceSum", "squares", "loss", keepdims=0),
        ],
        None,
    ),
}


def make_model(nodes, mask_type=np.bool_):
    used = {name for each in nodes for name in each.input}
    inputs = {
        "x": (np.float32, [N, WIDTH]),
        "y": (np.float32, [N, WIDTH]),
        "mask": (mask_type, [N]),
        "bits": (np.float32, [N, 1]),
        "labels": (np.int64, [N]),
        "matches": (np.int64, [N]),
    }
    made = {name for each in nodes for name in each.output}
    constants = {
        "w": W.astype(np.float32),
        "given": GIVEN.astype(np.float32),
        "zeros": np.zeros((N, WIDTH), np.float32),
        "whole": np.array([N, WIDTH]),
        "width": np.array([WIDTH]),
        "one": np.array([1]),
        "unit": np.array(1),
        "zero": np.array([0]),
        "first": np.array(0),
        "last": np.array([-1]),
        "nothing": np.array(0),
        "two": np.array([2]),
        "columns": np.array([[0], [2]]),
        "nought": np.zeros(1, np.float32),
    }
    return mpctest.make_model(
        [node("MatMul", "x w", "a"), *nodes],
        {k: v for k, v in inputs.items() if k in {*used, "x"} - made},
        {"loss": (np.float32, [])},
        {k: v for k, v in constants.items() if k in {*used, "w"}},
    )


def data_of(mask):
    return {
        "x": X.astype(np.float32),
        "y": Y.astype(np.float32),
        "mask": mask,
        "bits": mask.astype(np.float32)[:, None],
        "labels": np.where(mask, LABELS % WIDTH, LABELS),
        "matches": np.where(mask, np.maximum(MATCHES, 0), -1),
    }


def train_step(model, mask, folder, *flags):
    """Returns the loss of a step, and the gradient of w."""
    metrics, weights = mpctest.train(
        *(model, data_of(mask), folder, "--loss", "output:loss"),
        *("--optimizer", "sgd", "--lr", "1", "--train", "^w$"),
        *("--batch-size", str(N), "--max-steps", "1", *flags),
    )
    return mpctest.losses(metrics)[0], W.astype(np.float32) - weights["w"]


def rows_times_a_matrix(w):
    b = (X @ w)[MASK] @ w
    p = np.exp(b - b.max(-1, keepdims=True))
    return ((p / p.sum(-1, keepdims=True)) ** 2).sum()


def differences(function):
    """Returns the gradient of a function of w, by central differences."""
    gradient = np.zeros_like(W)
    for place in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[place] = 1e-6
        gradient[place] = (function(W + step) - function(W - step)) / 2e-6
    return gradient


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_the_rows(name, precision, tmp_path):
    nodes, loss = CASES[name]
    function = (lambda w: loss(X @ w, MASK)) if loss else rows_times_a_matrix
    # The loss must fit from the first step on, so the scale starts low.
    scale = ("--loss-scale", "128") if precision == "16-mixed" else ()
    found, gradient = train_step(
        make_model(nodes), MASK, tmp_path, "--precision", precision, *scale
    )
    tolerance = TOLERANCES[precision]
    np.testing.assert_allclose(found, function(W), rtol=tolerance)
    expected = differences(function)
    largest = np.abs(expected).max()
    np.testing.assert_allclose(gradient, expected, atol=tolerance * largest)


@pytest.mark.parametrize("name", ["assigned", "boxes", "log"])
def test_no_row_at_all(name, tmp_path):
    """An empty sum is 0. An empty mean is NaN, as in PyTorch."""
    mask = np.zeros(N, bool)
    if name == "log":
        nodes = CASES[name][0][:-1] + [node("ReduceSum", "logs", "loss", keepdims=0)]
    else:
        nodes = CASES[name][0]
    loss, gradient = train_step(make_model(nodes), mask, tmp_path)
    assert loss == 0
    assert (gradient == 0).all()


@pytest.mark.parametrize("selection", [select, select_as_today])
@pytest.mark.parametrize("batch", [2, 3])
def test_another_batch_than_the_exported_one(selection, batch, tmp_path):
    """The mask selects rows of the samples in the actual batch."""
    nodes = [
        *selection("a", "mask", "a_m"),
        *selection("y", "mask", "y_m"),
        node("Sub", "a_m y_m", "d"),
        node("Mul", "d d", "squares"),
        node("ReduceMean", "squares", "loss", keepdims=0),
    ]
    loss, _ = train_step(
        make_model(nodes), MASK, tmp_path, "--batch-size", str(batch), "--no-shuffle"
    )
    rows = MASK[:batch]
    d = (X[:batch] @ W - Y[:batch])[rows]
    np.testing.assert_allclose(loss, (d * d).mean(), rtol=1e-4)


REFUSED = {
    "an output": select("a", "mask", "loss"),
    "which are the best": [
        *select("a", "mask", "a_m"),
        helper.make_node("TopK", ["a_m", "two"], ["top", "which"], "top", axis=0),
        node("Cast", "which", "places", to=1),
        node("ReduceSum", "places", "loss", keepdims=0),
    ],
    "all rows": [
        *select("a", "mask", "a_m"),
        node("Sub", "a_m y", "d"),
        node("ReduceSum", "d", "loss", keepdims=0),
    ],
    "another mask": [
        node("Not", "mask", "others"),
        *select("a", "mask", "a_m"),
        *select("y", "others", "y_m"),
        node("Sub", "a_m y_m", "d"),
        node("ReduceSum", "d", "loss", keepdims=0),
    ],
    "a product of each with each": [
        *select("a", "mask", "a_m"),
        node("Transpose", "a_m", "turned", perm=[1, 0]),
        node("MatMul", "a_m turned", "b"),
        node("ReduceSum", "b", "loss", keepdims=0),
    ],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_rows_themselves_is_refused(name, tmp_path):
    """The error gives the node and the mask that decides the number of rows.
    `mpc run` knows that number."""
    model = make_model(REFUSED[name])
    if name == "an output":
        model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1
    assert "has as many rows as the data in" in process.stdout
    if name in ("an output", "a product of each with each"):
        inputs = {"x": X.astype(np.float32), "mask": MASK}
        found = mpctest.run(model, inputs, tmp_path)["loss"]
        rows = (X @ W)[MASK]
        expected = rows if name == "an output" else (rows @ rows.T).sum()
        np.testing.assert_allclose(found, expected, rtol=1e-4)
