"""Low-rank adapters follow their formula in NumPy over a few steps, in float64.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import helper

import mpctest
from case import normal

X, TARGET = normal(4, 5), normal(4, 3)
WEIGHTS = {
    "fc1.weight": normal(6, 5),
    "fc1.bias": normal(6),
    "fc2.weight": normal(6, 7),
    "head.weight": normal(7, 3),
}
ADAPTERS = {
    "fc1.lora_A.weight": normal(2, 5),
    "fc1.lora_B.weight": normal(6, 2),
    "fc2.lora_A.weight": normal(2, 6),
    "fc2.lora_B.weight": normal(7, 2),
}
SCALE = 3 / 2


def save_model(folder):
    """A Gemm [out, in], a MatMul [in, out] that two layers share, and a head."""
    nodes = [
        helper.make_node(
            *("Gemm", ["x", "fc1.weight", "fc1.bias"], ["y1"], "fc1"),
            transB=1,
            alpha=0.5,
        ),
        helper.make_node("Tanh", ["y1"], ["h1"], "tanh1"),
        helper.make_node("MatMul", ["h1", "fc2.weight"], ["y2"], "fc2"),
        helper.make_node("Tanh", ["y2"], ["h2"], "tanh2"),
        helper.make_node("MatMul", ["h2", "head.weight"], ["out"], "head"),
    ]
    model = mpctest.make_model(
        *(nodes, {"x": (np.float64, ["N", 5])}, {"out": (np.float64, ["N", 3])}),
        WEIGHTS,
    )
    path = folder / "model.onnx"
    onnx.save(model, path)
    np.savez(folder / "data.npz", x=X, target=TARGET)
    safetensors.numpy.save_file(
        {f"base_model.model.{name}": value for name, value in ADAPTERS.items()},
        folder / "start.safetensors",
    )
    return path


def forward(state):
    a1, b1, a2, b2 = (state[name] for name in ADAPTERS)
    w1 = state["fc1.weight"] + SCALE * b1 @ a1
    w2 = state["fc2.weight"] + SCALE * (b2 @ a2).T
    h1 = np.tanh(0.5 * X @ w1.T + state["fc1.bias"])
    h2 = np.tanh(h1 @ w2)
    return w1, w2, h1, h2, h2 @ state["head.weight"]


def gradients(state):
    a1, b1, a2, b2 = (state[name] for name in ADAPTERS)
    _, w2, h1, h2, out = forward(state)
    dout = 2 * (out - TARGET) / out.size
    dy2 = dout @ state["head.weight"].T * (1 - h2**2)
    dw2 = (h1.T @ dy2).T * SCALE
    dy1 = dy2 @ w2.T * (1 - h1**2)
    dw1 = 0.5 * dy1.T @ X * SCALE
    changes = [b1.T @ dw1, dw1 @ a1.T, b2.T @ dw2, dw2 @ a2.T]
    return {**dict(zip(ADAPTERS, changes)), "head.weight": h2.T @ dout}


def expected(trained, steps=3, lr=0.1):
    state = {**WEIGHTS, **ADAPTERS}
    for _ in range(steps):
        changes = gradients(state)
        state |= {name: state[name] - lr * changes[name] for name in trained}
    return state


def command(folder, output, *flags):
    return [
        *("train", save_model(folder), "--data", folder / "data.npz"),
        *("--loss", "mse", "--precision", "64-true", "--lr", 0.1),
        *("--batch-size", 4, "--epochs", 3, "--lora", "2:3", "--output", output),
        *("--weights", folder / "start.safetensors", *flags),
    ]


@pytest.mark.parametrize("head", [False, True], ids=["adapters", "head"])
def test_adapter_is_trained_alone(head, tmp_path):
    output = tmp_path / "adapter_model.safetensors"
    flags = ["--train", "^head"] if head else []
    mpctest.mpc_ok(*command(tmp_path, output, "--trained-only", *flags))
    found = safetensors.numpy.load_file(output)
    names = [*ADAPTERS, "head.weight"] if head else [*ADAPTERS]
    right = expected(names)
    assert set(found) == {f"base_model.model.{name}" for name in names}
    for name in names:
        value = found[f"base_model.model.{name}"]
        np.testing.assert_allclose(value, right[name], rtol=0, atol=1e-13)
        assert np.abs(value - {**WEIGHTS, **ADAPTERS}[name]).max() > 1e-3
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (2, 3)
    assert config["target_modules"] == ["fc1", "fc2"]
    assert config["modules_to_save"] == (["head"] if head else None)


@pytest.mark.parametrize("suffix", ["onnx", "safetensors"])
def test_output_has_the_adapters_merged(suffix, tmp_path):
    output = tmp_path / f"merged.{suffix}"
    mpctest.mpc_ok(*command(tmp_path, output))
    right = expected(ADAPTERS)
    w1, w2, *_ = forward(right)
    merged = {"fc1.weight": w1, "fc2.weight": w2}
    load = safetensors.numpy.load_file if suffix == "safetensors" else mpctest.read_weights
    found = load(output)
    assert set(found) == set(WEIGHTS)
    for name, value in {**WEIGHTS, **merged}.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-13)
