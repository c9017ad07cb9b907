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


NORM = {
    "bs": np.ones(WIDTH, np.float32),
    "bb": np.zeros(WIDTH, np.float32),
    "bm": np.zeros(WIDTH, np.float32),
    "bv": np.ones(WIDTH, np.float32),
}


def normalize(training):
    """BatchNormalization of selected rows."""
    outputs = ["n", "mean", "variance"] if training else ["n"]
    return [
        *select("a", "mask", "a_m"),
        helper.make_node(
            *("BatchNormalization", ["a_m", *NORM], outputs, "norm"),
            **({"training_mode": 1} if training else {}),
        ),
        node("ReduceSum", "n", "loss", keepdims=0),
    ]


PAIRS = {  # each selected row with each, as contrastive losses have them
    "MatMul": [
        node("Transpose", "a_m", "turned", perm=[1, 0]),
        node("MatMul", "a_m turned", "pairs"),
    ],
    "Gemm": [node("Gemm", "a_m a_m", "pairs", transB=1)],
    "Einsum": [node("Einsum", "a_m a_m", "pairs", equation="id,jd->ij")],
    "Sub": [
        node("Unsqueeze", "a_m one", "rows"),
        node("Unsqueeze", "a_m zero", "others"),
        node("Sub", "rows others", "pairs"),
    ],
}


def check(model, folder):
    onnx.save(model, folder / "model.onnx")
    process = mpctest.mpc(
        *("check", folder / "model.onnx", "--loss", "output:loss"),
    )
    assert process.returncode == 1, process.stderr
    return process.stdout


@pytest.mark.parametrize("training", (False, True))
def test_statistics_of_selected_rows_are_refused(training, tmp_path):
    """Those of all rows would be other statistics."""
    model = make_model(normalize(training))
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in NORM.items()
    )
    text = check(model, tmp_path)
    assert "node 'norm' (BatchNormalization): 'a_m' has as many rows" in text


@pytest.mark.parametrize("op", PAIRS)
def test_pairs_of_selected_rows_are_refused(op, tmp_path):
    nodes = [*PAIRS[op], node("Softmax", "pairs", "p", axis=-1)]
    nodes.append(node("ReduceSum", "p", "loss", keepdims=0))
    text = check(make_model([*select("a", "mask", "a_m"), *nodes]), tmp_path)
    name = next(each.name for each in nodes if each.output[0] == "pairs")
    assert f"node '{name}' ({op}): " in text
    assert "has as many rows as the data in 'mask' selects" in text


ACROSS = {  # along the selected rows
    "softmax": (
        [
            node("Softmax", "a_m", "p", axis=0),
            node("Mul", "p a_m", "terms"),
            node("ReduceSum", "terms", "loss", keepdims=0),
        ],
        lambda a: (np.exp(a) / np.exp(a).sum(0) * a).sum(),
    ),
    "sums so far": (
        [
            node("CumSum", "a_m first", "sums"),
            node("Mul", "sums sums", "terms"),
            node("ReduceSum", "terms", "loss", keepdims=0),
        ],
        lambda a: (a.cumsum(0) ** 2).sum(),
    ),
    "covariance": (
        [
            node("Transpose", "a_m", "turned", perm=[1, 0]),
            node("MatMul", "turned a_m", "terms"),
            node("ReduceSum", "terms", "loss", keepdims=0),
        ],
        lambda a: (a.T @ a).sum(),
    ),
}


@pytest.mark.parametrize("name", ACROSS)
def test_what_runs_along_selected_rows_trains(name, tmp_path):
    nodes, function = ACROSS[name]
    model = make_model([*select("a", "mask", "a_m"), *nodes])
    loss, gradient = train_step(model, MASK, tmp_path)
    assert loss == pytest.approx(function((X @ W)[MASK]), rel=1e-4)
    expected = differences(lambda w: function((X @ w)[MASK]))
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)


def info(name, shape, kind=onnx.TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def loop():
    """h @ w three times, and the sum of the squares of selected rows of each."""
    flag, number = onnx.TensorProto.BOOL, onnx.TensorProto.INT64
    body = helper.make_graph(
        [
            *select("h", "mask", "h_m"),
            node("Mul", "h_m h_m", "squares"),
            node("ReduceSum", "squares", "part", keepdims=0),
            node("Add", "sum part", "next_sum"),
            node("MatMul", "h w", "next_h"),
            node("Identity", "go", "goes"),
        ],
        "body",
        [
            *(info("i", [], number), info("go", [], flag)),
            *(info("h", [N, WIDTH]), info("sum", [])),
        ],
        [info("goes", [], flag), info("next_h", [N, WIDTH]), info("next_sum", [])],
    )
    inputs = ["trips", "yes", "a", "start"]
    return [
        node("Identity", "mask", "read"),
        helper.make_node("Loop", inputs, ["last_h", "loss"], "loop", body=body),
    ]


def branches():
    """Of an If, with the squares or the cubes of selected rows."""

    def branch(name, factor):
        rows, square, result = (f"{name}_{part}" for part in ("m", "square", "result"))
        nodes = [
            *select("a", "mask", rows),
            node("Mul", f"{rows} {rows}", square),
            node("Mul", f"{square} {factor.format(rows=rows)}", f"{name}_term"),
            node("ReduceSum", f"{name}_term", result, keepdims=0),
        ]
        return helper.make_graph(nodes, name, [], [info(result, [])])

    parts = {
        "then_branch": branch("then", "{rows}"),
        "else_branch": branch("else", "half"),
    }
    return [
        node("Identity", "mask", "read"),
        node("ReduceSum", "x", "total", keepdims=0),
        node("Greater", "total start", "positive"),
        helper.make_node("If", ["positive"], ["loss"], "if", **parts),
    ]


def sum_of_loop(w):
    total, h = 0.0, X @ w
    for _ in range(3):
        total += (h[MASK] ** 2).sum()
        h = h @ w
    return total


def sum_of_branches(w):
    rows = (X @ w)[MASK]
    return ((rows**3) if X.sum() > 0 else (rows**2) / 2).sum()


@pytest.mark.parametrize(
    "make, function", ((loop, sum_of_loop), (branches, sum_of_branches))
)
def test_selections_inside_a_body_train(make, function, tmp_path):
    model = make_model(make())
    values = {
        "trips": np.array(3),
        "yes": np.array(True),
        "start": np.array(0, np.float32),
        "half": np.array(0.5, np.float32),
    }
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in values.items()
    )
    loss, gradient = train_step(model, MASK, tmp_path)
    assert loss == pytest.approx(function(W), rel=1e-4)
    np.testing.assert_allclose(gradient, differences(function), rtol=1e-3, atol=1e-3)


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
