"""A Python program runs mpc as a process. It reads events, ends the run when
the result suffices, resumes it, and distinguishes failures by exit code.

SPDX-License-Identifier: Apache-2.0
"""

import csv
import json
import signal
import subprocess

import numpy as np

import journey
import mpctest

CNN = mpctest.MODELS / "digits-cnn.onnx"
TRAIN = ["train", CNN, "--data", journey.TRAIN, *journey.CLASSES]
TRAIN += ["--optimizer", "adam", "--val-split", 0.2, "--quiet", "--metrics", "-"]


def train(folder, *flags, stop=lambda event: False):
    """Reads events until one stops the run. Returns the events, the exit code
    and the other messages."""
    files = ["--checkpoint-dir", folder / "ck", "-o", folder / "trained.onnx"]
    command = [mpctest.MPC, *TRAIN, *files, *flags]
    events = []
    with subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stdout:
            events.append(json.loads(line))
            if stop(events[-1]):
                process.send_signal(signal.SIGTERM)
        return events, process.wait(mpctest.TIMEOUT), process.stderr.read()


def evaluations(events):
    return [event["eval_accuracy"] for event in events if event["event"] == "eval"]


def test_journey(tmp_path):
    def is_good(event):
        return event["event"] == "eval" and event["eval_accuracy"] > 0.9

    events, code, said = train(tmp_path, "--epochs", 400, stop=is_good)
    assert code == 128 + signal.SIGTERM
    assert events[0]["event"] == "start" and events[0]["batch_size"] == 32
    assert events[-1]["event"] == "end" and events[-1]["ended_by"] == "signal"
    assert events[-1]["exit_code"] == code and max(evaluations(events)) > 0.9
    # Standard output has events only. Messages for people go to standard error.
    assert "interrupted after" in said and "wrote " in said
    # The run resumes where it ended, and then ends by itself.
    steps = events[-1]["steps"]
    more = ["--max-steps", steps + 20, "--resume", "auto"]
    events, code, _ = train(tmp_path, *more)
    assert code == 0 and events[0]["resumed_from"] == steps
    assert events[-1]["steps"] == steps + 20 and events[-1]["exit_code"] == 0
    # `mpc eval` prints one object with the run's own figure.
    process = mpctest.mpc_ok(
        *("eval", tmp_path / "trained.onnx", "--data", journey.TEST, "--quiet"),
        *(*journey.CLASSES, "--format", "jsonl"),
    )
    evaluated = json.loads(process.stdout)
    assert process.stderr == "" and evaluated["eval_samples"] == 359
    output = tmp_path / "scores.npy"
    mpctest.mpc_ok(
        "run", tmp_path / "trained.onnx", "--data", journey.TEST, "-o", output, "-q"
    )
    with np.load(journey.TEST) as data:
        accuracy = journey.accuracy(np.load(output), data["target"])
    assert abs(accuracy - evaluated["eval_accuracy"]) < 1e-6


def test_codes_tell_what_went_wrong(tmp_path):
    """Exit codes alone distinguish flags, data, non-finite numbers and files."""
    small = tmp_path / "small.npz"
    np.savez(small, image=np.zeros((5, 1, 8, 8), np.float32), target=np.arange(5) + 9)
    for code, flags in (
        (journey.USAGE, ["--lr", "fast"]),
        (journey.INVALID, ["--data", small]),
        (5, ["--data", tmp_path / "none.npz"]),
        (journey.NUMERIC, ["--lr", 1e30, "--max-steps", 50]),
        (journey.CHECKPOINT, ["--resume", tmp_path / "ck" / "step-3"]),
    ):
        events, found, said = train(tmp_path, *flags)
        assert found == code, said
        (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
        assert len(line) > 20
        assert not events or events[-1]["exit_code"] == code


def test_a_table_of_metrics_is_read_by_column(tmp_path):
    """csv and pandas.read_csv read the table. Evaluations are rows with their
    figures."""
    table = tmp_path / "metrics.csv"
    mpctest.mpc_ok(*TRAIN[:-1], table, "--epochs", 2, "-o", tmp_path / "o.onnx")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    losses = [float(row["loss"]) for row in rows if row["loss"]]
    found = [float(row["eval_accuracy"]) for row in rows if row["eval_accuracy"]]
    assert len(losses) == 2 * 35 and len(found) == 2
    assert losses[-1] < losses[0] and found[1] > 0.5
