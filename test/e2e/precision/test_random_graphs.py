"""Random models train close to float64 in every precision, on every kind of CPU
and on an emulated GPU.

    MPC_RANDOM_GRAPHS=0:1000 pytest test/e2e/precision/test_random_graphs.py

draws 1000 models; the default is a few.

SPDX-License-Identifier: Apache-2.0
"""

import os

import numpy as np
import onnx
import pytest

import mpctest
import random_graphs

EMULATOR = mpctest.BUILD / "test" / "emulator"
STEPS = 3
FIRST, END = map(int, os.environ.get("MPC_RANDOM_GRAPHS", "0:12").split(":"))
# Relative and absolute bounds on a loss: roundings of the stored values' type,
# which add up along a model.
TOLERANCES = {"32-true": 2e-5, "bf16-mixed": 5e-2, "16-mixed": 8e-3}
CPUS = ["x86-64", "x86-64-v3", "native"]
CONTRACTIONS = ["table", "library", "generated", "bare"]


def train(folder, precision, target, *flags):
    environment = dict(os.environ, MPC_CUDA_LIBRARY_PATH=str(EMULATOR))
    environment["MPC_EMULATOR_DEVICE"] = target
    metrics = folder / "metrics.jsonl"
    mpctest.mpc_ok(
        *("train", folder / "model.onnx", "--data", folder / "data.npz"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--lr", "0.01", "--epochs", "1", "--no-shuffle"),
        *("--precision", precision, "--target", target),
        *("--metrics", metrics, "--overwrite-metrics", *flags),
        env=environment,
    )
    return mpctest.losses(mpctest.read_metrics(metrics))


@pytest.mark.parametrize("seed", range(FIRST, END))
def test_trains_close_to_float64(seed, tmp_path):
    make = [random_graphs.dense_model, random_graphs.convolutional_model]
    model = make[seed % 2](seed)
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **random_graphs.data_for(model, STEPS))
    exact = train(tmp_path, "64-true", "x86-64-v3")
    assert len(exact) == STEPS and np.isfinite(exact).all()
    gpu = ["--device", "cuda"]
    gpu += ["--contractions", CONTRACTIONS[seed // 2 % len(CONTRACTIONS)]]
    for i, precision in enumerate(TOLERANCES):
        runs = [(CPUS[(seed + i) % len(CPUS)], [])]
        if i == seed // 2 % len(TOLERANCES):
            runs.append(("sm_80", gpu))
        for target, flags in runs:
            np.testing.assert_allclose(
                train(tmp_path, precision, target, *flags),
                exact,
                rtol=TOLERANCES[precision],
                atol=TOLERANCES[precision],
                err_msg=f"{precision} on {target} {' '.join(flags)}",
            )
