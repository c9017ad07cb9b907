"""A sum over rows stays a separate kernel if the kernel over these rows, or a
product that reads them, needs the whole sum.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

pytestmark = pytest.mark.starts_mpc


def uniform(*shape):
    random = np.random.default_rng(sum(shape))
    return random.uniform(-0.3, 0.3, shape).astype(np.float32)


class Centered:
    """Centers columns over the tokens, then applies a softmax to each row."""

    rate = 2.0**17
    x = uniform(8, 128, 32)
    weights = {"w0": uniform(32, 768), "w1": uniform(768, 8)}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h"], "first"),
        helper.make_node("ReduceMean", ["h"], ["mean"], "mean", axes=[1]),
        helper.make_node("Sub", ["h", "mean"], ["centered"], "center"),
        helper.make_node("Softmax", ["centered"], ["s"], "rows", axis=-1),
        helper.make_node("MatMul", ["s", "w1"], ["y"], "second"),
    ]

    @staticmethod
    def forward(x, w0, w1):
        h = x @ w0
        e = np.exp(h - h.mean(1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ w1


class Mixed:
    """Multiplies rows, and adds the sum of these rows."""

    rate = 1
    x = uniform(256, 64)
    weights = {"w0": uniform(64, 96), "q": uniform(128, 256), "w1": uniform(96, 4) / 32}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h0"], "first"),
        helper.make_node("Relu", ["h0"], ["h"], "relu"),
        helper.make_node("ReduceSum", ["h", "axes"], ["sum"], "sum"),
        helper.make_node("MatMul", ["q", "h"], ["qh"], "mix"),
        helper.make_node("Add", ["qh", "sum"], ["z"], "add"),
        helper.make_node("MatMul", ["z", "w1"], ["y"], "second"),
    ]

    @staticmethod
    def forward(x, w0, q, w1):
        h = np.maximum(x @ w0, 0)
        return (q @ h + h.sum(0)) @ w1


def loss_of(case, weights):
    """Returns the mean of the squares, in float64."""
    exact = {name: value.astype(np.float64) for name, value in weights.items()}
    return (case.forward(case.x.astype(np.float64), **exact) ** 2).mean()


def train(case, folder, precision, threads):
    model = mpctest.make_model(
        case.nodes
        + [
            helper.make_node("Mul", ["y", "y"], ["squares"], "square"),
            helper.make_node("ReduceMean", ["squares"], ["loss"], "loss", keepdims=0),
        ],
        {"x": (np.float32, case.x.shape)},
        {"loss": (np.float32, ())},
        {**case.weights, "axes": np.array([0])},
        opset=13,
    )
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "data.npz", x=case.x)
    output = folder / f"{threads}.onnx"
    mpctest.mpc_ok(
        *("train", folder / "model.onnx", "--data", folder / "data.npz"),
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", case.rate),
        *("--precision", precision, "--max-steps", "1", "--threads", threads),
        *("--train", "w0", "--freeze", "q|w1", "--output", output),
    )
    return mpctest.read_weights(output)["w0"]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("case", [Centered, Mixed])
def test_is_the_gradient_on_any_number_of_threads(case, precision, tmp_path):
    trained = train(case, tmp_path, precision, 1)
    for threads in (2, 3):
        again = train(case, tmp_path, precision, threads)
        np.testing.assert_array_equal(again, trained)
    # A step is the gradient times the rate, which is chosen so that the weights
    # have enough digits. The derivative of the loss along the gradient is the
    # gradient's norm.
    gradient = (case.weights["w0"].astype(np.float64) - trained) / case.rate
    length = np.sqrt((gradient**2).sum())
    distance = 1e-4
    along = [
        loss_of(
            case,
            {**case.weights, "w0": case.weights["w0"] + gradient * (way / length)},
        )
        for way in (-distance, distance)
    ]
    slope = (along[1] - along[0]) / (2 * distance)
    bound = 1e-4 if precision == "32-true" else 0.05
    assert slope == pytest.approx(length, rel=bound)
