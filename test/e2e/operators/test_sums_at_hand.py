"""Kernels and products that read rows also compute sums over these rows:
gradients of biases, and of a norm's scale and shift.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mpctest

pytestmark = pytest.mark.starts_mpc
BATCH, TOKENS, INPUTS, WIDTH, OUTPUTS = 8, 64, 32, 768, 24
TYPE = helper.TensorProto.FLOAT
FLAGS = ["--loss", "mse", "--optimizer", "sgd"]
# Bounds from rounding the operands of products to 16 bits, or sums to f32.
BOUNDS = {"64-true": 1e-6, "32-true": 2e-5, "bf16-mixed": 0.05, "16-mixed": 0.01}


def weights():
    random = np.random.default_rng(5)
    uniform = lambda *shape: random.uniform(-0.2, 0.2, shape).astype(np.float32)
    return {
        "w0": uniform(INPUTS, WIDTH),
        "b0": np.zeros(WIDTH, np.float32),
        "gamma": np.ones(WIDTH, np.float32),
        "beta": np.zeros(WIDTH, np.float32),
        "w1": uniform(WIDTH, OUTPUTS),
        "b1": np.zeros(OUTPUTS, np.float32),
    }


def model():
    """Returns a dense layer, a layer norm and a dense layer, all with biases."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h0"], "first"),
        helper.make_node("Add", ["h0", "b0"], ["h1"], "first_bias"),
        helper.make_node(
            "LayerNormalization", ["h1", "gamma", "beta"], ["h2"], "norm", axis=-1
        ),
        helper.make_node("MatMul", ["h2", "w1"], ["h3"], "second"),
        helper.make_node("Add", ["h3", "b1"], ["y"], "second_bias"),
    ]
    graph = helper.make_graph(
        nodes,
        "sums",
        [helper.make_tensor_value_info("x", TYPE, [BATCH, TOKENS, INPUTS])],
        [helper.make_tensor_value_info("y", TYPE, [BATCH, TOKENS, OUTPUTS])],
        [numpy_helper.from_array(w, name) for name, w in weights().items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def data():
    random = np.random.default_rng(6)
    return {
        "x": random.normal(size=(BATCH, TOKENS, INPUTS)).astype(np.float32),
        "target": 30 * random.normal(size=(BATCH, TOKENS, OUTPUTS)).astype(np.float32),
    }


def gradients():
    """Returns the gradients of the vectors, by NumPy in float64."""
    w = {name: value.astype(np.float64) for name, value in weights().items()}
    x, target = (array.astype(np.float64) for array in data().values())
    h = x @ w["w0"]
    deviation = np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    normal = (h - h.mean(-1, keepdims=True)) / deviation
    dy = 2 * (normal @ w["w1"] - target) / target.size
    dn = dy @ w["w1"].T
    mean = lambda value: value.mean(-1, keepdims=True)
    dh = (dn - mean(dn) - normal * mean(dn * normal)) / deviation
    return {
        "b0": dh.sum((0, 1)),
        "gamma": (dn * normal).sum((0, 1)),
        "beta": dn.sum((0, 1)),
        "b1": dy.sum((0, 1)),
    }


def train(folder, precision, threads):
    output = folder / f"{threads}.onnx"
    mpctest.mpc_ok(
        *("train", folder / "model.onnx", "--data", folder / "data.npz", *FLAGS),
        *("--precision", precision, "--lr", "1", "--max-steps", "1"),
        *("--threads", threads, "--output", output),
    )
    return mpctest.read_weights(output)


@pytest.fixture
def folder(tmp_path):
    onnx.save(model(), tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **data())
    return tmp_path


@pytest.mark.parametrize("precision", BOUNDS)
def test_is_the_gradient_on_any_number_of_threads(precision, folder):
    trained = train(folder, precision, 1)
    for name, gradient in gradients().items():
        # One step of SGD at a rate of 1.
        moved = weights()[name].astype(np.float64) - trained[name]
        error = np.abs(moved - gradient).max() / np.abs(gradient).max()
        assert error < BOUNDS[precision], (name, error)
    for threads in (2, 3):
        again = train(folder, precision, threads)
        for name, value in trained.items():
            np.testing.assert_array_equal(again[name], value, name)


def plan(folder, target):
    return mpctest.mpc_ok(
        *("compile", folder / "model.onnx", *FLAGS, "--precision", "bf16-mixed"),
        *("--target", target, "--emit=plan", "-o", "-"),
    ).stdout


def count_kernels(text):
    return text.count("mpc.kernel = #mpc.kernel<column_reduce>")


def test_products_and_rows_add_up(folder):
    """With AMX, the product of the first weight's gradient also computes the
    first bias's gradient. The kernel over the norm's rows computes the norm's.
    Without AMX, that kernel computes the bias's gradient too."""
    amx, plain = plan(folder, "sapphirerapids"), plan(folder, "x86-64-v4")
    assert amx.count("fused bgrad_b ") == 1
    assert "fused bgrad_" not in plain
    for text, sums in ((amx, 2), (plain, 3)):
        part = f"memref<{BATCH}x1x{WIDTH}xf32>"
        results = ", ".join([part] * sums)
        assert f"{results}) extent {BATCH * TOKENS} grain {TOKENS} " in text
    # On a GPU, sums are separate kernels or part of the library's.
    assert count_kernels(plan(folder, "sm_90")) > count_kernels(amx)
