"""A run that is ended from outside saves its state, reports that, and ends.

SPDX-License-Identifier: Apache-2.0
"""

import fcntl
import os
import resource
import signal
import subprocess
import time

import numpy as np
import pytest

import mpctest

IO = 5
STEPS = 100000


def start(
    folder,
    *flags,
    data=("--data", mpctest.DIGITS / "digits-train.npz"),
    **options,
):
    """Starts a run that would take minutes, and waits until it trains."""
    metrics = folder / "metrics.jsonl"
    command = [
        *("train", mpctest.MODELS / "mlp.onnx", *data),
        *("--loss", "softmax_cross_entropy", "--batch-size", "32"),
        *("--max-steps", STEPS, "--metrics", metrics),
        *("--checkpoint-dir", folder / "checkpoints"),
        *("--checkpoint-every", STEPS),
        *flags,
    ]
    process = subprocess.Popen(
        [mpctest.MPC, *map(str, command)],
        **{"stderr": subprocess.PIPE, "text": True, **options},
    )
    deadline = time.monotonic() + mpctest.TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        if metrics.exists() and metrics.read_text().count("\n") > 5:
            return process
        time.sleep(0.01)
    raise AssertionError(process.communicate()[1])


def finish(process):
    _, errors = process.communicate(timeout=mpctest.TIMEOUT)
    return process.returncode, errors


def has_checkpoint(folder):
    return any((folder / "checkpoints").glob("step-*/train.json"))


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, signal.SIGTERM, signal.SIGXCPU]
)
def test_a_run_saves_when_it_is_told_to_end(number, tmp_path):
    process = start(tmp_path)
    process.send_signal(number)
    code, errors = finish(process)
    assert code == 128 + number
    assert has_checkpoint(tmp_path)
    assert "stopping after this batch; a second signal aborts" in errors


def test_ctrl_c_pressed_twice_at_once_is_one(tmp_path):
    process = start(tmp_path)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    code, errors = finish(process)
    assert code == 130
    assert has_checkpoint(tmp_path)
    assert "press Ctrl-C again to abort" in errors


def test_hangups_are_ignored_where_the_parent_ignores_them(tmp_path):
    """`nohup` ignores SIGHUP this way."""
    process = start(
        tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 143


def test_a_limit_of_file_sizes_is_a_failed_write(tmp_path):
    limit = 20000
    command = [
        *(mpctest.MPC, "train", mpctest.MODELS / "mlp.onnx"),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--loss", "softmax_cross_entropy", "--batch-size", "32"),
        *("--max-steps", "3", "--checkpoint-dir", tmp_path / "checkpoints"),
    ]
    # The run's artifact is a file too, and smaller for a compiled model.
    process = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        check=False,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, limit)
        ),
    )
    assert process.returncode == IO, process.stderr
    assert "File too large" in process.stderr


def test_a_crash_waits_for_no_symbolizer(tmp_path):
    """This symbolizer would take a minute."""
    hang = tmp_path / "llvm-symbolizer"
    hang.write_text("#!/bin/sh\nexec sleep 60\n")
    hang.chmod(0o755)
    process = start(
        tmp_path, env={**os.environ, "LLVM_SYMBOLIZER_PATH": str(hang)}
    )
    process.send_signal(signal.SIGSEGV)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGSEGV


def test_a_limit_of_processor_time_ends_a_run_after_a_save(tmp_path):
    """The system then sends the signal every second."""
    process = start(
        tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (2, 60)),
    )
    code, errors = finish(process)
    assert code == 128 + signal.SIGXCPU
    assert has_checkpoint(tmp_path)
    assert "the limit of processor time is near" in errors


def test_a_run_saves_when_it_is_asked_and_goes_on(tmp_path):
    process = start(tmp_path)
    process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 60
    while not has_checkpoint(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert has_checkpoint(tmp_path)
    time.sleep(0.3)  # for steps after the save
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 143
    assert len([*(tmp_path / "checkpoints").glob("step-*")]) == 2


def test_whoever_stops_reading_stops_no_run(tmp_path):
    """The run drops its progress output and ends when told to."""
    reader, writer = os.pipe()
    process = start(tmp_path, "--log-every", "0", stderr=writer)
    metrics = tmp_path / "metrics.jsonl"
    try:
        while len(os.read(reader, 1)) == 0:
            time.sleep(0.01)
        time.sleep(1)  # by now the pipe is full
        before = metrics.stat().st_size
        time.sleep(0.5)
        assert metrics.stat().st_size > before, "the run stands still"
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    finally:
        process.kill()
        os.close(reader)
        os.close(writer)
    assert process.returncode == 143
    assert has_checkpoint(tmp_path)


def test_the_folder_of_checkpoints_takes_its_lock_along(tmp_path):
    """The run creates the folder again and locks it again, so that no second
    run enters."""
    process = start(tmp_path)
    folder = tmp_path / "checkpoints"
    folder.rename(tmp_path / "gone")
    process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 60
    while not has_checkpoint(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    second = mpctest.mpc(
        *("train", mpctest.MODELS / "mlp.onnx", "--max-steps", "10"),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--loss", "softmax_cross_entropy", "--batch-size", "32"),
        *("--checkpoint-dir", folder, "--resume", "auto"),
    )
    process.kill()
    process.communicate()
    assert second.returncode == IO, second.stderr
    assert "in use by another training run" in second.stderr


def start_without_reader(folder):
    """Starts a run whose standard error accepts one more byte."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    process = start(folder, "--quiet", stderr=writer)
    os.write(writer, b"." * 4095)
    return process, (reader, writer)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGSEGV, -signal.SIGSEGV), (signal.SIGTERM, 143)],
)
def test_a_signal_waits_for_no_reader(number, code, tmp_path):
    process, pipe = start_without_reader(tmp_path)
    process.send_signal(number)
    try:
        process.wait(timeout=60)
    finally:
        process.kill()
        for end in pipe:
            os.close(end)
    assert process.returncode == code
    assert has_checkpoint(tmp_path) == (number == signal.SIGTERM)


def test_data_that_becomes_shorter_is_an_error(tmp_path):
    """Files that are read in place end where they were truncated."""
    samples = 200_000
    images = np.lib.format.open_memmap(
        tmp_path / "image.npy", "w+", np.uint8, (samples, 1, 8, 8)
    )
    images.flush()
    np.save(tmp_path / "target.npy", np.zeros(samples, np.uint8))
    process = start(
        tmp_path,
        *("--data", tmp_path / "image.npy", "--data", tmp_path / "target.npy"),
        data=(),
    )
    os.truncate(tmp_path / "image.npy", 4096)
    code, errors = finish(process)
    assert code == IO
    named = f"error: {tmp_path / 'image.npy'}: a file in use was cut short"
    assert named in errors
