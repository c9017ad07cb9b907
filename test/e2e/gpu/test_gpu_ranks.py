"""Several ranks train on emulated GPUs as one rank does.

mpirun starts the ranks. Each has an emulated GPU of its own. The emulated NCCL
moves the gradients between the processes, and checks every call.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

import mpctest
from test_gpu import EMULATOR

RANK_LOST = 9
DATA = mpctest.DIGITS / "digits-train.npz"
STEPS = 6

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun of Open MPI is not installed"
)


def environment(**more):
    """Two emulated GPUs, with a log of each process. Open MPI asks root twice."""
    return {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "MPC_CUDA_LIBRARY_PATH": str(EMULATOR),
        "MPC_EMULATOR_DEVICE": "sm_80,count=2",
        **more,
    }


def command(count, *arguments, logs=None):
    """A command on `count` ranks. With `logs`, each rank writes its calls of
    the emulated libraries to a file there."""
    start = ["mpirun", "--oversubscribe", "-n", str(count)]
    if logs:
        script = f'MPC_EMULATOR_LOG={logs}/calls-$OMPI_COMM_WORLD_RANK exec "$@"'
        start += ["sh", "-c", script, "sh"]
    return [*start, str(mpctest.MPC), *map(str, arguments)]


def run(count, folder, *arguments, **variables):
    return subprocess.run(
        command(count, *arguments, logs=folder),
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(**variables),
    )


def write_samples(folder, scale=None):
    """Writes samples, and perhaps multiplies the sample that a rank takes at
    step 3 by a number."""
    with np.load(DATA) as arrays:
        samples = {name: arrays[name][:96].copy() for name in ("image", "target")}
    if scale:
        # Step 3 of two ranks, eight samples each, begins at sample 48.
        samples["image"] = samples["image"].astype(np.float32)
        samples["image"][56 + 1] *= scale
    path = folder / "train.npz"
    np.savez(path, **samples)
    return path


def flags(folder, precision, samples):
    return (
        *("train", mpctest.MODELS / "mlp.onnx", "--data", samples, "--no-shuffle"),
        *("--loss", "softmax_cross_entropy", "--device", "cuda", "--optimizer", "sgd"),
        *("--batch-size", 8, "--max-steps", STEPS, "--precision", precision),
        *("--metrics", folder / "m.jsonl", "--output", folder / "w.npz"),
    )


def train(count, folder, precision, samples, *more):
    """Returns the events of the steps and the trained weights."""
    folder.mkdir()
    process = run(count, folder, *flags(folder, precision, samples), *more)
    assert process.returncode == 0, process.stderr
    logs = sorted(folder.glob("calls-*"))
    assert len(logs) == count
    assert not any("fault" in log.read_text() for log in logs)
    lines = mpctest.read_metrics(folder / "m.jsonl")
    events = [line for line in lines if line["event"] == "train"]
    assert len(events) == STEPS
    return events, dict(np.load(folder / "w.npz"))


def calls(folder, rank):
    lines = (folder / f"calls-{rank}").read_text().splitlines()
    return [line.split("(")[0] for line in lines if "(" in line]


def losses(events):
    return [event["loss"] for event in events]


def assert_equal_weights(weights, expected, tolerance):
    assert weights.keys() == expected.keys()
    for name, weight in expected.items():
        np.testing.assert_allclose(weights[name], weight, atol=tolerance, rtol=0)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_two_ranks_train_as_one_with_their_batches(precision, tmp_path):
    samples = write_samples(tmp_path)
    events, weights = train(2, tmp_path / "two", precision, samples)
    single, expected = train(
        1, tmp_path / "one", precision, samples, "--accumulate-grad-batches", 2
    )
    assert losses(events) == pytest.approx(losses(single), rel=1e-5)
    assert_equal_weights(weights, expected, 1e-5)
    # The gradients stay on the GPUs: one step runs eagerly, one is recorded,
    # and the others are launches of the graph. Other functions have graphs too.
    for rank in range(2):
        names = calls(tmp_path / "two", rank)
        assert names.count("ncclAllReduce") == 2
        assert names.count("cuGraphLaunch") >= STEPS - 1
        assert names.count("ncclCommDestroy") == 1
    assert "ncclGetVersion" not in calls(tmp_path / "one", 0)
    # All gradients travel once each way, beside some numbers of the host.
    sent = sum(weight.nbytes for weight in weights.values())
    assert sent <= events[-1]["wire_bytes"] <= sent + 2000
    # Negative control: one rank without the other's batches.
    alone, _ = train(1, tmp_path / "alone", precision, samples)
    assert losses(alone)[1:] != pytest.approx(losses(single)[1:], rel=1e-3)


def test_an_overflow_on_one_rank_skips_the_step_on_both(tmp_path):
    samples = write_samples(tmp_path, scale=1e6)
    events, weights = train(2, tmp_path / "two", "16-mixed", samples)
    single, expected = train(
        1, tmp_path / "one", "16-mixed", samples, "--accumulate-grad-batches", 2
    )
    skipped = [event["skipped"] for event in events]
    assert skipped == [event["skipped"] for event in single]
    assert skipped == [False, False, False, True, False, False]
    scales = [event["loss_scale"] for event in events]
    assert scales == [event["loss_scale"] for event in single]
    assert scales[-1] < scales[0]
    assert_equal_weights(weights, expected, 1e-5)


def test_a_missing_library_is_told_once_by_its_rank(tmp_path):
    samples = write_samples(tmp_path)
    script = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then export MPC_EMULATOR_FAULT=ncclGetVersion=1; fi; exec "$@"'
    words = command(2, *flags(tmp_path, "32-true", samples))
    place = words.index(str(mpctest.MPC))
    words[place:place] = ["sh", "-c", script, "sh"]
    process = subprocess.run(
        words, capture_output=True, text=True, timeout=120, env=environment()
    )
    assert process.returncode != 0
    assert "rank 1: '" in process.stderr
    assert "libnccl.so.2' does not tell its version" in process.stderr


def test_ranks_on_different_devices_are_refused(tmp_path):
    samples = write_samples(tmp_path)
    script = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec "$@" --device cpu; fi; exec "$@" --device cuda'
    words = command(
        *(2, "train", mpctest.MODELS / "mlp.onnx", "--data", samples),
        *("--loss", "softmax_cross_entropy", "--batch-size", 8, "--max-steps", 2),
    )
    place = words.index(str(mpctest.MPC))
    words[place:place] = ["sh", "-c", script, "sh"]
    process = subprocess.run(
        words, capture_output=True, text=True, timeout=120, env=environment()
    )
    assert process.returncode != 0
    assert "rank 0 trains on a GPU, and rank 1 on a CPU" in process.stderr


def find_processes(folder):
    """The processes of mpc whose arguments name the folder, by their rank."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue
        if words[0] == bytes(mpctest.MPC) and bytes(folder) in b" ".join(words):
            rank = [v for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
            found[int(rank[0].split(b"=")[1])] = int(entry)
    return found


def test_a_rank_that_stops_ends_the_run_with_its_cause(tmp_path):
    """The stopped process keeps its connections, so only the time limit of the
    other rank ends the wait."""
    samples = write_samples(tmp_path)
    words = command(
        2,
        *flags(tmp_path, "32-true", samples),
        *("--max-steps", 100000, "--rank-timeout", "2s"),
    )
    process = subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env=environment()
    )
    ranks = {}
    try:
        while not (tmp_path / "m.jsonl").exists() or not ranks:
            assert process.poll() is None
            time.sleep(0.05)
            ranks = find_processes(tmp_path)
        os.kill(ranks[1], signal.SIGSTOP)
        # mpirun ends the ranks after the first failure.
        _, errors = process.communicate(timeout=60)
    finally:
        for rank in ranks.values():
            try:
                os.kill(rank, signal.SIGCONT)
            except ProcessLookupError:
                pass
        process.kill()
    assert process.returncode == RANK_LOST, errors
    assert "rank 0 of 2" in errors
    assert "--rank-timeout sets the time" in errors
