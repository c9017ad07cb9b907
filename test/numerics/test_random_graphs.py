"""Random networks: what holds of every operator alone holds of them together.

In 64-true the outputs of a network (random_networks.py, random_products.py), and
the gradient of a random sum of them along a random direction in parameter space,
match NumPy in float64; the mixed precisions stay finite and close.

SPDX-License-Identifier: Apache-2.0
"""

import os

import numpy as np
import pytest
from onnx import helper

import mpctest
from random_networks import RandomGraph
from random_products import RandomProducts

# More of them for a soak: MPC_RANDOM_GRAPHS=0:2000.
SEEDS = range(*map(int, os.environ.get("MPC_RANDOM_GRAPHS", "0:24").split(":")))
# Products are large: a few of them.
GRAPHS = [(RandomGraph, seed) for seed in SEEDS]
GRAPHS += [(RandomProducts, seed) for seed in SEEDS[::4]]
STEP = 2.0**-17


@pytest.mark.parametrize("kind, seed", GRAPHS)
def test_outputs_match_float64(kind, seed, tmp_path):
    graph = kind(seed)
    x = graph.data()
    expected = graph.evaluate(x, graph.parameters)
    outputs = mpctest.run(
        graph.model(np.float64), {"x": x}, tmp_path, "--precision", "64-true"
    )
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        outputs[graph.output], expected, rtol=1e-12, atol=1e-12 * scale
    )


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("kind, seed", GRAPHS)
def test_mixed_precision_stays_close(kind, seed, precision, tmp_path):
    """Within 8 unit roundoffs of the largest output: five times the worst of
    200 networks evaluated with a rounding after every node, since at this depth
    most roundings cancel. Or, where products of products make more of them, four
    times what the same roundings make of this one."""
    graph = kind(seed)
    x = graph.data().astype(np.float32)
    single = {k: v.astype(np.float32) for k, v in graph.parameters.items()}
    exact = x.astype(float), {k: v.astype(float) for k, v in single.items()}
    expected = graph.evaluate(*exact)
    outputs = mpctest.run(
        graph.model(np.float32), {"x": x}, tmp_path, "--precision", precision
    )
    unit = 2.0**-8 if precision == "bf16-mixed" else 2.0**-11
    scale = max(1.0, np.abs(expected).max())
    error = np.abs(outputs[graph.output] - expected).max()
    # Coarser roundings, which make other errors, in proportion.
    simulated = [
        4 / times * np.abs(graph.evaluate(*exact, times * unit) - expected).max()
        for times in (1, 2, 4)
    ]
    assert error <= max(8 * unit * scale, *simulated)


@pytest.mark.parametrize("kind, seed", GRAPHS)
def test_gradients_match_finite_differences(kind, seed, tmp_path):
    graph = kind(seed)
    x = graph.data()
    weights = graph.random.standard_normal(graph.shape[graph.output])
    direction = graph.direction()
    n = graph.shape["x"][0]
    model = graph.model(
        np.float64,
        [
            helper.make_node("Mul", [graph.output, "weights"], ["terms"], "w"),
            helper.make_node("ReduceSum", ["terms"], ["loss"], "s", keepdims=0),
        ],
        {"weights": (np.float64, weights.shape)},
        loss=True,
    )
    _, trained = mpctest.train(
        model,
        {"x": x, "weights": weights},
        tmp_path,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", n, "--max-steps", "1"),
        # Parameters of one element, too.
        *("--precision", "64-true", "--train", "."),
    )
    actual = sum(
        ((values - trained[name]) * direction[name]).sum()
        for name, values in graph.parameters.items()
    )

    def loss(offset):
        moved = {
            k: v + offset * direction[k] for k, v in graph.parameters.items()
        }
        return (graph.evaluate(x, moved) * weights).sum()

    # The kink of a Relu or a pool's tie within the step shows as a difference
    # between the two one-sided quotients; such a seed says nothing.
    rise, fall = loss(STEP) - loss(0), loss(0) - loss(-STEP)
    expected = (rise + fall) / (2 * STEP)
    scale = max(1.0, abs(expected))
    if abs(rise - fall) / STEP > 1e-3 * scale:
        pytest.skip("a kink lies within the finite difference")
    assert abs(actual - expected) <= 1e-6 * scale


@pytest.mark.parametrize("seed", SEEDS[::8])
def test_threads_do_not_change_bits(seed, tmp_path):
    graph = RandomProducts(seed)
    model, x = graph.model(np.float32), graph.data().astype(np.float32)
    outputs = [
        mpctest.run(model, {"x": x}, tmp_path, "--threads", threads)
        for threads in (1, 2, 3)
    ]
    for other in outputs[1:]:
        assert other[graph.output].tobytes() == outputs[0][graph.output].tobytes()
