"""Reads the files that earlier versions wrote, as docs/versions.md promises.

Each folder of test/data/versions holds files of one version. If a format
changes, the old files must still be read, or be refused by their format's
number.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import json
import re
import shutil

import pytest

import mpctest

VERSIONS = mpctest.DATA / "versions"
FOLDERS = sorted(path.name for path in VERSIONS.iterdir() if path.is_dir())
TRAIN = ["--data", "data.npz", "--val-data", "data.npz", "--lr", "0.01"]


@pytest.fixture(params=FOLDERS)
def folder(request, tmp_path):
    """A copy of a version's files."""
    copy = tmp_path / "files"
    shutil.copytree(VERSIONS / request.param, copy)
    (copy / "model.mpc").chmod(0o755)
    return copy


def evaluated(text):
    """Returns the loss that `mpc eval` or the summary of a run prints."""
    return float(re.search(r"loss ([\d.]+) on 32 samples", text).group(1))


def last_loss(folder):
    """Returns the last evaluation in the run's metrics."""
    events = mpctest.read_metrics(folder / "run.jsonl")
    return [e["eval_loss"] for e in events if e["event"] == "eval"][-1]


def test_this_version_has_files():
    version = mpctest.mpc_ok("--version").stdout.split()[1]
    assert version in FOLDERS, "run test/data/versions/make_versions.py"


def test_an_artifact_runs(folder):
    """An artifact of another format is refused, and the message says so."""
    shown = mpctest.mpc("inspect", "model.mpc", cwd=folder)
    if shown.returncode:
        assert "compile the model again" in shown.stderr
        return
    mpctest.mpc_ok("train", "model.mpc", *TRAIN, "--max-steps", 2, cwd=folder)


def test_a_checkpoint_is_evaluated(folder):
    arguments = ["--checkpoint", "checkpoints/step-8", "--data", "data.npz"]
    loss = ["--loss", "softmax_cross_entropy"]
    done = mpctest.mpc_ok("eval", "model.onnx", *arguments, *loss, cwd=folder)
    assert evaluated(done.stdout + done.stderr) == pytest.approx(
        last_loss(folder), rel=1e-3
    )


def test_a_run_is_resumed_with_its_artifact(folder):
    if mpctest.mpc("inspect", "model.mpc", cwd=folder).returncode:
        pytest.skip("an artifact of another format")
    resume = ["--checkpoint-dir", "checkpoints", "--resume", "auto", "--epochs", 3]
    done = mpctest.mpc_ok("train", "model.mpc", *TRAIN, *resume, cwd=folder)
    assert evaluated(done.stderr + done.stdout) < last_loss(folder)


@pytest.mark.parametrize(
    "weights", ["trained.safetensors", "checkpoints/step-8/state.safetensors"]
)
def test_weights_are_read(folder, weights):
    arguments = ["--weights", weights, "--data", "data.npz"]
    arguments += ["--loss", "softmax_cross_entropy"]
    done = mpctest.mpc_ok("eval", "model.onnx", *arguments, cwd=folder)
    assert evaluated(done.stdout + done.stderr) == pytest.approx(
        last_loss(folder), rel=1e-3
    )


def test_a_policy_and_flags_are_read(folder):
    command = ["--config", "flags.toml", "--policy", "policy.json"]
    arguments = ["--precision", "bf16-mixed", "--format", "jsonl"]
    done = mpctest.mpc_ok("explain", "model.onnx", *command, *arguments, cwd=folder)
    ops = [json.loads(line) for line in done.stdout.splitlines()]
    assert any("a rule" in json.dumps(op) for op in ops)


def test_metrics_become_a_report(folder):
    mpctest.mpc_ok("report", "run.jsonl", "-o", "report.html", cwd=folder)
    assert "<svg" in (folder / "report.html").read_text()


#===------------------------------------------------------------------------===#
# Newer files, and other formats
#===------------------------------------------------------------------------===#


def test_newer_metrics_are_shown(tmp_path):
    events = [
        {"event": "start", "version": "9.0.0", "new": 1},
        {"event": "new", "step": 1},
        {"event": "train", "step": 1, "loss": 1.5, "new": 2},
        {"event": "train", "step": 2, "loss": 0.5},
    ]
    file = tmp_path / "run.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert "loss 1.5" in mpctest.mpc_ok("inspect", file).stdout
    mpctest.mpc_ok("report", file, "-o", tmp_path / "report.html")


@pytest.mark.parametrize("flag", ["--policy", "--config"])
def test_newer_keys_are_named(tmp_path, flag):
    file = tmp_path / "newer"
    file.write_text('{"newer": 1}' if flag == "--policy" else "newer = 1\n")
    model = VERSIONS / "0.1.0/model.onnx"
    done = mpctest.mpc("explain", model, "--precision", "bf16-mixed", flag, file)
    assert done.returncode in (2, 3)
    assert "unknown key" in done.stderr and "newer" in done.stderr


def seal(document):
    """Returns the text of train.json with its digest."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    digest = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    digest.restype, digest.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    return json.dumps({**document, "digest": f"{digest(text, len(text)):016x}"})


@pytest.mark.parametrize("number", [1, 2])
def test_a_checkpoint_of_another_format_is_refused(tmp_path, number):
    """Format 1 is the control: it is read."""
    shutil.copytree(VERSIONS / "0.1.0", tmp_path / "files")
    file = tmp_path / "files/checkpoints/step-8/train.json"
    document = json.loads(file.read_text())
    del document["digest"]
    file.write_text(seal({**document, "format": number}))
    done = mpctest.mpc("inspect", "checkpoints/step-8", cwd=tmp_path / "files")
    if number == 1:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 8
    assert "written in format 2, this version reads 1" in done.stderr
