"""Signals and limits of schedulers, to a single rank and to several.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import signal
import subprocess
import time

import pytest

import mpctest
import test_ranks
import test_signals

USAGE = 2
FOREVER = 100_000_000

needs_mpirun = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun of Open MPI is not installed"
)


def read_end(folder):
    """The last event of a run."""
    event = mpctest.read_metrics(folder / "metrics.jsonl")[-1]
    assert event["event"] == "end"
    return event


def steps_saved(folder):
    """The steps of all complete checkpoints."""
    saved = (folder / "checkpoints").glob("step-*[0-9]")
    return sorted(int(path.name.removeprefix("step-")) for path in saved)


#===------------------------------------------------------------------------===#
# A single rank
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("name", ["USR1", "USR2", "SIGUSR1"])
def test_a_run_saves_and_ends_to_be_queued_again(name, tmp_path):
    number = getattr(signal, "SIG" + name.removeprefix("SIG"))
    process = test_signals.start(tmp_path, "--requeue-signal", name)
    process.send_signal(number)
    code, errors = test_signals.finish(process)
    assert code == 128 + number
    assert "saving after this batch, to be queued again" in errors
    end = read_end(tmp_path)
    assert (end["exit_code"], end["ended_by"]) == (128 + number, "signal")
    assert steps_saved(tmp_path) == [end["steps"]]


def test_sigusr1_only_saves_beside_another_requeue_signal(tmp_path):
    process = test_signals.start(tmp_path, "--requeue-signal", "USR2")
    process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 60
    while not steps_saved(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGUSR2)
    assert test_signals.finish(process)[0] == 140
    assert len(steps_saved(tmp_path)) == 2


def read_until(process, text):
    """Reads lines of standard error up to one with `text`."""
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"no line with {text}")


def test_sigterm_after_the_requeue_signal_changes_nothing(tmp_path):
    """A scheduler sends SIGTERM when the time is over, and the run still
    saves."""
    process = test_signals.start(tmp_path, "--requeue-signal", "USR1")
    process.send_signal(signal.SIGUSR1)
    read_until(process, "saving after this batch")
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)
    assert test_signals.finish(process)[0] == 138
    assert steps_saved(tmp_path) == [read_end(tmp_path)["steps"]]


@pytest.mark.parametrize(
    ("flags", "code"), [((), 0), (("--requeue-signal", "USR1"), 138)]
)
def test_a_signal_before_the_first_step_is_heeded(flags, code, tmp_path):
    """The run would lose a signal that comes while it compiles."""
    steps = 5000
    command = [
        *("train", mpctest.MODELS / "mlp.onnx", "--max-steps", steps),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--loss", "softmax_cross_entropy", "--batch-size", 32),
        *("--checkpoint-dir", tmp_path / "checkpoints"),
        *("--checkpoint-every", steps, "--threads", 1, *flags),
    ]
    process = subprocess.Popen(
        [mpctest.MPC, *map(str, command)], stderr=subprocess.PIPE, text=True
    )
    read_until(process, "is taken as constant")
    process.send_signal(signal.SIGUSR1)
    finished, errors = test_signals.finish(process)
    assert finished == code, errors
    if code == 0:
        assert len(steps_saved(tmp_path)) == 2


def train(folder, *flags):
    folder.mkdir(exist_ok=True)
    return mpctest.mpc(
        *("train", mpctest.MODELS / "mlp.onnx", "--batch-size", 32),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--loss", "softmax_cross_entropy"),
        *("--metrics", folder / "metrics.jsonl"),
        *flags,
    )


def test_a_run_without_time_for_its_steps_has_a_code_of_its_own(tmp_path):
    limited = ("--max-time", "1s", "--unfinished-code", 75)
    folder = ("--checkpoint-dir", tmp_path / "checkpoints", "--resume", "auto")
    process = train(tmp_path, *limited, *folder, "--max-steps", FOREVER)
    assert process.returncode == 75, process.stderr
    end = read_end(tmp_path)
    assert (end["exit_code"], end["ended_by"]) == (75, "max_time")
    assert steps_saved(tmp_path)[-1] == end["steps"]
    # The rest fits the time.
    rest = ("--max-steps", end["steps"] + 1, "--max-time", "1h", *limited[2:])
    process = train(tmp_path, *rest, *folder)
    assert process.returncode == 0, process.stderr
    assert read_end(tmp_path)["ended_by"] == "steps"


def test_without_the_flag_a_run_without_time_is_done(tmp_path):
    process = train(tmp_path, "--max-time", "1s", "--max-steps", FOREVER)
    assert process.returncode == 0, process.stderr
    assert read_end(tmp_path)["exit_code"] == 0


def test_a_failed_write_has_precedence(tmp_path):
    flags = ("--max-time", "1s", "--max-steps", FOREVER, "--unfinished-code", 75)
    process = train(tmp_path, *flags, "--output", "/dev/full")
    assert process.returncode == 5, process.stderr


#===------------------------------------------------------------------------===#
# Several ranks
#===------------------------------------------------------------------------===#


def launch(count, folder, *flags, launcher=()):
    """Starts a run on several ranks that would take hours."""
    command = [
        *test_ranks.mpirun_command(count),
        *launcher,
        *(mpctest.MPC, "train", mpctest.MODELS / "mlp.onnx", *test_ranks.LOOP),
        *("--loss", "softmax_cross_entropy", "--batch-size", 16),
        *("--max-steps", FOREVER, "--metrics", folder / "metrics.jsonl"),
        *("--checkpoint-dir", folder / "checkpoints", "--resume", "auto"),
        *("--checkpoint-every", FOREVER, *flags, *mpctest.TARGET),
    ]
    return subprocess.Popen(
        list(map(str, command)),
        env=test_ranks.ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )


def start(count, folder, *flags, launcher=()):
    """Starts a run on several ranks, and waits until it trains."""
    metrics = folder / "metrics.jsonl"
    lines = metrics.read_text().count("\n") if metrics.exists() else 0
    process = launch(count, folder, *flags, launcher=launcher)
    deadline = time.monotonic() + mpctest.TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        if metrics.exists() and metrics.read_text().count("\n") > lines + 5:
            return process
        time.sleep(0.01)
    raise AssertionError(process.communicate()[1])


def send(folder, number, rank):
    """Sends a signal to a rank. The processes start in the order of the ranks."""
    os.kill(test_ranks.find_ranks(folder / "checkpoints")[rank], number)


@needs_mpirun
@pytest.mark.parametrize("rank", [0, 1])
def test_all_ranks_save_when_any_is_asked_and_go_on(rank, tmp_path):
    process = start(2, tmp_path)
    try:
        send(tmp_path, signal.SIGUSR1, rank)
        deadline = time.monotonic() + 60
        while not steps_saved(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(steps_saved(tmp_path)) == 1
        time.sleep(0.5)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@needs_mpirun
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("flags", "number"),
    [(("--requeue-signal", "USR1"), signal.SIGUSR1), ((), signal.SIGTERM)],
)
def test_all_ranks_end_with_the_code_of_the_signal_to_one(flags, number, rank, tmp_path):
    process = start(2, tmp_path, *flags)
    send(tmp_path, number, rank)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    end = read_end(tmp_path)
    assert (end["exit_code"], end["ended_by"]) == (128 + number, "signal")
    assert steps_saved(tmp_path) == [end["steps"]]


@needs_mpirun
def test_mpirun_forwards_the_requeue_signal_and_the_run_resumes(tmp_path):
    flags = ("--requeue-signal", "USR1")
    process = start(2, tmp_path, *flags)
    process.send_signal(signal.SIGUSR1)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 138, errors
    first = read_end(tmp_path)["steps"]
    # mpirun also forwards SIGUSR2, and here three ranks go on.
    process = start(3, tmp_path, "--requeue-signal", "USR2")
    process.send_signal(signal.SIGUSR2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 140, errors
    assert steps_saved(tmp_path) == [first, read_end(tmp_path)["steps"]]


@needs_mpirun
def test_sigterm_to_mpirun_saves(tmp_path):
    """mpirun sends SIGTERM after a time, and kills the ranks after the same time
    again."""
    time_out = ("--mca", "odls_base_sigkill_timeout", "4")
    process = start(2, tmp_path, launcher=time_out)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    end = read_end(tmp_path)
    assert end["exit_code"] == 143, errors
    assert steps_saved(tmp_path) == [end["steps"]]


@needs_mpirun
def test_several_ranks_without_time_end_with_the_code_for_it(tmp_path):
    process = launch(2, tmp_path, "--max-time", "1s", "--unfinished-code", 75)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    assert read_end(tmp_path)["exit_code"] == 75


@needs_mpirun
def test_all_results_are_written_before_a_rank_ends(tmp_path, sample):
    """mpirun ends all ranks when a rank ends with another code than 0."""
    output = tmp_path / "trained.npz"
    for attempt in range(2 if sample else 5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        flags = ("--max-time", "1s", "--unfinished-code", 75, "--output", output)
        process = launch(2, folder, *flags)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 75, errors
        assert output.exists()
        output.unlink()
