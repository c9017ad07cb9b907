"""Recurrent networks, loops within a step, train in every precision and on both
devices.

SPDX-License-Identifier: Apache-2.0
"""

import os

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

LENGTH, BATCH, WORDS, WIDTH = 9, 8, 5, 16
EMULATOR = mpctest.BUILD / "test" / "emulator"

# Relative bounds on the difference to float64 losses.
TOLERANCES = {"32-true": 1e-5, "bf16-mixed": 2e-2, "16-mixed": 4e-3}


def make_model():
    """Returns a model that tells the last word but one: an LSTM, then a reverse
    GRU."""
    random = np.random.RandomState(0)

    def weight(*shape):
        return (random.randn(*shape) / np.sqrt(shape[-1])).astype(np.float32)

    weights = {
        "words": weight(WORDS, WIDTH),
        "W1": weight(1, 4 * WIDTH, WIDTH),
        "R1": weight(1, 4 * WIDTH, WIDTH),
        "B1": np.zeros((1, 8 * WIDTH), np.float32),
        "W2": weight(1, 3 * WIDTH, WIDTH),
        "R2": weight(1, 3 * WIDTH, WIDTH),
        "B2": np.zeros((1, 6 * WIDTH), np.float32),
        "head": weight(WIDTH, WORDS),
        "axis": np.array([1]),
        "first": np.array(0),
    }
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["x"], "embed"),
        helper.make_node("Transpose", ["x"], ["steps"], "t", perm=[1, 0, 2]),
        helper.make_node(
            *("LSTM", ["steps", "W1", "R1", "B1"], ["y1"], "lstm"),
            hidden_size=WIDTH,
        ),
        helper.make_node("Squeeze", ["y1", "axis"], ["h1"], "squeeze"),
        helper.make_node(
            *("GRU", ["h1", "W2", "R2", "B2"], ["", "y2"], "gru"),
            hidden_size=WIDTH,
            direction="reverse",
        ),
        helper.make_node("Gather", ["y2", "first"], ["h2"], "last"),
        helper.make_node("MatMul", ["h2", "head"], ["scores"], "classify"),
    ]
    return mpctest.make_model(
        nodes,
        {"ids": (np.int64, [BATCH, LENGTH])},
        {"scores": (np.float32, [BATCH, WORDS])},
        weights,
        opset=17,
    )


def make_data():
    ids = np.random.RandomState(1).randint(0, WORDS, (32 * BATCH, LENGTH))
    return {"ids": ids, "target": ids[:, -2]}


FLAGS = (
    *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
    *("--lr", "1e-2", "--epochs", "25"),
)


def train_losses(precision, folder, *flags):
    metrics, weights = mpctest.train(
        *(make_model(), make_data(), folder, *FLAGS),
        *("--precision", precision, *flags),
    )
    return mpctest.losses(metrics), weights


@pytest.mark.parametrize("precision", TOLERANCES)
def test_losses_are_those_in_float64(precision, tmp_path):
    """The first losses match float64. By the end the model has learned the
    task."""
    exact, _ = train_losses("64-true", tmp_path / "exact", "--max-steps", "24")
    losses, _ = train_losses(precision, tmp_path / "run")
    np.testing.assert_allclose(
        losses[: len(exact)], exact, rtol=TOLERANCES[precision]
    )
    assert np.mean(losses[-8:]) < 0.05 * losses[0]


@pytest.mark.starts_mpc
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_same_bits_on_any_number_of_threads(precision, tmp_path):
    runs = [
        train_losses(
            *(precision, tmp_path / str(threads), "--max-steps", "24"),
            *("--threads", threads),
        )
        for threads in (1, 2, 3)
    ]
    for losses, weights in runs[1:]:
        assert losses == runs[0][0]
        for name, value in weights.items():
            np.testing.assert_array_equal(value, runs[0][1][name], name)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_an_emulated_gpu_has_the_same_losses(precision, tmp_path):
    cpu, _ = train_losses(precision, tmp_path, "--max-steps", "4")
    path, metrics = tmp_path / "model.onnx", tmp_path / "gpu.jsonl"
    mpctest.mpc_ok(
        *("train", path, "--data", tmp_path / "data.npz", "--no-shuffle"),
        *(*FLAGS, "--max-steps", "4", "--precision", precision),
        *("--metrics", metrics, "--output", tmp_path / "gpu.onnx"),
        *("--device", "cuda", "--target", "sm_80"),
        env={
            **os.environ,
            "MPC_CUDA_LIBRARY_PATH": str(EMULATOR),
            "MPC_EMULATOR_DEVICE": "sm_80",
        },
    )
    gpu = mpctest.losses(mpctest.read_metrics(metrics))
    np.testing.assert_allclose(gpu, cpu, rtol=TOLERANCES[precision])


def test_the_products_with_inputs_are_outside_the_loops(tmp_path):
    """Each loop holds one product with the state per step, forward and
    backward. The GRU's loops also hold the reset state's."""
    onnx.save(make_model(), tmp_path / "model.onnx")
    plan = mpctest.mpc_ok(
        *("compile", tmp_path / "model.onnx", "-o", "-", "--emit=plan"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--target", "x86-64-v3"),
    ).stdout
    step = plan.split("plan.program @step")[1].split("plan.program")[0]
    loops = [part.split("\n    }")[0] for part in step.split("plan.for")[1:]]
    assert [loop.count("plan.matmul") for loop in loops] == [1, 2, 2, 1]
