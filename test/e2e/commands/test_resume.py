"""A stopped and resumed run gives the same bits as an uninterrupted run.

SPDX-License-Identifier: Apache-2.0
"""

import shutil
import signal
import subprocess
import time

import pytest

import mpctest

pytestmark = pytest.mark.starts_mpc


def flags(folder, precision, steps, every=10):
    return [
        *("train", mpctest.MODELS / "digits-cnn.onnx"),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--batch-size", "32", "--seed", "5", "--max-steps", steps),
        *("--precision", precision),
        *("--checkpoint-dir", folder / "checkpoints"),
        *("--checkpoint-every", every, "--resume", "auto"),
        *("--metrics", folder / "metrics.jsonl"),
        *("--output", folder / "trained.onnx"),
    ]


def final_state(folder):
    """Returns the trained file, and the loss of every step by its number. A
    resumed run appends to the metrics of the first."""
    events = mpctest.read_metrics(folder / "metrics.jsonl")
    losses = {e["step"]: e["loss"] for e in events if e["event"] == "train"}
    return (folder / "trained.onnx").read_bytes(), losses


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_resumed_run_gives_the_same_bits(precision, tmp_path):
    """The first run stops in the middle of the second epoch of 44 steps."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    mpctest.mpc_ok(*flags(whole, precision, 100))
    mpctest.mpc_ok(*flags(parts, precision, 63))
    mpctest.mpc_ok(*flags(parts, precision, 100))
    assert final_state(parts) == final_state(whole)


def test_interrupted_run_saves_and_resumes(tmp_path):
    """SIGINT ends the run after the current step with exit code 130."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    steps = 2000
    mpctest.mpc_ok(*flags(whole, "32-true", steps, every=500))
    command = [mpctest.MPC, *map(str, flags(parts, "32-true", steps, every=500))]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        metrics = parts / "metrics.jsonl"
        while process.poll() is None and not (
            metrics.exists() and metrics.read_text().count("\n") > 20
        ):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(mpctest.TIMEOUT) == 130
    mpctest.mpc_ok(*flags(parts, "32-true", steps, every=500))
    assert final_state(parts) == final_state(whole)


def test_truncated_checkpoint_falls_back_to_the_one_before(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    mpctest.mpc_ok(*flags(whole, "32-true", 60))
    mpctest.mpc_ok(*flags(parts, "32-true", 40))
    files = [p for p in (parts / "checkpoints").rglob("*") if p.is_file()]
    newest = max(files, key=lambda p: (p.stat().st_mtime_ns, p.stat().st_size))
    for file in newest.parent.iterdir():
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
    process = mpctest.mpc_ok(*flags(parts, "32-true", 60))
    assert newest.parent.name in process.stderr
    assert final_state(parts) == final_state(whole)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Returns a bf16 run that stopped after 10 steps."""
    folder = tmp_path_factory.mktemp("stopped")
    mpctest.mpc_ok(*flags(folder, "bf16-mixed", 10))
    return folder


def resume(stopped, folder, *more, steps=11):
    shutil.copytree(stopped / "checkpoints", folder / "checkpoints")
    return mpctest.mpc(*flags(folder, "bf16-mixed", steps), *more)


@pytest.mark.parametrize(
    "changed",
    [
        ["--keep-fp32", "conv1"],
        ["--freeze", "conv1"],
        ["--loss-scale", "1024"],
        ["--contractions", "generated"],
        ["--weight-decay", "0.5"],
        ["--as-exported"],
    ],
    ids=lambda changed: changed[0],
)
def test_another_run_is_not_resumed(changed, stopped, tmp_path):
    process = resume(stopped, tmp_path, *changed)
    assert process.returncode == 8, process.stderr
    assert "checkpoint of another run" in process.stderr


def test_a_default_that_is_spelled_out_changes_nothing(stopped, tmp_path):
    process = resume(
        *(stopped, tmp_path, "--weight-decay", "0.01", "--eps", "1e-8"),
        *("--loss-scale", "none", "--accumulate-reduction", "mean"),
        *("--accumulate-grad-batches", "1"),
        steps=10,
    )
    assert process.returncode == 0, process.stderr
    assert "other settings" not in process.stderr


def test_the_only_output_and_the_batch_said_otherwise_change_nothing(
    stopped, tmp_path
):
    shutil.copytree(stopped / "checkpoints", tmp_path / "checkpoints")
    again = flags(tmp_path, "bf16-mixed", 10)
    again[again.index("softmax_cross_entropy")] += "@logits"
    process = mpctest.mpc_ok(*again, "--shape", "image=32x1x8x8")
    assert "other settings" not in process.stderr


def test_what_was_changed_is_named_and_no_digest(stopped, tmp_path):
    process = resume(stopped, tmp_path, "--keep-fp32", "conv1")
    assert 'keep_fp32 was [], now it is ["conv1"]' in process.stderr
    assert "decisions" not in process.stderr


def test_another_learning_rate_is_noted_with_both_values(stopped, tmp_path):
    process = resume(stopped, tmp_path, "--lr", "0.5")
    assert process.returncode == 0, process.stderr
    assert "learning rate was 0.001, now it is 0.5" in process.stderr
    assert "steps was 10, now it is 11" in process.stderr
