"""In edge cases an emulated GPU computes the CPU's bits: powers of integers, a
scatter without updates, an output that is the input.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
from test_gpu import emulated

DEVICES = {"cpu": "x86-64-v3", "cuda": "sm_90"}


def mpc_on(device, folder, *arguments):
    target = DEVICES[device]
    return mpctest.mpc_ok(
        *arguments,
        *("--device", device, "--target", target),
        env=emulated(target, folder),
    )


def run(folder, model, device, inputs, *flags):
    """Returns the output y."""
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    mpc_on(
        device,
        folder,
        *("run", folder / "model.onnx", "--data", folder / "inputs.npz"),
        *("--output", folder / f"{device}.npz", *flags),
    )
    with np.load(folder / f"{device}.npz") as outputs:
        return outputs["y"]


# Bases, exponents, and truncated powers. No float64 power of a GPU is right to
# the last digit. The last power is 2097151.9999999998.
POWERS = [
    (3, 6.0, 729),
    (3, 15.0, 3**15),
    (10, 15.0, 10**15),
    (46340, 3.0, 46340**3),
    (-7, 11.0, -(7**11)),
    (2, 0.5, 1),
    (2, -1.0, 0),
    (-1, -3.0, -1),
    (-1, 1e300, 1),
    (1, 1e300, 1),
    (0, 0.0, 1),
    (2**63 - 1, 1 / 3, 2097151),
]


@pytest.mark.parametrize("device", DEVICES)
def test_whole_powers_of_integers_are_exact(device, tmp_path):
    a, b, expected = (np.array([column]) for column in zip(*POWERS))
    shape = list(a.shape)
    model = mpctest.make_model(
        [helper.make_node("Pow", ["a", "b"], ["y"])],
        {"a": (np.int64, shape), "b": (np.float64, shape)},
        {"y": (np.int64, shape)},
        {},
    )
    y = run(tmp_path, model, device, {"a": a, "b": b})
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("device", DEVICES)
def test_a_scatter_without_updates_keeps_the_data(device, dtype, tmp_path):
    data = np.arange(32).reshape(4, 8).astype(dtype)
    inputs = {
        "data": data,
        "ids": np.zeros((0, 1), np.int64),
        "updates": np.zeros((0, 8), dtype),
    }
    model = mpctest.make_model(
        [helper.make_node("ScatterND", list(inputs), ["y"], reduction="add")],
        {name: (value.dtype, value.shape) for name, value in inputs.items()},
        {"y": (dtype, data.shape)},
        {},
        opset=18,
    )
    flags = [f for name in inputs for f in ("--batch-axis", f"{name}=none")]
    y = run(tmp_path, model, device, inputs, *flags)
    np.testing.assert_array_equal(y, data)


def test_scores_that_are_the_input_are_those_of_their_batch(tmp_path):
    """The scores are read before the next batch overwrites the input."""
    model = mpctest.make_model(
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": (np.float32, ["N", 10])},
        {"y": (np.float32, ["N", 10])},
        {},
    )
    onnx.save(model, tmp_path / "model.onnx")
    random = np.random.RandomState(0)
    np.savez(
        tmp_path / "data.npz",
        x=random.randn(40, 10).astype(np.float32),
        target=random.randint(0, 10, 40),
    )
    cpu, gpu = [
        mpc_on(
            device,
            tmp_path,
            *("eval", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
            *("--loss", "softmax_cross_entropy", "--metric", "f1"),
            *("--batch-size", "8"),
        ).stdout
        for device in DEVICES
    ]
    assert "f1" in cpu and gpu == cpu


@pytest.mark.parametrize("device", DEVICES)
def test_three_parameters_are_read_where_they_are(device, tmp_path):
    """LLVM reads the 12 bytes of a parameter by one load of 16: memory is
    padded to whole vectors. The scaled values are in the middle of the model,
    so that a loop reads the parameters."""
    random = np.random.RandomState(0)
    x = random.randn(2, 3, 6, 6).astype(np.float32)
    weights = {
        "scale": random.randn(3).astype(np.float32),
        "bias": random.randn(3).astype(np.float32),
    }
    model = mpctest.make_model(
        [
            helper.make_node("Neg", ["x"], ["a"]),
            helper.make_node(
                "GroupNormalization",
                ["a", "scale", "bias"],
                ["n"],
                num_groups=1,
                epsilon=0.125,
            ),
            helper.make_node("Tanh", ["n"], ["y"]),
        ],
        {"x": (np.float32, x.shape)},
        {"y": (np.float32, x.shape)},
        weights,
        opset=21,
    )
    y = run(tmp_path, model, device, {"x": x})
    rows = -x.reshape(2, -1).astype(float)
    normal = (rows - rows.mean(1, keepdims=True)) / np.sqrt(
        rows.var(1, keepdims=True) + 0.125
    )
    channels = weights["scale"][:, None, None], weights["bias"][:, None, None]
    expected = np.tanh(normal.reshape(x.shape) * channels[0] + channels[1])
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
