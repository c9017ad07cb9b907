"""Weights are in memory as often as they must be: large models are trained on
machines that just hold them.

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

# 24 Mi parameters, 96 MiB.
ROWS, COLUMNS = 6144, 4096
WEIGHT_BYTES = ROWS * COLUMNS * 4
MIB = 1 << 20


def write_model(path, rows, columns, external):
    weights = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    model = mpctest.make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (np.float32, [1, rows])},
        {"y": (np.float32, [1, columns])},
        {"w": weights * np.float32(1e-9)},
    )
    where = {"save_as_external_data": True, "location": f"{path.stem}.data"}
    onnx.save(model, path, **where if external else {})
    return path


@pytest.fixture(scope="module", params=["external", "inside"])
def model(request, tmp_path_factory):
    """Weights in a file of their own, and in the model's."""
    return write_model(
        tmp_path_factory.mktemp("memory") / "large.onnx",
        *(ROWS, COLUMNS, request.param == "external"),
    )


# A process counts what its parent had when it was started: a small one starts
# mpc, says the most memory it had, and ends as it did.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def peak_bytes(*arguments):
    """The most memory a successful run of mpc had."""
    output = subprocess.run(
        [sys.executable, "-c", MEASURE, mpctest.MPC, *map(str, arguments)],
        stdout=subprocess.PIPE,
        timeout=mpctest.TIMEOUT,
        check=True,
    ).stdout
    return int(output.split()[-1]) * 1024


def test_compiling_needs_the_weights_once_or_twice(model, tmp_path):
    small = write_model(tmp_path / "small.onnx", 4, 4, external=False)
    base = peak_bytes("compile", small, "-o", tmp_path / "small.mpc")
    peak = peak_bytes("compile", model, "-o", tmp_path / "large.mpc")
    assert os.path.getsize(tmp_path / "large.mpc") > WEIGHT_BYTES
    ratio = (peak - base) / WEIGHT_BYTES
    # Parsing a file moves what is inside of it once.
    assert ratio <= (1.4 if model.with_suffix(".data").exists() else 2.2), ratio


def test_showing_a_stage_needs_no_text_of_the_weights(model, tmp_path):
    text = tmp_path / "large.mlir"
    peak = peak_bytes("compile", model, "--emit=import", "-o", text)
    assert text.stat().st_size < MIB
    assert peak <= 2.2 * WEIGHT_BYTES + 200 * MIB, peak / WEIGHT_BYTES


def train(model, folder, *flags):
    """A run of two steps: what it had in memory at most while it compiled and
    trained, and the first and the last event of its metrics."""
    data = folder / "data.npz"
    np.savez(
        data,
        x=np.ones((4, ROWS), np.float32),
        target=np.ones((4, COLUMNS), np.float32),
    )
    metrics = folder / "metrics.jsonl"
    peak = peak_bytes(
        *("train", model, "--data", data, "--loss", "mse"),
        *("--lr", "1e-6", "--max-steps", "2", "--metrics", metrics),
        *flags,
    )
    events = mpctest.read_metrics(metrics)
    return peak, events[0], events[-1]


def test_training_and_writing_need_little_beside_the_state(model, tmp_path):
    """No second copy of the weights while they are loaded, nor while they are
    written, whether they are in the model's file or in one of their own."""
    peak, start, end = train(
        *(model, tmp_path, "--optimizer", "adam"),
        *("--output", tmp_path / "trained.onnx"),
    )
    held = start["state_bytes"] + start["activation_bytes"]
    assert held >= 3 * WEIGHT_BYTES
    # A product packs its weights anew; the rest is code, and the data.
    assert peak - held <= 1.1 * WEIGHT_BYTES + 140 * MIB
    trained = onnx.load(tmp_path / "trained.onnx").graph.initializer[0]
    before = onnx.load(model).graph.initializer[0]
    difference = np.abs(
        onnx.numpy_helper.to_array(trained) - onnx.numpy_helper.to_array(before)
    )
    assert 0 < difference.max() < 1e-5
    assert start["state_bytes"] < end["peak_memory_bytes"] <= peak


def own_bytes(pid):
    """Memory of a process that is no page of a file."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    return 1024 * sum(
        int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")
    )


def resident_files(pid):
    """Memory of a process that is pages of files, such as code."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    return 1024 * int(fields["RssFile"].split()[0])


@pytest.mark.parametrize("output", ["w.safetensors", "w.onnx"])
def test_training_keeps_no_weights_but_its_state(model, tmp_path, output):
    data = tmp_path / "data.npz"
    np.savez(
        data,
        x=np.ones((4, ROWS), np.float32),
        target=np.ones((4, COLUMNS), np.float32),
    )
    metrics = tmp_path / "metrics.jsonl"
    process = subprocess.Popen(
        [
            *(mpctest.MPC, "train", model, "--data", data, "--loss", "mse"),
            *("--optimizer", "sgd", "--lr", "1e-6", "--max-steps", "100000"),
            *("--metrics", metrics, "--output", tmp_path / output),
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + mpctest.TIMEOUT
        while not metrics.exists() or metrics.read_text().count("\n") < 4:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        own, files = own_bytes(process.pid), resident_files(process.pid)
    finally:
        process.kill()
        process.wait()
    start = mpctest.read_metrics(metrics)[0]
    held = start["state_bytes"] + start["activation_bytes"]
    assert held >= WEIGHT_BYTES
    # The rest is code, libraries' own memory, and the data.
    assert own - held <= 0.5 * WEIGHT_BYTES, (own - held) / MIB
    # The compiler's code is some 90 MiB.
    assert files <= 40 * MIB, files / MIB


def test_targets_of_every_pixel_are_not_all_read_at_once(tmp_path):
    """Whether they are probabilities is seen in some of them: all of these are
    640 MiB as float64, and pages of their file 160."""
    samples, classes, side = 2048, 10, 64
    image = mpctest.make_model(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        {"x": (np.float32, ["N", 1, side, side])},
        {"y": (np.float32, ["N", classes, side, side])},
        {"w": np.ones((classes, 1, 1, 1), np.float32)},
    )
    onnx.save(image, tmp_path / "image.onnx")
    for name, channels in (("x", 1), ("target", classes)):
        np.lib.format.open_memmap(
            *(tmp_path / f"{name}.npy", "w+", np.float16),
            (samples, channels, side, side),
        ).flush()
    peak = peak_bytes(
        *("train", tmp_path / "image.onnx", "--loss", "cross_entropy@y:1"),
        *("--data", tmp_path / "x.npy", "--data", tmp_path / "target.npy"),
        *("--batch-size", 4, "--max-steps", 1),
    )
    assert peak <= 600 * MIB, peak / MIB


needs_limits = pytest.mark.skipif(
    b"libasan" in subprocess.run(["ldd", mpctest.MPC], capture_output=True).stdout,
    reason="a sanitizer takes all addresses there are",
)


def run_limited(mebibytes, *arguments):
    """mpc with at most so much address space."""
    script = 'ulimit -c 0 && ulimit -v "$0" && exec "$@"'
    return subprocess.run(
        ["sh", "-c", script, str(mebibytes * 1024), mpctest.MPC, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=mpctest.TIMEOUT,
    )


@pytest.fixture(scope="module")
def least():
    """MiB of address space without which libraries cannot be loaded. Compiling a
    small model may take no more than mpc --version, which runs out of it too."""
    mebibytes = 300
    while run_limited(mebibytes, "--version").returncode not in (0, 5):
        mebibytes += 2
    return mebibytes


def expect_error_or_success(limits, *arguments):
    """Under each limit of address space the command does what it was asked, or
    ends with a message and exit code 5; both occur, success last."""
    codes = []
    for mebibytes in limits:
        process = run_limited(mebibytes, *arguments)
        code, message = process.returncode, process.stderr
        # The C library ends the process itself where a thread's first
        # variable with a destructor has no memory.
        if b"Fatal glibc error" in message and b"out of memory" in message:
            codes.append(5)
            continue
        # Threads that cannot start, too: a thread's stack is memory.
        assert code in (0, 5), (mebibytes, code, message)
        assert code == 0 or message.count(b"error: ") == 1, message
        assert b"crashed" not in message, message
        codes.append(code)
    assert codes[-1] == 0 and 5 in codes, codes


@needs_limits
@pytest.mark.parametrize("threads", [1, 3])
def test_memory_that_runs_out_while_compiling_is_an_error(
    tmp_path, least, threads, sample
):
    """On whatever thread that turns out."""
    expect_error_or_success(
        range(least, least + 300, 27 if sample else 9),
        *("compile", mpctest.MODELS / "mlp.onnx"),
        *("--loss", "softmax_cross_entropy", "--batch-size", "32"),
        *("--kernel-cache", "none", "--threads", str(threads)),
        *("-o", tmp_path / "t.mpc"),
    )


@needs_limits
@pytest.mark.parametrize("command", ["train", "eval"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_memory_that_runs_out_while_running_is_an_error(
    tmp_path, least, command, precision, sample
):
    """Also while oneDNN, which does not look, prepares its kernels."""
    artifact = tmp_path / "t.mpc"
    mpctest.mpc_ok(
        *("compile", mpctest.MODELS / "digits-cnn.onnx", "-o", artifact),
        *("--loss", "softmax_cross_entropy", "--batch-size", "32"),
        *("--precision", precision),
    )
    few, many = (6, 33) if sample else (2, 11)
    limits = [*range(least, least + 30, few)]
    limits += range(least + 30, least + 200, many)
    limits.append(least + 1500)  # the allocator reserves more for every thread
    data = mpctest.DIGITS / "digits-test.npz"
    more = ["--max-steps", "3"] if command == "train" else []
    expect_error_or_success(
        limits, command, artifact, "--data", data, "--threads", "2", *more
    )
