"""Random ops follow their distributions. The same seed gives the same numbers,
and every node and step draws others.

A sample of n numbers passes if its distribution function is never farther than
1.95 / sqrt(n) from the exact one. One sample in a thousand exceeds this bound
of Kolmogorov's. The seed fixes the samples.

SPDX-License-Identifier: Apache-2.0
"""

import math

import numpy as np
import pytest
from onnx import TensorProto, helper

import mpctest

COUNT = 40000
FAR = 1.95
DTYPES = {
    np.float16: TensorProto.FLOAT16,
    np.float32: TensorProto.FLOAT,
    np.float64: TensorProto.DOUBLE,
}
OPSET = 20


def draw(nodes, outputs, folder, *flags, inputs=None):
    inputs = inputs or {}
    types = {k: (v.dtype, v.shape) for k, v in inputs.items()}
    model = mpctest.make_model(nodes, types, outputs, {}, OPSET)
    return mpctest.run(model, inputs, folder, *flags)


def draw_one(op, dtype, folder, *flags, **attributes):
    node = helper.make_node(
        *(op, [], ["y"], "node"), dtype=DTYPES[dtype], shape=[4, COUNT // 4],
        **attributes,
    )
    y = draw([node], {"y": (dtype, (4, COUNT // 4))}, folder, *flags)["y"]
    assert y.dtype == dtype
    assert y.shape == (4, COUNT // 4)
    return y


def distance(sample, function):
    """Returns Kolmogorov's distance, in units of its deviation."""
    ordered = np.sort(sample.ravel().astype(np.float64))
    values = function(ordered)
    steps = np.arange(ordered.size + 1) / ordered.size
    gap = max((steps[1:] - values).max(), (values - steps[:-1]).max())
    return gap * math.sqrt(ordered.size)


@np.vectorize
def normal_distribution(x):
    return (1 + math.erf(x / math.sqrt(2))) / 2


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_uniform(dtype, tmp_path):
    y = draw_one("RandomUniform", dtype, tmp_path, low=-1.0, high=3.0)
    assert y.min() >= -1
    assert y.max() <= 3
    # float16 has only 2048 such numbers.
    slack = math.sqrt(COUNT) / 2048 if dtype == np.float16 else 0
    assert distance(y, lambda x: (x + 1) / 4) < FAR + slack
    assert np.unique(y).size > (0.99 * COUNT if not slack else 1500)


def test_the_unit_interval_is_open_above(tmp_path):
    for dtype in DTYPES:
        y = draw_one("RandomUniform", dtype, tmp_path)
        assert 0 <= y.min() < 0.01
        assert 0.99 < y.max() < 1


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_normal(dtype, tmp_path):
    y = draw_one("RandomNormal", dtype, tmp_path, mean=2.0, scale=0.5)
    standard = (y.astype(np.float64) - 2) / 0.5
    slack = 0.3 if dtype == np.float16 else 0
    assert distance(standard, normal_distribution) < FAR + slack
    # Moments must be within six standard deviations.
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        error = abs((standard**power).mean() - moment)
        assert error < 6 * math.sqrt(variance / COUNT) + 0.01, power
    # Neighbours are independent.
    flat = standard.ravel()
    for step in (1, 2, 3, 4):
        product = (flat[step:] * flat[:-step]).mean()
        assert abs(product) < 6 / math.sqrt(COUNT)


@pytest.mark.parametrize("op", ("RandomUniformLike", "RandomNormalLike"))
def test_like_takes_shape_and_type(op, tmp_path):
    for dtype in DTYPES:
        x = np.zeros((100, 7), dtype)
        nodes = [
            helper.make_node(op, ["x"], ["y"], "same"),
            helper.make_node(op, ["x"], ["z"], "other", dtype=TensorProto.DOUBLE),
        ]
        outputs = {"y": (dtype, x.shape), "z": (np.float64, x.shape)}
        results = draw(nodes, outputs, tmp_path, inputs={"x": x})
        assert results["y"].dtype == dtype
        assert results["z"].dtype == np.float64
        assert len(np.unique(results["z"])) == x.size
        assert not np.allclose(results["y"], results["z"])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_bernoulli(dtype, tmp_path):
    p = np.array([0, 0.001, 0.25, 0.5, 0.9, 1], dtype)[:, None]
    p = np.repeat(p, COUNT, axis=1)
    nodes = [
        helper.make_node("Bernoulli", ["p"], ["y"], "own"),
        helper.make_node("Bernoulli", ["p"], ["z"], "b", dtype=TensorProto.BOOL),
        helper.make_node("Bernoulli", ["p"], ["i"], "i", dtype=TensorProto.INT64),
    ]
    outputs = {
        "y": (dtype, p.shape),
        "z": (bool, p.shape),
        "i": (np.int64, p.shape),
    }
    results = draw(nodes, outputs, tmp_path, inputs={"p": p})
    for name, (kind, _) in outputs.items():
        ones = results[name]
        assert ones.dtype == kind
        assert set(np.unique(ones)) == {0, 1}
        exact = p[:, 0].astype(np.float64)
        rate = ones.astype(np.float64).mean(axis=1)
        deviation = np.sqrt(exact * (1 - exact) / COUNT)
        assert (np.abs(rate - exact) <= 6 * deviation).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("kind", (np.int32, np.int64))
def test_multinomial(dtype, kind, tmp_path):
    """Some classes have probability 0, the first and the last among them."""
    shares = np.array([[0, 1, 2, 0, 5, 0], [1, 1, 1, 1, 1, 1], [0, 0, 9, 0, 0, 0]])
    with np.errstate(divide="ignore"):
        scores = (np.log(shares) + [[3.0], [-2.0], [0.0]]).astype(dtype)
    number = TensorProto.INT32 if kind == np.int32 else TensorProto.INT64
    node = helper.make_node(
        "Multinomial", ["x"], ["y"], sample_size=COUNT, dtype=number
    )
    outputs = {"y": (kind, (3, COUNT))}
    y = draw([node], outputs, tmp_path, inputs={"x": scores})["y"]
    assert y.dtype == kind
    rates = np.stack([np.bincount(row, minlength=6) for row in y]) / COUNT
    exact = shares / shares.sum(axis=1, keepdims=True)
    assert rates.shape == exact.shape
    # float16 keeps three digits of the logarithms.
    slack = 0.002 if dtype == np.float16 else 1e-6
    deviation = np.sqrt(exact * (1 - exact) / COUNT)
    assert (np.abs(rates - exact) <= 6 * deviation + slack * exact).all()


def test_seeds(tmp_path):
    """The run's seed applies unless a node has its own. Each node has a
    separate stream."""
    nodes = [
        helper.make_node("RandomUniform", [], ["a"], "a", shape=[50]),
        helper.make_node("RandomUniform", [], ["b"], "b", shape=[50]),
        helper.make_node("RandomUniform", [], ["c"], "c", shape=[50], seed=3.0),
        helper.make_node("RandomUniform", [], ["d"], "d", shape=[50], seed=3.5),
        helper.make_node("RandomUniform", [], ["e"], "e", shape=[50], seed=3.0),
    ]
    outputs = {name: (np.float32, (50,)) for name in "abcde"}
    first = draw(nodes, outputs, tmp_path, "--seed", "1")
    again = draw(nodes, outputs, tmp_path, "--seed", "1")
    other = draw(nodes, outputs, tmp_path, "--seed", "2")
    for name in outputs:
        np.testing.assert_array_equal(first[name], again[name])
    for name in "cde":
        np.testing.assert_array_equal(first[name], other[name])
    for name in "ab":
        assert not np.isclose(first[name], other[name]).any()
    rows = np.stack([first[name] for name in outputs])
    assert np.unique(rows).size == rows.size


def test_steps_draw_anew_and_a_gradient_passes(tmp_path):
    """y = w z with a normal z: the weight moves by the mean of z."""
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["z"], "noise"),
        helper.make_node("Mul", ["z", "w"], ["y"], "scale"),
        helper.make_node("ReduceMean", ["y"], ["loss"], "mean", keepdims=0),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float64, ["N", 100])},
        {"loss": (np.float64, [])},
        {"w": np.array([1.0])},
    )
    events, weights = mpctest.train(
        model,
        {"x": np.zeros((6, 100))},
        tmp_path,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "2", "--epochs", "1"),
        *("--precision", "64-true", "--train", "^w$", "--seed", "5"),
    )
    losses = mpctest.losses(events)
    assert len(losses) == 3
    weight = 1.0
    means = []
    for loss in losses:
        means.append(loss / weight)
        weight -= means[-1]
    assert len(set(means)) == 3
    assert max(abs(mean) for mean in means) < 6 / math.sqrt(200)
    np.testing.assert_allclose(weights["w"], [weight], rtol=1e-12)


@pytest.mark.parametrize("op", ("Dropout", "RandomNormalLike"))
def test_training_follows_the_seed(op, tmp_path):
    """The data is in file order, so that only the op depends on the seed."""
    noise = helper.make_node(op, ["w"], ["z"], "noise")
    model = mpctest.make_model(
        [
            noise,
            helper.make_node("Add", ["z", "w"], ["n"], "add"),
            helper.make_node("Mul", ["n", "x"], ["y"], "scale"),
            helper.make_node("ReduceMean", ["y"], ["loss"], "mean", keepdims=0),
        ],
        {"x": (np.float32, ["N", 100])},
        {"loss": (np.float32, [])},
        {"w": np.ones(100, np.float32)},
    )
    losses = []
    for i, seed in enumerate(("5", "5", "6")):
        events, _ = mpctest.train(
            model,
            {"x": np.random.RandomState(0).rand(8, 100).astype(np.float32)},
            tmp_path / str(i),
            *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "0.1"),
            *("--batch-size", "4", "--epochs", "1", "--seed", seed),
            *("--train", "^w$"),
        )
        losses.append(mpctest.losses(events))
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]
