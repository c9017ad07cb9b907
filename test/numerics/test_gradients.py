"""Gradients of every operator in float64 match central finite differences.

The arguments of the operator are parameters of a float64 model whose loss is
sum(y * direction), with `direction` the only data. One step of SGD at rate 1
moves each parameter by exactly its gradient.

With step h the difference quotient is off by about h^2 times a third derivative
and 2^-53 / h times the loss. h = 2^-17 makes both less than 1e-9 of the loss's
terms, and TOLERANCE leaves two digits.

Arguments of many elements are moved as a whole, along DIRECTIONS of random
signs. A gradient with one wrong element differs along all of them. Several
wrong elements cancel along all of them with a probability of at most
2^-DIRECTIONS. If a direction disagrees, each element is moved alone, which
decides and finds the wrong one.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import pathlib

import numpy as np
import pytest
from onnx import TensorProto, helper

import mpctest
import reference
from cases import CASES, Case, normal, positive
from test_conditions import test_conditions_follow_finite_differences as ifs
from test_fake_quantization import test_gradient_is_straight_through as straight
from test_loops import test_scans_follow_finite_differences as scans
from test_losses import test_elementwise as elementwise_losses

STEP = 2.0**-17
TOLERANCE = 1e-7
DIRECTIONS = 16


def parameters_of(case):
    return [
        name
        for name, value in case.arguments.items()
        if value.dtype == np.float64 and name not in case.constant
    ]


def train_one_step(
    case, direction, folder, extra_arguments=None, nodes=None, flags=()
):
    """Returns mpc's gradient of each parameter. `nodes` compute y; by default
    the case's op does."""
    initializers = {**case.arguments, **(extra_arguments or {})}
    nodes = nodes or [
        helper.make_node(
            case.op, list(initializers), ["y"], "node", **case.attributes
        )
    ]
    nodes = nodes + [
        helper.make_node("Mul", ["y", "direction"], ["terms"], "weigh"),
        helper.make_node("ReduceSum", ["terms"], ["loss"], "sum", keepdims=0),
    ]
    model = mpctest.make_model(
        nodes,
        {"direction": (np.float64, ["N", *direction.shape])},
        {"loss": (np.float64, [])},
        initializers,
        case.opset,
    )
    _, weights = mpctest.train(
        model,
        {"direction": direction[None]},
        folder,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1"),
        *("--precision", "64-true"),
        *("--train", f"^({'|'.join(parameters_of(case))})$"),
        *flags,
    )
    return {
        name: case.arguments[name] - weights[name]
        for name in parameters_of(case)
    }


def rise(case, direction, name, offset):
    """Returns how much the loss rises from the argument minus STEP times
    `offset` to the argument plus STEP times `offset`, per unit step."""

    def loss(value):
        arguments = {**case.arguments, name: value}
        y = case.function(*arguments.values(), **case.attributes)
        return (y * direction).sum()

    value, moved = case.arguments[name], STEP * offset
    return (loss(value + moved) - loss(value - moved)) / (2 * STEP)


def finite_differences(case, direction, name):
    """Returns the gradient, element by element."""
    gradient = np.zeros_like(case.arguments[name])
    for index in np.ndindex(gradient.shape):
        offset = np.zeros_like(gradient)
        offset[index] = 1
        gradient[index] = rise(case, direction, name, offset)
    return gradient


def agrees_along_directions(case, direction, name, gradient):
    """True if the gradient matches the loss along random directions, within the
    error allowed for one element."""
    if not np.isfinite(gradient).all():
        return False
    random = np.random.default_rng(0)
    scale = max(1.0, np.abs(gradient).max())
    for _ in range(DIRECTIONS):
        offset = random.choice([-1.0, 1.0], gradient.shape)
        expected = rise(case, direction, name, offset)
        if not abs((gradient * offset).sum() - expected) <= TOLERANCE * scale:
            return False
    return True


def check_gradients(case, folder, **options):
    y = case.function(*case.arguments.values(), **case.attributes)
    direction = np.asarray(normal(*np.shape(y)))
    gradients = train_one_step(case, direction, folder, **options)
    for name, actual in gradients.items():
        if actual.size > DIRECTIONS and agrees_along_directions(
            case, direction, name, actual
        ):
            continue
        expected = finite_differences(case, direction, name)
        error = np.abs(actual - expected).max()
        scale = max(1.0, np.abs(expected).max())
        assert error <= TOLERANCE * scale, f"d{name} is off by {error:.3g}"


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.gradient],
    ids=lambda case: case.name,
)
def test_matches_finite_differences(case, tmp_path):
    check_gradients(case, tmp_path)


@pytest.mark.parametrize(
    "op", ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
)
def test_ignored_labels_alone_have_no_gradient(op, tmp_path):
    """The mean over no labels divides by zero. This NaN must not reach the
    parameters: after a first step on such a batch, the second step's result is
    as if it were alone."""
    scores = helper.make_node("MatMul", ["x", "w"], ["scores"], "scores")
    rates = helper.make_node("LogSoftmax", ["scores"], ["rates"], axis=1)
    read = "scores" if op == "SoftmaxCrossEntropyLoss" else "rates"
    loss = helper.make_node(op, [read, "labels"], ["loss"], ignore_index=-100)
    model = mpctest.make_model(
        [scores, loss] if read == "scores" else [scores, rates, loss],
        {"x": (np.float64, ["N", 3]), "labels": (np.int64, ["N"])},
        {"loss": (np.float64, [])},
        {"w": normal(3, 5)},
    )
    flags = ["--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"]
    flags += ["--batch-size", "4", "--epochs", "1", "--precision", "64-true"]
    labels = np.array([-100] * 4 + [0, 1, 2, 3])
    x = normal(8, 3)
    _, both = mpctest.train(
        model, {"x": x, "labels": labels}, tmp_path / "both", *flags
    )
    data = {"x": x[4:], "labels": labels[4:]}
    _, alone = mpctest.train(model, data, tmp_path / "alone", *flags)
    np.testing.assert_array_equal(both["w"], alone["w"])
    assert not np.array_equal(alone["w"], normal(3, 5))


@pytest.mark.parametrize("lengths", ((2, 4, 1), (1,) * 70))
def test_parts_of_a_split_find_their_places(lengths, tmp_path):
    """The parts are used in another order, and one of them twice. The gradient
    sums both slices."""
    x = normal(3, sum(lengths))
    parts = [f"part{i}" for i in range(len(lengths))]
    order = [*reversed(parts), "part0"]
    width = sum(lengths) + lengths[0]
    nodes = [
        helper.make_node("Split", ["x", "lengths"], parts, "split", axis=1),
        helper.make_node("Concat", order, ["y"], "join", axis=1),
        helper.make_node("Mul", ["y", "direction"], ["terms"], "weigh"),
        helper.make_node("ReduceSum", ["terms"], ["loss"], "sum", keepdims=0),
    ]
    model = mpctest.make_model(
        nodes,
        {"direction": (np.float64, ["N", 3, width])},
        {"loss": (np.float64, [])},
        {"x": x, "lengths": np.array(lengths)},
    )
    direction = normal(3, width)
    _, weights = mpctest.train(
        model,
        {"direction": direction[None]},
        tmp_path,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1"),
        *("--precision", "64-true", "--train", "^x$"),
    )
    ends = np.cumsum([lengths[i] for i in reversed(range(len(lengths)))])
    pieces = np.split(direction, ends, axis=1)
    expected = np.concatenate(pieces[-2::-1], axis=1)
    expected[:, : lengths[0]] += pieces[-1]
    np.testing.assert_allclose(x - weights["x"], expected, atol=1e-14)


def test_batch_norm_in_training(tmp_path):
    """The gradient passes through the batch's own statistics."""
    case = Case(
        "batch_norm_training",
        "BatchNormalization",
        {
            "x": normal(4, 3, 3, 2),
            "scale": positive(3),
            "bias": normal(3),
        },
        reference.batch_norm_training,
        attributes={"epsilon": float(np.float32(1e-3))},
    )
    statistics = {"mean": np.zeros(3), "var": np.ones(3)}
    check_gradients(case, tmp_path, extra_arguments=statistics)


def test_batch_norm_in_inference(tmp_path):
    """A frozen network uses running statistics."""
    case = next(case for case in CASES if case.name == "batch_norm")
    frozen = dataclasses.replace(case, constant=("mean", "var"))
    check_gradients(frozen, tmp_path, flags=("--as-exported",))


@pytest.mark.parametrize("reads_output", (True, False))
def test_statistics_of_layer_norm(reads_output, tmp_path):
    """A model may read Mean and InvStdDev besides the result, or nothing else."""

    def function(x, scale, bias):
        mean = x.mean(axis=1, keepdims=True)
        inverse = (x.var(axis=1, keepdims=True) + 1e-5) ** -0.5
        y = (x - mean) * inverse * scale + bias
        return (y if reads_output else x) * mean + inverse

    case = Case(
        "statistics",
        "LayerNormalization",
        {"x": normal(4, 9), "scale": positive(9), "bias": normal(9)},
        function,
    )
    attributes = {"stash_type": TensorProto.DOUBLE}
    if not reads_output:
        case.constant = ("scale", "bias")
    nodes = [
        helper.make_node(
            *("LayerNormalization", ["x", "scale", "bias"]),
            *(["normal", "mean", "inverse"], "norm"),
            **attributes,
        ),
        helper.make_node(
            "Mul", ["normal" if reads_output else "x", "mean"], ["product"]
        ),
        helper.make_node("Add", ["product", "inverse"], ["y"], "node"),
    ]
    check_gradients(case, tmp_path, nodes=nodes)


def test_bce_with_logits(tmp_path):
    """The loss of --loss, over all elements."""
    logits, target = normal(2, 9), np.abs(np.sin(normal(9, 2))).T
    case = Case("bce", "Add", {"x": logits}, None)
    model = mpctest.make_model(
        [helper.make_node("Add", ["x", "zeros"], ["y"], "node")],
        {"zeros": (np.float64, ["N", 2, 9])},
        {"y": (np.float64, ["N", 2, 9])},
        case.arguments,
    )
    _, weights = mpctest.train(
        model,
        {"zeros": np.zeros((1, 2, 9)), "target": target[None]},
        tmp_path,
        *("--loss", "bce_with_logits", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1", "--precision", "64-true"),
        *("--train", "^x$"),
    )
    losses = dataclasses.replace(
        case,
        function=lambda x: np.maximum(x, 0)
        - x * target
        + np.log1p(np.exp(-np.abs(x))),
    )
    expected = finite_differences(losses, np.full((2, 9), 1 / 18), "x")
    np.testing.assert_allclose(logits - weights["x"], expected, atol=TOLERANCE)


def test_cast_passes_the_gradient(tmp_path):
    """The cast goes to float32 and back, and rounds the gradient."""
    case = Case("cast", "Cast", {"x": normal(7)}, None)
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["narrow"], ["y"], to=TensorProto.DOUBLE),
    ]
    direction = np.asarray(normal(7))
    gradient = train_one_step(case, direction, tmp_path, nodes=nodes)["x"]
    np.testing.assert_allclose(gradient, direction, rtol=2.0**-23)


def test_sum_to_size_of_a_training_graph(tmp_path):
    """ONNX Runtime's DivGrad sums over broadcast axes: for a / b with a row a,
    da is the sum of dy / b over the rows."""
    divisor = positive(4, 5)
    case = Case("div_grad", "DivGrad", {"dy": normal(4, 5)}, None)
    constants = {"a": normal(5), "b": divisor}
    nodes = [
        helper.make_node(
            *("DivGrad", ["dy", "a", "b"], ["y"], "node"),
            domain="com.microsoft",
        )
    ]
    direction = np.asarray(normal(5))
    gradient = train_one_step(
        case, direction, tmp_path, extra_arguments=constants, nodes=nodes
    )["dy"]
    np.testing.assert_allclose(gradient, direction / divisor, rtol=1e-13)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(metric, tmp_path):
    """com.microsoft's CDist gives the distance of every row of one matrix from
    every row of the other. Equal rows have distance 0 and gradient 0."""
    a, b = np.asarray(normal(4, 3)), np.array(normal(5, 3))
    b[2] = a[1]

    def distances(a, b):
        squares = ((a[:, None] - b) ** 2).sum(axis=2)
        return np.sqrt(squares) if metric == "euclidean" else squares

    case = Case("cdist", "CDist", {"a": a, "b": b}, distances)
    nodes = [
        helper.make_node(
            *("CDist", ["a", "b"], ["y"], "node"),
            domain="com.microsoft",
            metric=metric,
        )
    ]
    check_gradients(case, tmp_path, nodes=nodes)
    direction = np.asarray(normal(4, 5))
    folder = tmp_path / "forward"
    folder.mkdir()
    train_one_step(case, direction, folder, nodes=nodes)
    metrics = mpctest.read_metrics(folder / "metrics.jsonl")
    expected = (distances(a, b) * direction).sum()
    assert mpctest.losses(metrics)[0] == pytest.approx(expected, rel=1e-13)


def test_every_rule_has_a_test():
    """Checks that the tests named in gradient_rules.txt exist. The unit tests
    of Differentiation check that it names every rule."""
    table = pathlib.Path(__file__).with_name("gradient_rules.txt")
    tests = {case.name for case in CASES if case.gradient} | set(globals())
    tests |= {f.__name__ for f in (ifs, scans, elementwise_losses, straight)}
    for line in table.read_text().splitlines():
        if not line.startswith("#"):
            _, test = line.split()
            assert test in tests, line


def test_stops_of_gradients(tmp_path):
    """PyTorch's x.detach() is an Identity with metadata: the gradient of x *
    x.detach() is one x, not two."""
    x = normal(4, 5)
    case = Case("detach", "Identity", {"x": x}, None)
    stop = helper.make_node("Identity", ["x"], ["stopped"], "stop")
    call = "%detach = call_function[target=torch.ops.aten.detach.default](args = (%x,)"
    stop.metadata_props.add(key="pkg.torch.onnx.fx_node", value=call)
    product = helper.make_node("Mul", ["x", "stopped"], ["y"], "product")
    direction = np.asarray(normal(4, 5))
    gradient = train_one_step(case, direction, tmp_path, nodes=[stop, product])["x"]
    np.testing.assert_allclose(gradient, direction * x, rtol=1e-13)


def test_dropout_backward_uses_the_forward_mask(tmp_path):
    """Every gradient is 0 or the direction over the kept fraction. The loss
    follows from the same mask."""
    x, ratio = np.ones((8, 64)), 0.25
    direction = np.asarray(normal(8, 64))
    case = Case(
        "dropout",
        "Dropout",
        {"x": x, "ratio": np.array(ratio), "mode": np.array(True)},
        None,
        constant=("ratio", "mode"),
    )
    gradient = train_one_step(case, direction, tmp_path)["x"]
    kept = gradient != 0
    np.testing.assert_allclose(
        gradient[kept], direction[kept] / (1 - ratio), rtol=1e-13
    )
    # Six standard deviations of the kept count's binomial distribution.
    deviation = np.sqrt(kept.size * ratio * (1 - ratio))
    assert abs(kept.sum() - (1 - ratio) * kept.size) < 6 * deviation
    metrics = mpctest.read_metrics(tmp_path / "metrics.jsonl")
    expected = (direction / (1 - ratio))[kept].sum()
    assert mpctest.losses(metrics)[0] == pytest.approx(expected, rel=1e-12)
