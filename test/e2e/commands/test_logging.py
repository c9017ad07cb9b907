"""Checks the progress output of `mpc train` and its metrics files: JSON lines,
tables, and TensorBoard events, which the test decodes.

SPDX-License-Identifier: Apache-2.0
"""

import csv
import fcntl
import gzip
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

MLP = mpctest.MODELS / "mlp.onnx"
TRAIN = mpctest.DIGITS / "digits-train.npz"
HELD = mpctest.DIGITS / "digits-test.npz"
# An epoch has 44 steps.
COMMON = (
    *("train", MLP, "--data", TRAIN, "--loss", "softmax_cross_entropy"),
    *("--batch-size", 32, *mpctest.TARGET),
)
STEP = re.compile(
    r"step (\d+)/(\d+)  epoch (\d+)/(\d+)  loss ([\d.]+)  lr ([\d.e-]+)"
    r"(  loss scale \S+  skipped \d+)?  \d+ samples/s  [\d.]+ ms/step(  ETA \d.*)?"
)
EPOCH = re.compile(
    r"epoch (\d+)/(\d+) done  step (\d+)/\d+  loss ([\d.]+)  .*  took \d.*"
)


def lines_of(pattern, process):
    matches = map(pattern.fullmatch, process.stderr.splitlines())
    return [match for match in matches if match]


#
# Lines
#


def test_a_short_run_has_a_line_at_every_tenth_and_one_an_epoch(tmp_path):
    process = mpctest.mpc_ok(*COMMON, "--epochs", 3, "--output", tmp_path / "o.npz")
    steps = [int(match[1]) for match in lines_of(STEP, process)]
    epochs = [(int(match[1]), int(match[3])) for match in lines_of(EPOCH, process)]
    # A tenth of 132 steps is 13 steps. An epoch's line counts as one.
    assert steps == [13, 26, 39, 57, 70, 83, 101, 114, 127]
    assert epochs == [(1, 44), (2, 88), (3, 132)]
    assert "\x1b" not in process.stderr and "\r" not in process.stderr


def test_a_line_has_the_mean_since_the_line_before(tmp_path):
    metrics = tmp_path / "m.jsonl"
    process = mpctest.mpc_ok(*COMMON, "--max-steps", 100, "--metrics", metrics)
    losses = mpctest.losses(mpctest.read_metrics(metrics))
    before = 0
    lines = re.findall(r"step (\d+)/100  .*?loss ([\d.]+)", process.stderr)
    assert len(lines) == 12
    for step, loss in lines:
        # Values at the end of an epoch are means over the whole epoch.
        begin = before if int(step) % 44 else int(step) - 44
        part = losses[begin : int(step)]
        assert float(loss) == pytest.approx(sum(part) / len(part), rel=1e-5)
        before = int(step)


def test_every_zero_seconds_is_every_step():
    process = mpctest.mpc_ok(*COMMON, "--max-steps", 43, "--log-every", 0)
    assert len(lines_of(STEP, process)) == 43


def test_loss_scales_are_readable():
    process = mpctest.mpc_ok(*COMMON, "--max-steps", 3, "--precision", "16-mixed")
    assert "  loss scale 65536  skipped 0  " in process.stderr


def test_quiet_leaves_warnings_and_the_summary(tmp_path):
    process = mpctest.mpc_ok(
        *(*COMMON, "--epochs", 1, "--quiet", "--val-data", HELD),
        *("--checkpoint-dir", tmp_path / "c", "--weights", MLP),
    )
    assert process.stderr == ""
    assert re.match(r"44 steps, 1 epoch, 1408 samples: loss ", process.stdout)
    process = mpctest.mpc_ok(*COMMON, "--max-steps", 1, "--quiet")
    assert process.stderr == (
        "warning: without --output or --checkpoint-dir the trained weights are lost\n"
    )


def test_verbose_says_how_it_was_compiled(tmp_path):
    flags = (*COMMON, "--max-steps", 1, "--kernel-cache", tmp_path)
    for kept in ("0", "[1-9]\\d*"):
        process = mpctest.mpc_ok(*flags, "--verbose")
        assert re.search(
            r"read data in [\d.]+ s\ncompiled in [\d.]+ s: import [\d.]+, recognize [\d.]+, .*, kernels "
            rf"[\d.]+; {kept} of \d+ kernels from the cache\n",
            process.stderr,
        )
        assert re.search(r"function step: .*generated kernel", process.stderr)
    assert "compiled in" not in mpctest.mpc_ok(*flags).stderr


@pytest.mark.parametrize("other", (("--verbose",), ("--log-every", 5)))
def test_quiet_goes_with_nothing_that_is_said(other):
    process = mpctest.mpc(*COMMON, "--quiet", *other)
    assert process.returncode == 2
    assert "--quiet" in process.stderr and other[0] in process.stderr


#
# Files
#


def test_standard_output_has_metrics_alone():
    process = mpctest.mpc_ok(*COMMON, "--max-steps", 3, "--metrics", "-")
    events = [json.loads(line)["event"] for line in process.stdout.splitlines()]
    assert events == ["start", "train", "train", "train", "end"]
    assert "3 steps, 0 epochs, 96 samples: loss" in process.stderr


def test_a_table_has_what_the_lines_have(tmp_path):
    flags = (*COMMON, "--epochs", 1, "--val-data", HELD, "--metric", "f1")
    flags = (*flags, "--precision", "16-mixed", "--gradient-clip-val", 1)
    for name in ("m.jsonl", "m.csv"):
        mpctest.mpc_ok(*flags, "--metrics", tmp_path / name)
    events = mpctest.read_metrics(tmp_path / "m.jsonl")
    events = [event for event in events if event["event"] in ("train", "eval")]
    with open(tmp_path / "m.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(events) == 45
    for row, event in zip(rows, events):
        # Every value of an event has a column.
        assert not event.keys() - row.keys()
        for column, text in row.items():
            value = event.get(column)
            if column == "step_ms":
                assert (text == "") == (value is None)
            elif isinstance(value, (float, int)) and not isinstance(value, bool):
                assert float(text) == value
            else:
                words = {None: "", True: "true", False: "false"}
                assert text == words.get(value, value)


#
# TensorBoard
#


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Returns the messages of the complete records in a TFRecord file."""
    at = 0
    while at + 16 <= len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        if at + 16 + size > len(data):
            return
        message = data[at + 12 : at + 12 + size]
        assert struct.unpack_from("<I", data, at + 8) == (masked(data[at : at + 8]),)
        assert struct.unpack_from("<I", data, at + 12 + size) == (masked(message),)
        yield message
        at += 16 + size


def fields(message):
    """Yields (number, value) for each field of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(tag & 7) or varint()
        value, at = message[at : at + size], at + size
        formats = {1: "<d", 5: "<f"}
        if tag & 7 in formats:
            (value,) = struct.unpack(formats[tag & 7], value)
        yield tag >> 3, value


def scalars(path):
    """Returns {tag: {step: value}} of an event file."""
    found = {}
    for message in records(path.read_bytes()):
        event = dict(fields(message))
        for _, entry in fields(event.get(5, b"")):
            value = dict(fields(entry))
            found.setdefault(value[1].decode(), {})[event[2]] = value[2]
    return found


def test_the_decoder_knows_the_published_checksum():
    assert crc32c(b"123456789") == 0xE3069283


def test_tensorboard_events_are_the_metrics(tmp_path):
    mpctest.mpc_ok(
        *(*COMMON, "--epochs", 2, "--val-data", HELD, "--metric", "f1"),
        *("--precision", "16-mixed", "--gradient-clip-val", 1),
        *("--metrics", tmp_path / "m.jsonl", "--tensorboard", tmp_path / "tb"),
    )
    (file,) = (tmp_path / "tb").iterdir()
    assert ".tfevents." in file.name
    first = dict(fields(next(records(file.read_bytes()))))
    assert first[3] == b"brain.Event:2"
    found = scalars(file)
    events = mpctest.read_metrics(tmp_path / "m.jsonl")
    for event, names in {
        "train": ("loss", "lr", "loss_scale", "grad_norm", "step_ms"),
        "eval": ("eval_loss", "eval_accuracy", "eval_f1"),
    }.items():
        for name in names:
            expected = {e["step"]: e[name] for e in events if e["event"] == event}
            tag = f"{event}/{name.replace('eval_', '')}"
            assert found[tag] == pytest.approx(expected, rel=1e-6)


def test_a_resumed_run_adds_a_file_of_events(tmp_path):
    flags = (*COMMON, "--checkpoint-dir", tmp_path / "c", "--tensorboard", tmp_path)
    mpctest.mpc_ok(*flags, "--max-steps", 5)
    process = mpctest.mpc(*flags[:-4], "--max-steps", 5, *flags[-2:])
    assert process.returncode == 2 and "has the events of an earlier" in process.stderr
    mpctest.mpc_ok(*flags, "--max-steps", 8, "--resume", "auto")
    files = sorted(tmp_path.glob("events.*"))
    steps = sorted(tuple(scalars(file)["train/loss"]) for file in files)
    assert steps == [(1, 2, 3, 4, 5), (6, 7, 8)]


def test_a_killed_run_leaves_a_readable_file(tmp_path):
    command = map(str, (*COMMON, "--max-steps", 10**7, "--tensorboard", tmp_path))
    with subprocess.Popen(
        [mpctest.MPC, *command], stderr=subprocess.PIPE, text=True
    ) as process:
        while "step " not in process.stderr.readline():
            pass
        while not any(f.stat().st_size > 10000 for f in tmp_path.iterdir()):
            pass
        process.send_signal(signal.SIGKILL)
    (file,) = tmp_path.iterdir()
    steps = list(scalars(file)["train/loss"])
    assert len(steps) > 20 and steps == list(range(1, len(steps) + 1))


#
# Terminals
#


def on_terminal(*command, columns, kind="xterm"):
    """Returns the output of mpc on a terminal of `columns` columns."""
    try:
        main, side = pty.openpty()
    except OSError:
        pytest.skip("there are no terminals here")
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [mpctest.MPC, *map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=side,
        env={**os.environ, "TERM": kind},
    ) as process:
        os.close(side)
        text = b""
        while True:
            try:
                text += os.read(main, 65536)
            except OSError:  # the other side is closed
                break
    os.close(main)
    assert process.returncode == 0
    return text.decode().replace("\r\n", "\n")


def test_a_terminal_has_one_line_that_changes_and_fits():
    text = on_terminal(*COMMON, "--max-steps", 30000, columns=60)
    lines = re.findall(r"\r\x1b\[K(step [^\r\n]*)", text)
    assert len(lines) > 2
    assert all(len(line) <= 59 for line in lines)
    # The final line of an epoch stays complete. With many epochs, at most one
    # line a second.
    epochs = re.findall(r"(?:\A|\n|\x1b\[K)epoch \d+/682 done  step .* took .*\n", text)
    assert len(epochs) < 100
    assert text.endswith("\x1b[K") or text.endswith("\n")


def test_the_line_of_an_epoch_stays_on_a_terminal():
    text = on_terminal(*COMMON, "--epochs", 2, columns=60)
    for epoch in "12":
        assert re.search(rf"(\n|\x1b\[K)epoch {epoch}/2 done  step .* took .*\n", text)


def test_a_dumb_terminal_has_plain_lines():
    text = on_terminal(*COMMON, "--max-steps", 20, columns=60, kind="dumb")
    assert "\x1b" not in text and "\r" not in text
    assert "\nstep 10/20  epoch 1/1  loss " in text


#
# Notes
#


def test_what_holds_for_every_epoch_is_said_once(tmp_path):
    """The squares of the targets overflow float32, in the evaluation only."""
    model = mpctest.make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (np.float32, ["N", 3])},
        {"y": (np.float32, ["N", 2])},
        {"w": np.ones((3, 2), np.float32)},
    )
    onnx.save(model, tmp_path / "m.onnx")
    for name, value in (("d", 1), ("v", 1e30)):
        target = np.full((16, 2), value, np.float32)
        np.savez(tmp_path / f"{name}.npz", x=np.ones((16, 3)), target=target)
    process = mpctest.mpc(
        *("train", tmp_path / "m.onnx", "--data", tmp_path / "d.npz"),
        *("--val-data", tmp_path / "v.npz", "--loss", "mse"),
        *("--batch-size", 8, "--epochs", 3, *mpctest.TARGET),
        *("--output", tmp_path / "t.onnx"),
    )
    # The model is written, but the run is no success.
    assert process.returncode == 7, process.stderr
    failure = "the loss of the last evaluation is not finite, found inf"
    assert failure in process.stderr and (tmp_path / "t.onnx").exists()
    assert process.stderr.count("loss inf on 16 samples") == 3
    warning = "warning: the loss of the evaluation is not finite\n"
    assert process.stderr.count(warning) == 1


@pytest.mark.parametrize("quiet", [False, True])
def test_a_line_says_what_is_read_if_that_takes_long(quiet, tmp_path):
    """A stop of the process stands for a slow disk: it lets a second pass while
    a gzip file is unpacked."""
    data = tmp_path / "long.npy.gz"
    data.write_bytes(gzip.compress(bytes(1 << 24)) * 12)
    command = [mpctest.MPC, "train", MLP, "--loss", "cross_entropy", "--data", data]
    process = subprocess.Popen(
        command + ["--quiet"] * quiet, stderr=subprocess.PIPE, text=True
    )
    # The second thread waits for the second to pass.
    deadline = time.monotonic() + (0.2 if quiet else 60)
    while (
        len(os.listdir(f"/proc/{process.pid}/task")) < 2
        and time.monotonic() < deadline
    ):
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.2)
    process.send_signal(signal.SIGCONT)
    errors = process.communicate(timeout=mpctest.TIMEOUT)[1]
    assert process.returncode == 3, errors
    assert "long.npy.gz: neither .npy, .npz" in errors
    lines = re.findall("^reading .*long.npy.gz$", errors, re.M)
    assert len(lines) == (0 if quiet else 1)
