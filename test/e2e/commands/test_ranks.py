"""Several ranks, which mpirun starts, train as one does.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import shutil
import signal
import subprocess
import time

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


# Open MPI asks root twice.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def mpirun_command(count):
    """The start of a command on `count` ranks, perhaps more than cores."""
    return ["mpirun", "--oversubscribe", "-n", str(count)]


def mpirun(count, *arguments):
    """Runs mpc on `count` ranks."""
    return subprocess.run(
        [*mpirun_command(count), mpctest.MPC, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=ENVIRONMENT,
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


def train(count, folder, *flags, model="mlp", data=TRAIN):
    """Trains on `count` ranks, and returns the losses of the steps and the
    trained weights."""
    folder.mkdir(exist_ok=True)
    process = mpirun(
        *(count, "train", mpctest.MODELS / f"{model}.onnx", "--loss", "softmax_cross_entropy"),
        *("--data", data, *LOOP[2:]),
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


def test_statistics_of_normalization_are_means_of_the_ranks(tmp_path):
    """Each rank normalizes by its own batch, so the losses equal those of one
    rank."""
    flags = (*STEPS, *mpctest.TARGET)
    losses, _ = train(2, tmp_path / "two", *flags, model="digits-cnn")
    one = ("--accumulate-grad-batches", 2, *flags)
    expected, _ = train(1, tmp_path / "one", *one, model="digits-cnn")
    assert losses == pytest.approx(expected, rel=1e-5)


def find_ranks(folder):
    """The processes of mpc that save checkpoints in `folder`."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == bytes(mpctest.MPC) and bytes(folder) in words:
            found.append(int(process.name))
    return sorted(found)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_rank_ends_the_run_and_its_checkpoint_resumes(lost, tmp_path):
    folder = tmp_path / "run"
    endless = (
        *("train", MODEL, "--loss", "softmax_cross_entropy", *LOOP, "--batch-size", 16),
        *("--epochs", 1000000, "--checkpoint-every", 20, "--checkpoint-dir", folder),
        *mpctest.TARGET,
    )
    run = subprocess.Popen(
        [*mpirun_command(2), mpctest.MPC, *map(str, endless)],
        env=ENVIRONMENT,
        stderr=subprocess.DEVNULL,
    )
    try:
        # The newest checkpoint may be incomplete.
        while len(list(folder.glob("step-*"))) < 2 and run.poll() is None:
            time.sleep(0.01)
        ranks = find_ranks(folder)
        assert len(ranks) == 2
        os.kill(ranks[lost], signal.SIGKILL)
        assert run.wait(timeout=30) != 0
        assert not find_ranks(folder)
    finally:
        run.kill()
    flags = ("--checkpoint-dir", folder, "--resume", "auto", *mpctest.TARGET)
    losses, _ = train(3, tmp_path / "three", *flags, "--max-steps", 1000)
    assert 0 < len(losses) < 1000
