"""If a step looks up few rows of a table, it updates only those rows, to the
bits of a full update.

SPDX-License-Identifier: Apache-2.0
"""

import os

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

ROWS, WIDTH, BATCH = 10, 6, 4
EMULATOR = mpctest.BUILD / "test" / "emulator"


def make_model(rows):
    """Returns sums of rows of a table. The first ten rows are the same for any
    number of rows."""
    table = np.random.RandomState(0).randn(1000, WIDTH).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"], "look_up"),
        helper.make_node("Tanh", ["x"], ["t"], "tanh"),
        helper.make_node("ReduceSum", ["t", "axis"], ["sums"], "sum", keepdims=0),
        helper.make_node("MatMul", ["sums", "head"], ["y"], "head"),
    ]
    return mpctest.make_model(
        nodes,
        {"ids": (np.int64, ["N", 3])},
        {"y": (np.float32, ["N", 2])},
        {
            "table": table[:rows],
            "head": np.random.RandomState(1).randn(WIDTH, 2).astype(np.float32),
            "axis": np.array([1]),
        },
        opset=17,
    )


def make_data(ids):
    target = np.random.RandomState(2).randn(len(ids), 2).astype(np.float32)
    return {"ids": ids, "target": target}


def many(rows):
    """Returns ids with repeated rows. Some ids are negative and count from the
    end, but name one of the first ten rows."""
    ids = np.random.RandomState(3).randint(0, ROWS, (8 * BATCH, 3))
    return np.where(ids == 7, ids - rows, ids)


def train(rows, folder, optimizer, *flags, env=None):
    flags = (
        *("--loss", "mse", "--optimizer", optimizer, "--lr", "0.1"),
        *("--batch-size", str(BATCH), "--epochs", "2", *flags),
    )
    model = make_model(rows)
    metrics, weights = mpctest.train(
        model, make_data(many(rows)), folder, *flags, env=env
    )
    return mpctest.losses(metrics), weights["table"]


OPTIMIZERS = {
    "sgd": ("sgd",),
    "adagrad": ("adagrad",),
}


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed", "64-true"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_rows_have_the_bits_of_a_whole_update(optimizer, precision, tmp_path):
    flags = (*OPTIMIZERS[optimizer], "--precision", precision)
    losses, whole = train(ROWS, tmp_path / "whole", *flags)
    for threads in (1, 3):
        row_losses, table = train(
            *(100, tmp_path / str(threads), *flags, "--threads", str(threads))
        )
        assert row_losses == losses
        np.testing.assert_array_equal(table[:ROWS], whole)
        start = np.random.RandomState(0).randn(1000, WIDTH).astype(np.float32)
        np.testing.assert_array_equal(table[ROWS:], start[ROWS:100])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_emulated_gpu_updates_the_same_rows(optimizer, tmp_path):
    flags = OPTIMIZERS[optimizer]
    losses, table = train(100, tmp_path / "cpu", *flags)
    gpu_losses, gpu_table = train(
        *(100, tmp_path / "gpu", *flags, "--device", "cuda", "--target", "sm_80"),
        env={
            **os.environ,
            "MPC_CUDA_LIBRARY_PATH": str(EMULATOR),
            "MPC_EMULATOR_DEVICE": "sm_80",
        },
    )
    np.testing.assert_allclose(gpu_losses, losses, rtol=1e-5)
    np.testing.assert_allclose(gpu_table, table, rtol=1e-4, atol=1e-6)


def test_no_step_goes_over_the_table(tmp_path):
    """The update writes in place, as many rows as there are ids."""
    onnx.save(make_model(100), tmp_path / "model.onnx")
    plan = mpctest.mpc_ok(
        *("compile", tmp_path / "model.onnx", "-o", "-", "--emit=plan"),
        *("--loss", "mse", "--optimizer", "adagrad", "--batch-size", str(BATCH)),
        *("--target", "x86-64-v3"),
    ).stdout
    step = plan.split("plan.program @step")[1].split("plan.program")[0]
    table = f"memref<100x{WIDTH}xf32>"
    writes = [line for line in step.splitlines() if table in line.split("outs")[-1]]
    launches = [line for line in writes if "plan.launch" in line]
    assert len(launches) == 2, step
    assert all(f"extent {3 * BATCH} " in line for line in launches), launches
    assert not [line for line in writes if "plan.copy" in line or "arena" in line]
