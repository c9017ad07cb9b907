"""Several ranks, which mpirun starts, train as one does.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import subprocess

import numpy as np
import pytest

import mpctest

USAGE, UNSUPPORTED = 2, 4
MODEL = mpctest.MODELS / "mlp.onnx"
TRAIN = mpctest.DIGITS / "digits-train.npz"
LOOP = ("--data", TRAIN, "--device", "cpu", "--threads", 1)
STEPS = ("--max-steps", 6)

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
    process = mpirun(2, "train", compiled(tmp_path), *LOOP, *STEPS)
    assert process.returncode != 0
    assert "for a single rank, and there are 2" in process.stderr
    assert "compile the model with --data-parallel" in process.stderr
    # Only the first rank reports it.
    assert process.stderr.count("--data-parallel") == 1


def test_a_rank_may_train_alone(tmp_path):
    artifact = compiled(tmp_path)
    metrics = tmp_path / "metrics.jsonl"
    process = mpirun(1, "train", artifact, *LOOP, *STEPS, "--metrics", metrics)
    assert process.returncode == 0, process.stderr
    assert mpctest.read_metrics(metrics)[0]["ranks"] == 1


def test_flags_must_fit_the_ranks(tmp_path):
    model = ("train", MODEL, "--loss", "cross_entropy", *LOOP, *STEPS)
    process = mpirun(2, *model, "--global-batch-size", 7)
    assert "--global-batch-size 7 cannot be divided by 2 ranks" in process.stderr
    process = mpirun(2, *model, "--ranks", 3)
    assert process.returncode != 0
    assert "3" in process.stderr
    process = mpctest.mpc(*model, "--ranks", 2)
    assert process.returncode == USAGE


def train(count, folder, *flags):
    """Trains on `count` ranks, and returns the losses of the steps and the
    trained weights."""
    folder.mkdir(exist_ok=True)
    process = mpirun(
        *(count, "train", MODEL, "--loss", "softmax_cross_entropy", *LOOP),
        *("--batch-size", 16, "--metrics", folder / "m.jsonl", *flags),
        *("--output", folder / "w.npz", "--overwrite-metrics"),
    )
    assert process.returncode == 0, process.stderr
    lines = mpctest.read_metrics(folder / "m.jsonl")
    losses = [line["loss"] for line in lines if line["event"] == "train"]
    return losses, dict(np.load(folder / "w.npz"))


def largest_difference(weights, expected):
    assert weights.keys() == expected.keys()
    return max(np.abs(weights[name] - expected[name]).max() for name in expected)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_ranks_train_as_one_with_their_batches(precision, optimizer, tmp_path):
    """The ranks take the batches that one rank accumulates."""
    flags = ("--precision", precision, "--optimizer", optimizer, *STEPS)
    flags += tuple(mpctest.TARGET)
    losses, weights = train(2, tmp_path / "two", *flags)
    again = train(2, tmp_path / "again", *flags)
    assert again[0] == losses and largest_difference(again[1], weights) == 0
    one = ("--accumulate-grad-batches", 2, *flags)
    expected, single = train(1, tmp_path / "one", *one)
    assert losses == pytest.approx(expected, rel=1e-5)
    # A step of adamw is as long as the learning rate, whatever the gradient, so
    # an element whose gradient is near zero may turn around.
    assert largest_difference(weights, single) <= (
        1e-5 if optimizer == "sgd" else 2e-3
    )
    # Negative control: one rank without the other's batches.
    alone, _ = train(1, tmp_path / "alone", *flags)
    assert alone[1:] != pytest.approx(expected[1:], rel=1e-3)


def test_a_run_resumes_on_another_number_of_ranks(tmp_path):
    folder = ("--checkpoint-dir", tmp_path / "run", "--resume", "auto")
    flags = (*folder, *mpctest.TARGET)
    train(2, tmp_path / "two", *flags, "--max-steps", 3)
    # Two ranks have seen 96 samples, and three steps on one rank add 48.
    train(1, tmp_path / "one", *flags, "--max-steps", 6)
    lines = mpctest.read_metrics(tmp_path / "one" / "m.jsonl")
    assert [x["samples"] for x in lines if x["event"] == "train"] == [112, 128, 144]
