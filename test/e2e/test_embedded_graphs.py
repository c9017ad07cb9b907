"""Training graphs of a compiler for microcontrollers, which are ONNX Runtime's
with edits of its own, train as their equations say.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest

import embedded_graphs
import mpctest
from embedded_graphs import BATCH, FAMILIES, evaluate, make_data

STEPS = 3
BOUND = {"32-true": 1e-5, "bf16-mixed": 3e-2, "16-mixed": 5e-3}


def save(made, folder):
    """Writes the files; returns the flags that train them."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(made.training, folder / "network.onnx")
    onnx.save(made.optimizer, folder / "optimizer.onnx")
    onnx.save(made.forward, folder / "forward.onnx")
    return (
        *("--optimizer-model", folder / "optimizer.onnx"),
        *("--weights", folder / "forward.onnx"),
        *("--export-model", folder / "forward.onnx"),
        *("--batch-size", BATCH),
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_the_loss(family):
    """What the other tests compare with: along a random direction."""
    made = FAMILIES[family]()
    data = make_data(made, 1)
    random = np.random.RandomState(1)
    start = {k: v.astype(float) for k, v in made.parameters.items()}
    way = {p: random.standard_normal(v.shape) for p, v in start.items()}
    _, gradients = evaluate(made, start, data)
    slope = sum((gradients[p] * way[p]).sum() for p in way)
    ends = [
        evaluate(made, {p: start[p] + by * way[p] for p in way}, data)[0]
        for by in (1e-6, -1e-6)
    ]
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("precision", BOUND)
@pytest.mark.parametrize("family", FAMILIES)
def test_family_trains(family, precision, tmp_path):
    """Gradients of two batches are added up for a step."""
    made = FAMILIES[family]()
    flags = save(made, tmp_path)
    data = make_data(made, 2 * STEPS)
    metrics, trained = mpctest.train(
        tmp_path / "network.onnx",
        data,
        tmp_path,
        *flags,
        *("--accumulate-grad-batches", 2, "--precision", precision),
    )
    losses, parameters = embedded_graphs.train_reference(made, data, 2)
    bound = BOUND[precision]
    np.testing.assert_allclose(mpctest.losses(metrics), losses, rtol=bound)
    moves = {
        p: np.linalg.norm(expected - made.parameters[p])
        for p, expected in parameters.items()
    }
    # The bias of keys does not move, for a Softmax does not see it.
    least = max(moves.values()) / 50
    for p, move in moves.items():
        error = np.linalg.norm(trained[p] - parameters[p])
        assert error <= 4 * bound * max(move, least), p
