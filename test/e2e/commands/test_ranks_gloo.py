"""Ranks without MPI, as torchrun starts them, train as those of mpirun do.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

import mpctest
import test_ranks
from test_ranks import LOOP, MODEL, STEPS

RANK = 9  # exit code: another rank failed or never came
LIBRARY = mpctest.BUILD / "lib/libmpc_gloo.so"

pytestmark = pytest.mark.skipif(
    not LIBRARY.exists(), reason="mpc was built without libgloo-dev"
)


def free_port():
    """A MASTER_PORT that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(rank, count, port, launcher="torchrun"):
    """The variables of one rank, without those of a launcher around the test."""
    values = {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    if launcher == "torchrun":
        values |= {"RANK": rank, "WORLD_SIZE": count}
        values |= {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": count}
    else:
        values |= {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": count}
        values |= {"SLURM_LOCALID": rank, "SLURM_STEP_TASKS_PER_NODE": count}
        values |= {"SLURM_STEP_ID": 0, "SLURM_NODEID": 0}
    return os.environ | {name: str(value) for name, value in values.items()}


class Ranks:
    """The processes of a run. Leaves out the rank `absent`."""

    def __init__(self, count, *arguments, absent=None, launcher="torchrun", **more):
        port = free_port()
        self.processes = [
            subprocess.Popen(
                [mpctest.MPC, *map(str, arguments)],
                env=environment(rank, count, port, launcher) | more,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(count)
            if rank != absent
        ]

    def finish(self, timeout=120):
        """Returns the exit codes and the texts of stderr."""
        try:
            texts = [x.communicate(timeout=timeout)[1] for x in self.processes]
        finally:
            self.kill()
        return [x.returncode for x in self.processes], texts

    def kill(self):
        for process in self.processes:
            process.kill()


def start_alone(count, *arguments):
    codes, texts = Ranks(count, *arguments).finish()
    assert codes == [0] * count, texts
    return texts[0]


def start_by_torchrun(count, *arguments):
    process = subprocess.run(
        [*("torchrun", "--no-python", "--nproc-per-node", str(count)),
         *("--master-port", str(free_port())), mpctest.MPC, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    return process.stderr


STARTERS = [
    start_alone,
    pytest.param(
        start_by_torchrun,
        marks=pytest.mark.skipif(
            not shutil.which("torchrun"), reason="torchrun is not installed"
        ),
    ),
]


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
@pytest.mark.parametrize("start", STARTERS)
@pytest.mark.parametrize("count, precision", [(2, "32-true"), (3, "16-mixed")])
def test_ranks_train_as_those_of_mpirun_to_the_bit(start, count, precision, tmp_path):
    flags = ("--precision", precision, "--optimizer", "adamw", *STEPS, *mpctest.TARGET)
    expected, trained = test_ranks.train(count, tmp_path / "mpi", *flags)
    text = start(
        count,
        *("train", MODEL, "--loss", "softmax_cross_entropy", *LOOP, "--batch-size", 16),
        *("--metrics", tmp_path / "m.jsonl", "--output", tmp_path / "w.npz", *flags),
    )
    assert f"{count} ranks, connected by gloo" in text
    lines = mpctest.read_metrics(tmp_path / "m.jsonl")
    assert [x["loss"] for x in lines if x["event"] == "train"] == expected
    weights = dict(np.load(tmp_path / "w.npz"))
    assert test_ranks.largest_difference(weights, trained) == 0


def train_flags(*more):
    return (
        *("train", MODEL, "--loss", "softmax_cross_entropy", *LOOP, "--batch-size", 16),
        *(*mpctest.TARGET, *more),
    )


def test_ranks_of_srun_without_pmi_meet_at_the_master_address():
    codes, texts = Ranks(2, *train_flags(*STEPS), launcher="slurm").finish()
    assert codes == [0, 0], texts
    assert "2 ranks, connected by gloo" in texts[0]
    assert texts[1] == ""


@pytest.mark.parametrize("absent", [0, 1])
def test_a_rank_that_never_comes_is_an_error(absent):
    run = Ranks(3, *train_flags(*STEPS, "--rank-timeout", "2s"), absent=absent)
    codes, texts = run.finish(timeout=30)
    assert codes == [RANK, RANK]
    for text in texts:
        if absent == 0:
            assert "cannot reach rank 0 at MASTER_ADDR='localhost'" in text
        else:
            assert "rank 1 of 3 did not come within 2 s" in text


def test_a_missing_library_is_an_error():
    run = Ranks(2, *train_flags(*STEPS), MPC_GLOO_LIBRARY="libmpc-unheard-of.so")
    codes, texts = run.finish(timeout=30)
    assert codes == [RANK, RANK]
    assert "install mpc's package libmpc-gloo0" in texts[0]


@pytest.mark.parametrize("lost", [0, 2])
def test_a_killed_rank_ends_the_run_and_its_checkpoint_resumes(lost, tmp_path):
    folder = tmp_path / "run"
    checkpoints = ("--checkpoint-dir", folder)
    run = Ranks(
        3, *train_flags("--epochs", 1000000, "--checkpoint-every", 20, *checkpoints)
    )
    try:
        # The newest checkpoint may be incomplete.
        while len(list(folder.glob("step-*"))) < 2:
            assert all(x.poll() is None for x in run.processes)
            time.sleep(0.01)
        os.kill(run.processes[lost].pid, signal.SIGKILL)
        start = time.monotonic()
        codes, texts = run.finish(timeout=30)
    finally:
        run.kill()
    assert time.monotonic() - start < 30
    expected = [RANK] * 3
    expected[lost] = -signal.SIGKILL
    assert codes == expected
    # Rank 0 reports the loss, or all others do if rank 0 is lost.
    for rank in (1, 2) if lost == 0 else (0,):
        assert f"rank {lost} has ended" in texts[rank]
    codes, texts = Ranks(
        2, *train_flags(*checkpoints, "--resume", "auto", "--max-steps", 1000)
    ).finish()
    assert codes == [0, 0], texts


def test_ranks_on_emulated_gpus_train_as_one(tmp_path):
    """Gloo hands round the identifier of NCCL, which moves the gradients."""
    emulator = {
        "MPC_CUDA_LIBRARY_PATH": str(mpctest.BUILD / "test/emulator"),
        "MPC_EMULATOR_DEVICE": "sm_80,count=2",
    }
    arguments = (
        *("train", MODEL, "--loss", "softmax_cross_entropy", "--data", test_ranks.TRAIN),
        *("--device", "cuda", "--batch-size", 8, "--max-steps", 4),
    )
    ranks = Ranks(2, *arguments, "--metrics", tmp_path / "two.jsonl", **emulator)
    codes, texts = ranks.finish()
    assert codes == [0, 0], texts
    assert "2 ranks, connected by gloo and nccl\n" in texts[0]
    one = ("--accumulate-grad-batches", 2, "--metrics", tmp_path / "one.jsonl")
    mpctest.mpc_ok(*arguments, *one, env=os.environ | emulator)
    losses = [
        [x["loss"] for x in mpctest.read_metrics(tmp_path / name) if x["event"] == "train"]
        for name in ("two.jsonl", "one.jsonl")
    ]
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
