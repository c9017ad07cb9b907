"""train, evaluate, compile and run_command run the command mpc, and turn its
failures into the exceptions of python/runtime/mpc_runtime/errors.py.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import signal
import stat
import subprocess
import sys

import numpy as np
import onnx
import pytest

import mpc_runtime as mpc
import mpc_runtime.command
import mpctest
from conftest import MODEL, RECIPE, load_digits


def test_training_yields_metrics(digits, tmp_path):
    output = tmp_path / "trained.onnx"
    flags = {**RECIPE, "epochs": 2, "output": output, "seed": 1}
    training = mpc.train(MODEL, digits, val_data=load_digits("test"), **flags)
    events = list(training)
    kinds = [event["event"] for event in events]
    assert kinds[0] == "start" and kinds[-1] == "end"
    assert kinds.count("train") == 88 and kinds.count("eval") == 2
    assert events[-2]["eval_accuracy"] > 0.9
    assert training.exit_code == 0 and "epoch 2" in training.log
    results = mpc.evaluate(output, load_digits("test"), loss=RECIPE["loss"])
    assert results["eval_accuracy"] == events[-2]["eval_accuracy"]


def test_a_model_in_memory_trains(digits, tmp_path):
    model = onnx.load(MODEL)
    training = mpc.train(model, digits, output=tmp_path / "o.npz", **RECIPE)
    assert training.wait()[-1]["exit_code"] == 0


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"loss": "nope"}, mpc.UsageError, "unknown loss 'nope'"),
        ({"epcohs": 3}, mpc.UsageError, "did you mean --epochs"),
        ({"model": "/nowhere.onnx"}, mpc.FileError, "/nowhere.onnx"),
        ({"model": 3}, TypeError, "a model as a path"),
        ({"data": 3}, TypeError, "maps names to arrays"),
        ({"data": {"image": ["a"]}}, TypeError, "'image' has the type"),
        ({"data": {"file": [1.0], "allow_pickle": [1]}}, mpc.InvalidInputError, "file"),
        ({"data": {"image": np.zeros((32, 1, 8, 8))}}, mpc.InvalidInputError, "target"),
        ({"lr": 1e30, "optimizer": "sgd"}, mpc.NumericError, "not been finite"),
        ({"output": "-"}, mpc.UsageError, "name a file"),
        ({"resume": "/nowhere"}, mpc.Error, "/nowhere"),
    ],
)
@pytest.mark.filterwarnings("ignore::mpc_runtime.CommandWarning")
def test_failures_are_exceptions(digits, changes, error, message):
    arguments = {"model": MODEL, "data": digits, **RECIPE, **changes}
    with pytest.raises(error, match=message) as caught:
        mpc.train(**arguments).wait()
    if error not in (TypeError, mpc.Error):
        assert caught.value.code == error.code
        assert caught.value.message == str(caught.value)


def test_leaving_early_saves(digits, tmp_path):
    flags = {**RECIPE, "epochs": 10000, "checkpoint_dir": tmp_path / "checkpoints"}
    with mpc.train(MODEL, digits, output=tmp_path / "o.onnx", **flags) as training:
        for event in training:
            if event["event"] == "train":
                break
    assert training.exit_code == 128 + signal.SIGINT
    assert list((tmp_path / "checkpoints").glob("step-*"))
    assert list(training) == []


LEFT = """
import mpc_runtime as mpc
training = mpc.train({model!r}, {data!r}, loss="softmax_cross_entropy", batch_size=32,
                     epochs=1000000, output={output!r})
print(next(training)["event"], flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["", "del training", "raise SystemExit"])
def test_a_training_that_is_left_ends(tmp_path, end):
    """A command does not outlive the program, nor a training that is dropped."""
    data, output = mpctest.DIGITS / "digits-train.npz", tmp_path / "o.onnx"
    names = {"model": str(MODEL), "data": str(data), "output": str(output)}
    process = subprocess.run(
        [sys.executable, "-W", "always", "-c", LEFT.format(end=end, **names)],
        env={**os.environ, "PYTHONPATH": str(mpctest.ROOT / "python" / "runtime")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, "start\n"), process.stderr
    assert output.exists()
    if end == "del training":
        assert "ResourceWarning: a training was left" in process.stderr


def test_text_is_no_metrics(digits):
    training = mpc.train(MODEL, digits, help=True, **RECIPE)
    assert training.wait() == [] and "--batch-size" in training.log


def test_warnings_are_warnings(digits):
    with pytest.warns(mpc.CommandWarning, match="trained weights are lost"):
        mpc.train(MODEL, digits, **RECIPE).wait()


def test_arguments_become_flags(tmp_path):
    make = mpc_runtime.command.make_arguments
    flags = {
        "batch_size": np.int64(32),
        "lr": 0.1,
        "train_accuracy": True,
        "quiet": False,
        "resume": None,
        "freeze": ["a", "-b"],
        "output": pathlib.Path("o.onnx"),
    }
    assert make(flags, tmp_path) == [
        *("--batch-size=32", "--lr=0.1", "--train-accuracy"),
        *("--freeze=a", "--freeze=-b", "--output=o.onnx"),
    ]
    assert make({"lr": 1e-7}, tmp_path) == ["--lr=1e-07"]
    with pytest.raises(TypeError):
        make({"freeze": [True]}, tmp_path)


def test_other_commands_run(tmp_path):
    assert '"ok":true' in mpc.run_command("check", MODEL, format="json")
    model = onnx.load(MODEL)
    model.graph.node[0].op_type = "Nope"
    with pytest.raises(mpc.Error) as caught:
        mpc.run_command("check", model, format="json")
    assert caught.value.code == mpc.ExitCode.FOUND_PROBLEMS
    assert '"ok":false' in caught.value.output
    with pytest.raises(mpc.UsageError, match="did you mean inspect"):
        mpc.run_command("inspec", MODEL)
    artifact = mpc.compile(MODEL, tmp_path / "model.mpc", **RECIPE)
    assert (tmp_path / "model.mpc").exists() and "step" in artifact.functions
    with pytest.raises(mpc.InvalidInputError, match="--batch-size"):
        mpc.compile(MODEL)


def write_program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_the_command_is_found(tmp_path, monkeypatch):
    find = mpc_runtime.command.find_command
    assert find() == os.environ["MPC_COMMAND"]
    monkeypatch.delenv("MPC_COMMAND")
    monkeypatch.setenv("PATH", str(tmp_path / "player"))
    (tmp_path / "player").mkdir()
    with pytest.raises(mpc.FileError, match="pip install mpc-compiler"):
        find()
    # Debian's mpc plays music.
    write_program(tmp_path / "player" / "mpc", "echo mpc version: 0.34")
    with pytest.raises(mpc.FileError, match="is another program"):
        find()
    (tmp_path / "compiler").mkdir()
    write_program(tmp_path / "compiler" / "mpc", "echo mpc 0.1.0")
    monkeypatch.setenv("PATH", str(tmp_path / "compiler"))
    assert find() == str(tmp_path / "compiler" / "mpc")


def test_a_crash_is_an_error(tmp_path, monkeypatch):
    write_program(tmp_path / "mpc", "kill -SEGV $$")
    monkeypatch.setenv("MPC_COMMAND", str(tmp_path / "mpc"))
    with pytest.raises(mpc.Error, match="SIGSEGV") as caught:
        mpc.run_command("check", MODEL)
    assert caught.value.code == 128 + signal.SIGSEGV
    with pytest.raises(mpc.Error, match="SIGSEGV"):
        mpc.train(MODEL, "data.npz").wait()
    monkeypatch.setenv("MPC_COMMAND", "/nowhere/mpc")
    with pytest.raises(mpc.FileError, match="cannot run /nowhere/mpc"):
        mpc.train(MODEL, "data.npz")
