"""`mpc train` evaluates, keeps the best weights and stops as its flags say.

SPDX-License-Identifier: Apache-2.0
"""

import re
import signal
import subprocess
import time

import numpy as np
import onnxruntime
import pytest
from safetensors.numpy import load_file

import mpctest
from test_gpu import emulated

HELD = mpctest.DIGITS / "digits-test.npz"


def flags(folder, *more):
    return [
        *("train", mpctest.MODELS / "mlp.onnx"),
        *("--data", mpctest.DIGITS / "digits-train.npz", "--val-data", HELD),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--batch-size", "32", "--seed", "5"),
        *("--metrics", folder / "metrics.jsonl"),
        *("--output", folder / "trained.onnx", *mpctest.TARGET, *more),
    ]


def events(folder, kind):
    every = mpctest.read_metrics(folder / "metrics.jsonl")
    return [event for event in every if event["event"] == kind]


def accuracy_of(model):
    session = onnxruntime.InferenceSession(model)
    with np.load(HELD) as data:
        image = data["image"].astype(np.float32)
        scores = session.run(["logits"], {"image": image})[0]
        return np.mean(scores.argmax(1) == data["target"])


# The rate is too large, so that the last weights are not the best.
RESTLESS = ["--lr", "1.5", "--epochs", "6", "--val-every", "20"]


def test_output_has_the_best_weights(tmp_path):
    process = mpctest.mpc_ok(*flags(tmp_path, *RESTLESS, "--best", "accuracy"))
    evaluations = events(tmp_path, "eval")
    best = max(evaluations, key=lambda event: event["eval_accuracy"])
    assert best["eval_accuracy"] > evaluations[-1]["eval_accuracy"]
    assert accuracy_of(tmp_path / "trained.onnx") == pytest.approx(
        best["eval_accuracy"]
    )
    shown = f"{best['eval_accuracy'] * 100:.2f}%"
    assert f"best: step {best['step']}, accuracy {shown}\n" in process.stdout
    end = events(tmp_path, "end")[0]
    assert (end["best_step"], end["best_value"]) == (
        best["step"],
        best["eval_accuracy"],
    )


def test_best_checkpoint_stays(tmp_path):
    folder = tmp_path / "checkpoints"
    mpctest.mpc_ok(
        *flags(tmp_path, *RESTLESS, "--best", "min:loss"),
        *("--checkpoint-dir", folder, "--keep-checkpoints", "1"),
    )
    best = min(events(tmp_path, "eval"), key=lambda event: event["eval_loss"])
    last = events(tmp_path, "train")[-1]["step"]
    assert {path.name for path in folder.iterdir()} == {
        "best",
        f"step-{best['step']}",
        f"step-{last}",
    }
    state = load_file(folder / "best" / "state.safetensors")
    weights = mpctest.read_weights(tmp_path / "trained.onnx")
    trained = [name for name in weights if name in state]
    assert len(trained) == 6
    for name in trained:
        np.testing.assert_array_equal(state[name], weights[name])


def whole_and_killed(tmp_path, more, until):
    """Trains whole, and in parts: a kill ends the first part at a line of its
    metrics. Returns both folders."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    mpctest.mpc_ok(*flags(whole, *more))
    again = [
        *flags(parts, *more, "--checkpoint-dir", parts / "checkpoints"),
        *("--checkpoint-every", "7", "--resume", "auto"),
    ]
    metrics = parts / "metrics.jsonl"
    command = [mpctest.MPC, *map(str, again)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (
            metrics.exists() and metrics.read_text().count("\n") > until
        ):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait(mpctest.TIMEOUT) == -signal.SIGKILL
    mpctest.mpc_ok(*again)
    return whole, parts


def test_killed_run_remembers_the_best_and_its_patience(tmp_path):
    more = [*RESTLESS, "--best", "accuracy", "--early-stopping", "accuracy:9"]
    more += ["--lr-scheduler", "plateau:0.7:0"]
    whole, parts = whole_and_killed(tmp_path, more, until=130)
    assert (parts / "trained.onnx").read_bytes() == (
        whole / "trained.onnx"
    ).read_bytes()
    ends = [events(folder, "end")[-1] for folder in (whole, parts)]
    for key in ("steps", "ended_by", "best_step", "best_value"):
        assert ends[0][key] == ends[1][key]
    rates = [
        {event["step"]: event["lr"] for event in events(folder, "train")}
        for folder in (whole, parts)
    ]
    assert rates[0] == rates[1]
    assert len(set(rates[0].values())) > 3


def test_early_stopping_ends_well(tmp_path):
    process = mpctest.mpc_ok(
        *flags(tmp_path, "--lr", "1.5", "--val-every", "20"),
        *("--early-stopping", "loss:2"),
    )
    losses = [event["eval_loss"] for event in events(tmp_path, "eval")]
    assert min(losses[:-2]) <= min(losses[-2:])
    for end in range(3, len(losses)):
        assert min(losses[: end - 2]) > min(losses[end - 2 : end])
    assert "loss did not improve in 2 evaluations" in process.stderr
    assert events(tmp_path, "end")[0]["ended_by"] == "early_stopping"


def test_evaluations_by_steps(tmp_path):
    mpctest.mpc_ok(
        *flags(tmp_path, "--max-steps", "50", "--val-every", "20"),
    )
    steps = [event["step"] for event in events(tmp_path, "eval")]
    assert steps == [20, 40, 50]


def test_time_is_over_after_a_save(tmp_path):
    folder = tmp_path / "checkpoints"
    begin = time.monotonic()
    process = mpctest.mpc_ok(
        *flags(tmp_path, "--max-time", "00:00:00:03", "--checkpoint-dir"),
        *(folder, "--checkpoint-every", "1000000"),
    )
    assert time.monotonic() - begin >= 3
    end = events(tmp_path, "end")[0]
    assert end["ended_by"] == "max_time"
    assert (folder / f"step-{end['steps']}").is_dir()
    assert re.search(r"--max-time is over after step \d+\n", process.stderr)
    assert (tmp_path / "trained.onnx").exists()


@pytest.mark.parametrize(
    "more, message",
    [
        (["--best", "losss"], "unknown metric 'losss'"),
        (["--early-stopping", "loss"], "METRIC:PATIENCE"),
        (["--lr-scheduler", "plateau:2"], "expected plateau[:FACTOR"),
        (["--lr-scheduler", "plateau:0.1:3:f3"], "unknown metric 'f3'"),
        (["--max-time", "12:00"], "expected a duration"),
        (["--val-every", "0"], "a whole number from 1"),
        (["--ema", "1"], "a number between 0 and 1"),
        (
            ["--lr-scheduler", "cosine", "--max-time", "1h"],
            "needs to know the last step",
        ),
    ],
)
def test_refused_before_the_model_is_read(more, message, tmp_path):
    arguments = flags(tmp_path, *more)
    arguments[1] = tmp_path / "none.onnx"
    process = mpctest.mpc(*arguments)
    assert process.returncode == 2, process.stderr
    assert message in process.stderr


@pytest.mark.parametrize(
    "more",
    [
        ["--best", "loss"],
        ["--early-stopping", "loss:3"],
        ["--val-every", "10"],
        ["--lr-scheduler", "plateau"],
    ],
    ids=lambda more: more[0],
)
def test_without_evaluations_there_is_no_effect(more, tmp_path):
    arguments = flags(tmp_path, *more)
    arguments.remove("--val-data")
    arguments.remove(HELD)
    process = mpctest.mpc(*arguments)
    assert process.returncode == 2, process.stderr
    assert "has no effect without --val-data or --val-split" in process.stderr


def test_averages_need_an_optimizer_of_mpcs(tmp_path):
    process = mpctest.mpc(
        *("compile", mpctest.MODELS / "mlp.onnx", "--batch-size", "4"),
        *("--ema", "0.9", "--emit=plan", "-o", tmp_path / "plan.mlir"),
    )
    assert process.returncode == 2, process.stderr
    assert "--ema is for training, and has no effect" in process.stderr


def test_averages_and_the_best_on_an_emulated_gpu(tmp_path):
    """Weights move to the device and back. Averages and the best weights
    follow."""
    results = []
    for device in (["cpu"], ["cuda", "--target", "sm_80"]):
        folder = tmp_path / device[0]
        folder.mkdir()
        common = flags(folder, "--max-steps", "6", "--val-every", "2")
        mpctest.mpc_ok(
            *(flag for flag in common if flag not in mpctest.TARGET),
            *("--best", "max:loss", "--ema", "0.5", "--lr", "0.2"),
            *("--precision", "bf16-mixed", "--device", *device),
            env=emulated("sm_80", tmp_path),
        )
        losses = [event["eval_loss"] for event in events(folder, "eval")]
        assert losses[0] > losses[1] > losses[2]
        weights = mpctest.read_weights(folder / "trained.onnx")
        results.append((losses, weights["fc1.weight"]))
    assert (tmp_path / "calls.log").read_text()
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-3)
    np.testing.assert_allclose(results[1][1], results[0][1], atol=1e-3)


def test_best_needs_a_place(tmp_path):
    arguments = flags(tmp_path, "--best", "loss")
    at = arguments.index("--output")
    process = mpctest.mpc(*arguments[:at], *arguments[at + 2 :])
    assert process.returncode == 2, process.stderr
    assert "--best has no effect without --output" in process.stderr


def test_a_model_without_accuracy(tmp_path):
    target = np.zeros((64, 10), np.float32)
    with np.load(HELD) as data:
        np.savez(tmp_path / "d.npz", image=data["image"][:64], target=target)
    process = mpctest.mpc(
        *("train", mpctest.MODELS / "mlp.onnx", "--data", tmp_path / "d.npz"),
        *("--val-split", "0.5", "--loss", "mse", "--optimizer", "sgd"),
        *("--batch-size", "8", "--early-stopping", "accuracy:3"),
        *mpctest.TARGET,
    )
    assert process.returncode == 2, process.stderr
    assert "has no accuracy; the loss is mse" in process.stderr
