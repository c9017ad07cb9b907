"""Gradients of every operator in float64 against central finite differences.

The arguments of the operator are parameters of a float64 model whose loss is
sum(y * direction), with `direction` the only data. One step of SGD at rate 1
moves each parameter by exactly its gradient.

With step h the difference quotient is off by about h^2 times a third derivative
and 2^-53 / h times the loss; h = 2^-17 makes both less than 1e-9 of the loss's
terms, and TOLERANCE leaves two digits.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest
import reference
from cases import CASES, Case, normal, positive

STEP = 2.0**-17
TOLERANCE = 1e-7


def parameters_of(case):
    return [
        name
        for name, value in case.arguments.items()
        if value.dtype == np.float64 and name not in case.constant
    ]


def train_one_step(case, direction, folder, extra_arguments=None):
    """The gradient of each parameter, by mpc."""
    initializers = {**case.arguments, **(extra_arguments or {})}
    nodes = [
        helper.make_node(
            case.op, list(initializers), ["y"], "node", **case.attributes
        ),
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
    )
    return {
        name: case.arguments[name] - weights[name]
        for name in parameters_of(case)
    }


def finite_differences(case, direction, name):
    gradient = np.zeros_like(case.arguments[name])

    def loss(index, offset):
        arguments = {k: v.copy() for k, v in case.arguments.items()}
        arguments[name][index] += offset
        y = case.function(*arguments.values(), **case.attributes)
        return (y * direction).sum()

    for index in np.ndindex(gradient.shape):
        rise = loss(index, STEP) - loss(index, -STEP)
        gradient[index] = rise / (2 * STEP)
    return gradient


def check_gradients(case, folder, **options):
    y = case.function(*case.arguments.values(), **case.attributes)
    direction = np.asarray(normal(*np.shape(y)))
    gradients = train_one_step(case, direction, folder, **options)
    for name, actual in gradients.items():
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
    """Their mean divides by zero, which must not reach the parameters."""
    case = Case(
        op.lower(),
        op,
        {"x": normal(4, 5), "labels": np.full(4, -100)},
        None,
        attributes={"ignore_index": -100},
    )
    gradient = train_one_step(case, np.asarray(1.0), tmp_path)["x"]
    np.testing.assert_array_equal(gradient, np.zeros((4, 5)))


@pytest.mark.parametrize("lengths", ((2, 4, 1), (1,) * 70))
def test_parts_of_a_split_find_their_places(lengths, tmp_path):
    """Used in another order, one of them twice: the sum of its two slices."""
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
    """Through the batch's own statistics."""
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


def test_dropout_backward_uses_the_forward_mask(tmp_path):
    """Every gradient is 0 or the direction over the kept fraction, and the
    loss is what the same mask gives."""
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
