"""mpc keeps no needless copies of the weights: large models train on machines
that just hold them.

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
    """Returns the model with weights in a separate file, and with weights
    inside."""
    return write_model(
        tmp_path_factory.mktemp("memory") / "large.onnx",
        *(ROWS, COLUMNS, request.param == "external"),
    )


# A child starts with its parent's memory counted. A small process therefore
# starts mpc, reports its peak memory, and ends with its exit code.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def peak_bytes(*arguments):
    """Returns the peak memory of a successful run of mpc."""
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
    # Parsing a model file copies its inline weights once.
    assert ratio <= (1.4 if model.with_suffix(".data").exists() else 2.2), ratio


def test_showing_a_stage_needs_no_text_of_the_weights(model, tmp_path):
    text = tmp_path / "large.mlir"
    peak = peak_bytes("compile", model, "--emit=import", "-o", text)
    assert text.stat().st_size < MIB
    assert peak <= 2.2 * WEIGHT_BYTES + 200 * MIB, peak / WEIGHT_BYTES


def train(model, folder, *flags):
    """Runs two steps. Returns the peak memory of compiling and training, and
    the first and last event of the metrics."""
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
    """Loading and writing make no second copy of the weights, whether these are
    in the model's file or in a separate file."""
    peak, start, end = train(
        *(model, tmp_path, "--optimizer", "adam"),
        *("--output", tmp_path / "trained.onnx"),
    )
    held = start["state_bytes"] + start["activation_bytes"]
    assert held >= 3 * WEIGHT_BYTES
    # Packing a product's weights copies them once. The rest is code and data.
    assert peak - held <= 1.1 * WEIGHT_BYTES + 140 * MIB
    trained = onnx.load(tmp_path / "trained.onnx").graph.initializer[0]
    before = onnx.load(model).graph.initializer[0]
    difference = np.abs(
        onnx.numpy_helper.to_array(trained) - onnx.numpy_helper.to_array(before)
    )
    assert 0 < difference.max() < 1e-5
    assert start["state_bytes"] < end["peak_memory_bytes"] <= peak


def own_bytes(pid):
    """Returns a process's memory outside file pages."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    return 1024 * sum(
        int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")
    )


def resident_files(pid):
    """Returns a process's resident file pages, such as code."""
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
    # The rest is libraries' own memory and data.
    assert own - held <= 0.5 * WEIGHT_BYTES, (own - held) / MIB
    # The compiler's code, about 90 MiB, is not resident.
    assert files <= 40 * MIB, files / MIB


def test_targets_of_every_pixel_are_not_all_read_at_once(tmp_path):
    """mpc samples some targets to see if they are probabilities. All targets
    take 640 MiB as float64, and 160 MiB as pages of their file."""
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
    """Runs mpc with a limit on the address space."""
    script = 'ulimit -c 0 && ulimit -v "$0" && exec "$@"'
    return subprocess.run(
        ["sh", "-c", script, str(mebibytes * 1024), mpctest.MPC, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=mpctest.TIMEOUT,
    )


@pytest.fixture(scope="module")
def least():
    """Returns the smallest address space, in MiB, in which libraries load. Even
    mpc --version may run out of memory there: compiling a small model may need
    no more."""
    mebibytes = 100
    while run_limited(mebibytes, "--version").returncode not in (0, 5):
        mebibytes += 2
    return mebibytes


def expect_error_or_success(limits, *arguments):
    """Under each limit of address space, the command succeeds or ends with a
    message and exit code 5. Both occur, success last."""
    codes = []
    for mebibytes in limits:
        process = run_limited(mebibytes, *arguments)
        code, message = process.returncode, process.stderr
        # The C library aborts the process if a thread's first variable with a
        # destructor finds no memory.
        if b"Fatal glibc error" in message and b"out of memory" in message:
            codes.append(5)
            continue
        # Includes threads that cannot start: a thread's stack is memory.
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
    """The allocation may fail on any thread."""
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
    """Covers oneDNN's preparation of kernels, which does not check allocations."""
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
