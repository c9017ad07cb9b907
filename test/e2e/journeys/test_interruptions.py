"""A user runs a long training on a machine that may disappear. The run stops,
resumes to the same bits, keeps its best weights, and explains when it cannot
resume.

SPDX-License-Identifier: Apache-2.0
"""

import signal
import subprocess
import time

import journey
import numpy as np

import mpctest

STEPS = 400


def command(folder, *more):
    return [
        *("train", journey.MLP, "--data", journey.TRAIN, *journey.CLASSES),
        *("--val-data", journey.TEST, "--best", "accuracy"),
        *("--optimizer", "adamw", "--batch-size", 32, "--max-steps", STEPS),
        *("--checkpoint-dir", folder / "ck", "--metrics", folder / "m.jsonl"),
        *("--metrics", folder / "m.csv", "--output", folder / "trained.onnx"),
        *more,
    ]


def stop_in_the_middle(folder):
    with subprocess.Popen(
        [mpctest.MPC, *map(str, command(folder))],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        table = folder / "m.csv"
        deadline = time.monotonic() + mpctest.TIMEOUT
        # Wait for the end of the second epoch.
        while process.poll() is None and time.monotonic() < deadline:
            if table.exists() and table.read_text().count("\n") > 95:
                break
        process.send_signal(signal.SIGINT)
        text = process.communicate(timeout=mpctest.TIMEOUT)[1]
    return process.returncode, text


def test_journey(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    mpctest.mpc_ok(*command(whole))

    code, text = stop_in_the_middle(stopped)
    assert code == 130, text
    assert "Ctrl-C" in text or "again" in text, text
    # The best weights so far are usable.
    first = mpctest.read_weights(stopped / "trained.onnx")
    listed = mpctest.mpc_ok("inspect", stopped / "ck").stdout
    assert "step-" in listed and "mpc inspect" in listed

    # A changed run must not resume. The error says what differs and how to use
    # the weights anyway.
    text = journey.refused(
        *(journey.CHECKPOINT, *command(stopped, "--resume", "auto")),
        *("--batch-size", 16),
    )
    assert "batch size was 32, now it is 16" in text
    other = command(stopped, "--resume", "auto")
    other[other.index("--data") + 1] = journey.TEST
    text = journey.refused(journey.CHECKPOINT, *other)
    assert "it was digits-train.npz, 1438 samples" in text
    state = text.split("--weights ")[1].split()[0]
    process = mpctest.mpc_ok(
        *("train", journey.MLP, "--data", journey.TEST, *journey.CLASSES),
        *("--batch-size", 16, "--max-steps", 1, "--weights", state),
        *("--output", tmp_path / "other.npz"),
    )
    assert "6 of 6 parameters" in process.stderr

    # The resumed run ends with the bits of the unbroken run.
    mpctest.mpc_ok(*command(stopped, "--resume", stopped / "ck"))
    second = mpctest.read_weights(stopped / "trained.onnx")
    expected = mpctest.read_weights(whole / "trained.onnx")
    for name, value in expected.items():
        np.testing.assert_array_equal(second[name], value)
    assert any(np.any(first[name] != value) for name, value in second.items())

    # Both metrics files have every step, and each table has every step once.
    events = mpctest.read_metrics(stopped / "m.jsonl")
    steps = {m["step"] for m in events if m["event"] == "train"}
    assert steps == set(range(1, STEPS + 1))
    rows = (stopped / "m.csv").read_text().splitlines()
    assert sum(row.startswith("train,") for row in rows) >= STEPS

    # The kept weights are the best that were evaluated, and evaluate to the
    # same figure again.
    best = max(m["eval_accuracy"] for m in events if m["event"] == "eval")
    output = mpctest.mpc_ok(
        *("eval", stopped / "trained.onnx", "--data", journey.TEST),
        *(*journey.CLASSES, "--batch-size", 32, "--format", "jsonl"),
    ).stdout
    assert np.isclose(mpctest.json.loads(output)["eval_accuracy"], best, rtol=1e-12)
    text = mpctest.mpc_ok("report", whole, "-o", tmp_path / "r.html").stderr
    page = (tmp_path / "r.html").read_text()
    assert "Evaluation: accuracy" in page, text


def test_what_diverges_leaves_its_best(tmp_path):
    """The exit code reports the divergence, and the best weights exist."""
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 4)).astype(np.float32)
    journey.save_arrays(tmp_path / "d.npz", x=x, target=x[:, :3])
    model = journey.save(journey.perceptron(), tmp_path / "model.onnx")
    text = journey.refused(
        *(journey.NUMERIC, "train", model, "--data", tmp_path / "d.npz"),
        *("--val-data", tmp_path / "d.npz", "--val-every", 1, "--best", "loss"),
        *("--loss", "mse", "--optimizer", "sgd", "--lr", 50),
        *("--warmup-steps", 2000, "--batch-size", 16, "--epochs", 1000),
        *("--output", tmp_path / "trained.onnx"),
    )
    assert "the loss has not been finite" in text
    assert f"wrote {tmp_path / 'trained.onnx'}" in text
    arguments = ["--data", tmp_path / "d.npz", "--loss", "mse", "--format", "jsonl"]
    losses = [
        mpctest.json.loads(mpctest.mpc_ok("eval", path, *arguments).stdout)
        for path in (model, tmp_path / "trained.onnx")
    ]
    assert losses[1]["eval_loss"] < 0.9 * losses[0]["eval_loss"]
