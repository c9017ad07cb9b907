"""Products large enough for packed blocks, and for the library, are right in a
step.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mpctest

ROWS, INPUTS, HIDDEN, CLASSES = 97, 72, 131, 70
# Bounds on the error of an update relative to its norm: some roundings of the
# type. Weights trained in 64-true are written in the model's type, which is
# fp32.
ERRORS = {"64-true": 1e-5, "32-true": 1e-5, "16-mixed": 4e-3, "bf16-mixed": 2e-2}


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """Returns the files of a perceptron and of one batch, and their contents."""
    folder = tmp_path_factory.mktemp("problem")
    random = np.random.RandomState(0)
    shapes = {"w0": (INPUTS, HIDDEN), "b0": (HIDDEN,), "w1": (CLASSES, HIDDEN)}
    weights = {
        name: random.normal(scale=0.1, size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["h"], "first"),
        helper.make_node("Tanh", ["h"], ["t"], "tanh"),
        helper.make_node("Gemm", ["t", "w1"], ["y"], "second", transB=1),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [ROWS, INPUTS])},
        {"y": (np.float32, [ROWS, CLASSES])},
        weights,
    )
    onnx.save(model, folder / "model.onnx")
    x = random.normal(size=(ROWS, INPUTS)).astype(np.float32)
    target = random.randint(0, CLASSES, ROWS)
    np.savez(folder / "data.npz", x=x, target=target)
    return folder, weights, x, target


def step(weights, x, target):
    """Returns the weights after one step of SGD with rate 1, in float64."""
    w0, b0, w1 = (weights[name].astype(np.float64) for name in ("w0", "b0", "w1"))
    active = np.tanh(x @ w0 + b0)
    scores = active @ w1.T
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares[np.arange(ROWS), target] -= 1
    shares /= ROWS
    into = (shares @ w1) * (1 - active**2)
    return {
        "w0": w0 - x.T.astype(np.float64) @ into,
        "b0": b0 - into.sum(0),
        "w1": w1 - shares.T @ active,
    }


@pytest.mark.parametrize("contractions", ["generated", "library"])
@pytest.mark.parametrize("precision", ERRORS)
def test_a_step_is_that_of_float64(problem, precision, contractions, tmp_path):
    folder, weights, x, target = problem
    trained = tmp_path / "trained.onnx"
    mpctest.mpc_ok(
        *("train", folder / "model.onnx", "--data", folder / "data.npz"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", ROWS, "--max-steps", "1", "--precision", precision),
        *("--contractions", contractions, "--output", trained),
    )
    expected = step(weights, x, target)
    for tensor in onnx.load(trained).graph.initializer:
        exact = expected[tensor.name]
        found = numpy_helper.to_array(tensor)
        change = np.linalg.norm(exact - weights[tensor.name])
        error = np.linalg.norm(exact - found)
        assert error <= ERRORS[precision] * change, tensor.name
