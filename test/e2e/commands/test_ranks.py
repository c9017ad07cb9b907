"""Several ranks, which mpirun starts, train as one.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import subprocess

import pytest

import mpctest

USAGE, UNSUPPORTED = 2, 4
MODEL = mpctest.MODELS / "mlp.onnx"
TRAIN = mpctest.DIGITS / "digits-train.npz"
LOOP = ("--data", TRAIN, "--max-steps", 6, "--device", "cpu", "--threads", 1)

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun of Open MPI is not installed"
)


def mpirun(count, *arguments):
    """Runs mpc on `count` ranks, which mpirun may start as root and beyond the
    number of cores."""
    environment = os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    return subprocess.run(
        ["mpirun", "--oversubscribe", "-n", str(count), mpctest.MPC]
        + [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )


def compiled(folder, *flags):
    """An artifact of the MLP for batches of 16 samples."""
    path = folder / "mlp.mpc"
    mpctest.mpc_ok(
        *("compile", MODEL, "--batch-size", 16, "--loss", "cross_entropy"),
        *("-o", path, *flags),
    )
    return path


def test_an_artifact_for_a_single_rank_is_refused(tmp_path):
    process = mpirun(2, "train", compiled(tmp_path), *LOOP)
    assert process.returncode != 0
    assert "for a single rank, and there are 2" in process.stderr
    assert "compile the model with --data-parallel" in process.stderr
    # Only the first rank reports it.
    assert process.stderr.count("--data-parallel") == 1


def test_a_rank_may_train_alone(tmp_path):
    artifact = compiled(tmp_path)
    metrics = tmp_path / "metrics.jsonl"
    process = mpirun(1, "train", artifact, *LOOP, "--metrics", metrics)
    assert process.returncode == 0, process.stderr
    assert mpctest.read_metrics(metrics)[0]["ranks"] == 1


def test_flags_must_fit_the_ranks(tmp_path):
    model = ("train", MODEL, "--loss", "cross_entropy", *LOOP)
    process = mpirun(2, *model, "--global-batch-size", 7)
    assert "--global-batch-size 7 cannot be divided by 2 ranks" in process.stderr
    process = mpirun(2, *model, "--ranks", 3)
    assert process.returncode != 0
    assert "3" in process.stderr
    process = mpctest.mpc(*model, "--ranks", 2)
    assert process.returncode == USAGE
