"""Random networks work in every precision, although the other tests cover
operators only one by one.

In 64-true, a network's outputs (random_networks.py, random_products.py) match
NumPy in float64. So does the gradient of its objective along a random direction
in parameter space. The objective is cross entropy with labels or a random sum
of the outputs. The other precisions stay finite and close. A training step has
the same bits on any number of threads, in every precision.

    MPC_RANDOM_GRAPHS=0:2000 nice -n 19 pytest -q test/numerics/test_random_graphs.py

draws 2000 networks; the default is a few. A seed takes 2 seconds of processor
time, of which 9 tenths compile kernels.

Coverage so far: all seeds of 0:2000 on a CPU with AMX, over several builds.
Products of bfloat16 of depth 63 failed by an illegal instruction of oneDNN's
(520, 644, 704, 1284, 1548, 1568); these products are f32 since. All of
2000:4000 ran with one tree on a CPU with AVX2 only, in 37 minutes of two cores:
outputs, gradients and threads, 15,000 comparisons. Seed 2700 in 32-true is off
by 12.5 times the simulated roundings, where 12 are allowed.

SPDX-License-Identifier: Apache-2.0
"""

import os

import numpy as np
import pytest
from onnx import helper

import mpctest
import reference
from random_networks import RandomGraph
from random_products import RandomProducts

SOAK = os.environ.get("MPC_RANDOM_GRAPHS")
SEEDS = range(*map(int, (SOAK or "0:24").split(":")))
# Products are large: use every fourth seed.
GRAPHS = [(RandomGraph, seed) for seed in SEEDS]
GRAPHS += [(RandomProducts, seed) for seed in SEEDS if seed % 4 == 0]
# Each takes three runs.
THREADED = GRAPHS if SOAK else GRAPHS[::6]
ROUNDOFFS = {"32-true": 2.0**-24, "bf16-mixed": 2.0**-8, "16-mixed": 2.0**-11}
# Steps of differences. If a kink lies within the longer step, the shorter step
# avoids it.
STEPS = [2.0**-17, 2.0**-20]


@pytest.mark.parametrize("kind, seed", GRAPHS)
def test_outputs_match_float64(kind, seed, tmp_path):
    graph = kind(seed)
    x = graph.data()
    expected = graph.evaluate(x, graph.parameters)
    outputs = mpctest.run(
        graph.model(np.float64),
        graph.inputs(x),
        tmp_path,
        *("--precision", "64-true"),
    )
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        outputs[graph.output], expected, rtol=1e-12, atol=1e-12 * scale
    )


@pytest.mark.parametrize("precision", ROUNDOFFS)
@pytest.mark.parametrize("kind, seed", GRAPHS)
def test_precision_stays_close(kind, seed, precision, tmp_path):
    """The error is within 8 unit roundoffs of the largest output. That is five
    times the worst of 200 networks evaluated with a rounding after every node:
    at this depth most roundings cancel.

    Products of products, or sums of thousands of values, may need more. There
    the bound is four times the worst error from rounding this network's inputs,
    parameters and nodes. 32-true also rounds partial sums: those of a product
    of depth 129, the deepest, add up like eleven roundings of the result."""
    graph = kind(seed)
    x = graph.data().astype(np.float32)
    single = {k: v.astype(np.float32) for k, v in graph.parameters.items()}
    exact = x.astype(float), {k: v.astype(float) for k, v in single.items()}
    expected = graph.evaluate(*exact)
    outputs = mpctest.run(
        graph.model(np.float32),
        graph.inputs(x),
        tmp_path,
        *("--precision", precision),
    )
    unit = ROUNDOFFS[precision]
    scale = max(1.0, np.abs(expected).max())
    error = np.abs(outputs[graph.output] - expected).max()
    if error <= 8 * unit * scale:
        return
    # Simulate several coarser roundings, whose errors grow in proportion. A
    # single one may by chance be a tenth of the next, as with seeds 220, 372
    # and 1128.
    simulated = [
        np.abs(graph.evaluate(*exact, times * unit) - expected).max() / times
        for times in np.geomspace(1, 4, 12)
    ]
    assert error <= (12 if precision == "32-true" else 4) * max(simulated)


class Objective:
    """A network's training objective: cross entropy with labels, or a random
    sum of its outputs."""

    def __init__(self, graph, seed, dtype):
        output, shape = graph.output, graph.shape[graph.output]
        # The outputs of product graphs are sums, not class scores.
        if type(graph) is RandomGraph and seed % 2 == 1:
            labels = graph.random.randint(0, shape[1], shape[0])
            self.data, self.loss = {"target": labels}, "softmax_cross_entropy"
            self.of = lambda v: reference.softmax_cross_entropy(v, labels)
            self.model = graph.model(dtype)
            return
        weights = graph.random.standard_normal(shape)
        self.data, self.loss = {"weights": weights.astype(dtype)}, "output:loss"
        self.of = lambda v: (v * weights).sum()
        self.model = graph.model(
            dtype,
            [
                helper.make_node("Mul", [output, "weights"], ["terms"], "w"),
                helper.make_node("ReduceSum", ["terms"], ["loss"], "s", keepdims=0),
            ],
            {"weights": (dtype, shape)},
            loss=True,
        )


def train(graph, objective, x, folder, *flags):
    """Trains all parameters for one step, which moves them by their gradient."""
    return mpctest.train(
        objective.model,
        {**graph.inputs(x), **objective.data},
        folder,
        *("--loss", objective.loss, "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", len(x), "--max-steps", "1", "--train", "."),
        *flags,
    )


@pytest.mark.parametrize("kind, seed", GRAPHS)
def test_gradients_match_finite_differences(kind, seed, tmp_path):
    graph = kind(seed)
    x = graph.data()
    objective = Objective(graph, seed, np.float64)
    direction = graph.direction()
    _, trained = train(graph, objective, x, tmp_path, "--precision", "64-true")
    actual = sum(
        ((values - trained[name]) * direction[name]).sum()
        for name, values in graph.parameters.items()
    )

    def loss(offset):
        moved = {
            k: v + offset * direction[k] for k, v in graph.parameters.items()
        }
        return objective.of(graph.evaluate(x, moved))

    for step in STEPS:
        rise, fall = loss(step) - loss(0), loss(0) - loss(-step)
        expected = (rise + fall) / (2 * step)
        scale = max(1.0, abs(expected))
        if abs(actual - expected) <= 1e-6 * scale:
            return
    # A Relu's kink or a pool's tie within the step makes the two one-sided
    # quotients differ. Such a seed proves nothing.
    if abs(rise - fall) / step > 1e-3 * scale:
        pytest.skip("a kink lies within the finite difference")
    pytest.fail(f"the derivative is {actual}, the quotient {expected}")


@pytest.mark.parametrize("kind, seed", THREADED)
def test_threads_do_not_change_bits(kind, seed, tmp_path):
    graph = kind(seed)
    turn = seed // 4 if kind is RandomProducts else seed
    precision = ["64-true", *ROUNDOFFS][turn % 4]
    dtype = np.float64 if precision == "64-true" else np.float32
    objective, x = Objective(graph, seed, dtype), graph.data().astype(dtype)
    flags = ["--precision", precision]
    # Gradients of products exceed losses. Multiplied by the initial loss scale,
    # many overflow float16.
    flags += ["--loss-scale", "1"] if precision == "16-mixed" else []
    (events, weights), *others = [
        train(graph, objective, x, tmp_path, *flags, "--threads", threads)
        for threads in (1, 2, 3)
    ]
    for other_events, other_weights in others:
        assert mpctest.losses(other_events) == mpctest.losses(events)
        for name, values in weights.items():
            assert other_weights[name].tobytes() == values.tobytes(), name
