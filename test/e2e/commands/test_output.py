"""A training never loses its weights for lack of an output file.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import signal
import subprocess
import time

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

import mpctest

INVALID, IO = 3, 5


def flags(folder, model, *more):
    return [
        *("train", model, "--data", mpctest.DIGITS / "digits-train.npz"),
        *("--loss", "softmax_cross_entropy", "--batch-size", "32"),
        *("--output", folder / "trained.onnx"),
        *("--metrics", folder / "metrics.jsonl"),
        *more,
    ]


def another_model(folder, change):
    model = onnx.load(mpctest.MODELS / "mlp.onnx")
    change(model.graph)
    onnx.save(model, folder / "other.onnx")
    return folder / "other.onnx"


def tensor(graph, name):
    return next(t for t in graph.initializer if t.name == name)


def without_a_tensor(graph):
    graph.initializer.remove(tensor(graph, "fc1.weight"))


def of_another_shape(graph):
    weight = tensor(graph, "fc1.weight")
    values = np.zeros([d + 1 for d in weight.dims], np.float32)
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))


@pytest.mark.parametrize("change", [without_a_tensor, of_another_shape])
def test_a_model_that_cannot_receive_the_weights_is_refused(change, tmp_path):
    """mpc refuses before the first step and names the tensors."""
    other = another_model(tmp_path, change)
    process = mpctest.mpc(
        *flags(tmp_path, mpctest.MODELS / "mlp.onnx", "--max-steps", 2),
        *("--export-model", other),
    )
    assert process.returncode == INVALID, process.stderr
    # A model that lacks an input of a node is no valid model.
    isInvalid = change is without_a_tensor
    text = "is never defined" if isInvalid else "cannot receive 1 of"
    assert text in process.stderr
    assert "'fc1.weight'" in process.stderr
    assert not (tmp_path / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        ["--export-model", "none.onnx"],
        ["--data", "none.npz"],
        ["--val-data", "none.npz"],
        ["--metrics", "none/metrics.jsonl"],
        ["--resume", "none/step-1"],
        ["--checkpoint-dir", "file"],
    ],
    ids=lambda wrong: wrong[0],
)
def test_missing_files_are_found_before_compiling(wrong, tmp_path):
    """The model file is invalid: compiling it would report that instead."""
    model = tmp_path / "model.onnx"
    model.write_bytes(b"not a model")
    (tmp_path / "file").write_bytes(b"")
    values = {
        "--data": mpctest.DIGITS / "digits-train.npz",
        "--output": tmp_path / "trained.onnx",
        wrong[0]: tmp_path / wrong[1],
    }
    process = mpctest.mpc(
        *("train", model, "--loss", "mse"),
        *(word for pair in values.items() for word in pair),
    )
    assert process.returncode in (IO, 8), process.stderr
    assert str(tmp_path / wrong[1]) in process.stderr
    assert "model.onnx: not an ONNX file" not in process.stderr


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("--output", "trained.onnx"), ("--metrics", "./trained.onnx")),
        (("--output", "trained.onnx"), ("--checkpoint-dir", "trained.onnx/")),
        (("--metrics", "run"), ("--tensorboard", "run/../run")),
        (("--metrics", "m.jsonl"), ("--metrics", "./m.jsonl")),
        (("--output", "-"), ("--metrics", "-")),
    ],
    ids=lambda flag: flag[0],
)
def test_nothing_is_written_to_where_something_else_is(first, second, tmp_path):
    data = mpctest.DIGITS / "digits-train.npz"
    process = mpctest.mpc(
        *("train", mpctest.MODELS / "mlp.onnx", "--data", data),
        *("--loss", "softmax_cross_entropy", "--batch-size", "32"),
        *("--max-steps", "2", *first, *second),
        cwd=tmp_path,
    )
    assert process.returncode == 2, process.stderr
    assert "writes to the same place" in process.stderr
    assert not any(tmp_path.iterdir())


LINKS = {
    "to no file yet": ("trained.onnx", "m.jsonl"),
    "to another link": ("trained.onnx", "again.jsonl"),
    "to a folder": ("trained.onnx", "here/trained.onnx"),
    "to the data beside it": ("trained.onnx", "data.jsonl"),
    "no link": ("trained.onnx", "trained.onnx.data"),
}


@pytest.mark.parametrize("how", LINKS)
def test_metrics_are_not_written_over_the_model_through_links(how, tmp_path):
    (tmp_path / "m.jsonl").symlink_to("trained.onnx")
    (tmp_path / "again.jsonl").symlink_to(tmp_path / "m.jsonl")
    (tmp_path / "data.jsonl").symlink_to("./trained.onnx.data")
    (tmp_path / "here").symlink_to(".")
    before = sorted(tmp_path.iterdir())
    output, metrics = LINKS[how]
    process = mpctest.mpc(
        *("train", mpctest.MODELS / "mlp.onnx", "--loss", "mse"),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--output", output, "--metrics", metrics),
        cwd=tmp_path,
    )
    assert process.returncode == 2, process.stderr
    message = f"--metrics {metrics}: --output writes to the same place"
    assert message in process.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("then", ["deleted", "replaced"])
def test_the_model_may_change_while_it_is_trained(then, tmp_path):
    model = tmp_path / "model.onnx"
    shutil.copy(mpctest.MODELS / "mlp.onnx", model)
    metrics = tmp_path / "metrics.jsonl"
    command = flags(tmp_path, model, "--max-steps", 100000)
    with subprocess.Popen(
        [mpctest.MPC, *map(str, command)], stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and not (
            metrics.exists() and metrics.read_text().count("\n") > 5
        ):
            time.sleep(0.01)
        if then == "deleted":
            model.unlink()
        else:
            model.write_bytes(b"something else")
        process.send_signal(signal.SIGINT)
        assert process.wait(mpctest.TIMEOUT) == 130
    before = mpctest.read_weights(mpctest.MODELS / "mlp.onnx")
    after = mpctest.read_weights(tmp_path / "trained.onnx")
    assert before.keys() == after.keys()
    assert any(np.any(after[name] != before[name]) for name in before)


def test_a_second_run_leaves_the_metrics_of_the_first(tmp_path):
    model = mpctest.MODELS / "mlp.onnx"
    mpctest.mpc_ok(*flags(tmp_path, model, "--max-steps", 2))
    first = (tmp_path / "metrics.jsonl").read_text()
    process = mpctest.mpc(*flags(tmp_path, model, "--max-steps", 2))
    assert process.returncode == 2
    assert "--overwrite-metrics" in process.stderr
    assert (tmp_path / "metrics.jsonl").read_text() == first
    mpctest.mpc_ok(
        *flags(tmp_path, model, "--max-steps", 2, "--overwrite-metrics")
    )


def test_a_model_on_standard_input_is_trained_and_written(tmp_path):
    """Standard input can be read only once, but compiling and writing both need
    the model."""
    model = mpctest.MODELS / "mlp.onnx"
    mpctest.mpc_ok(*flags(tmp_path, model, "--max-steps", 2))
    from_file = (tmp_path / "trained.onnx").read_bytes()
    with open(model, "rb") as file:
        subprocess.run(
            [
                mpctest.MPC,
                *map(str, flags(tmp_path, "-", "--max-steps", 2)),
                "--overwrite-metrics",
            ],
            input=file.read(),
            capture_output=True,
            timeout=mpctest.TIMEOUT,
            check=True,
        )
    assert (tmp_path / "trained.onnx").read_bytes() == from_file


def test_what_is_read_is_not_overwritten(tmp_path):
    model, data = tmp_path / "model.onnx", tmp_path / "data.npz"
    shutil.copy(mpctest.MODELS / "mlp.onnx", model)
    shutil.copy(mpctest.DIGITS / "digits-train.npz", data)
    link = tmp_path / "link.npz"
    link.symlink_to(data)
    files = {file: file.read_bytes() for file in (model, data)}
    train = ["train", model, "--data", data, "--loss", "softmax_cross_entropy"]
    train += ["--batch-size", 8, "--max-steps", 1]
    for command in (
        [*train, "--output", data],
        [*train, "--output", link],
        [*train, "--metrics", model, "--overwrite-metrics"],
        ["compile", model, "--batch-size", 8, "--weights", data, "-o", data],
        ["run", model, "--input", f"image=@{data}", "-o", data],
    ):
        process = mpctest.mpc(*command)
        assert process.returncode == 2, (command, process.stderr)
        assert "reads that file" in process.stderr
        assert {file: file.read_bytes() for file in files} == files


def test_devices_and_checkpoints_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    train = ["train", mpctest.MODELS / "mlp.onnx", "--batch-size", 8, "--max-steps", 1]
    train += ["--data", mpctest.DIGITS / "digits-train.npz"]
    train += ["--loss", "softmax_cross_entropy", *mpctest.TARGET]
    for flag in ("--output", "--trace"):
        process = mpctest.mpc(*train, flag, tmp_path / "pipe.npz")
        assert process.returncode == 5, process.stderr
        assert "is a device or a pipe" in process.stderr
    mpctest.mpc_ok(*train, "--checkpoint-dir", tmp_path / "run")
    state = tmp_path / "run/step-1/state.safetensors"
    before = state.read_bytes()
    process = mpctest.mpc(*train, "--resume", tmp_path / "run", "--trace", state)
    assert process.returncode == 2
    assert "step-1' is a checkpoint" in process.stderr
    assert state.read_bytes() == before


def test_a_model_may_receive_its_own_weights(tmp_path):
    model = tmp_path / "model.onnx"
    shutil.copy(mpctest.MODELS / "mlp.onnx", model)
    before = mpctest.read_weights(model)
    mpctest.mpc_ok(
        *("train", model, "--data", mpctest.DIGITS / "digits-train.npz"),
        *("--loss", "softmax_cross_entropy", "--batch-size", "32"),
        *("--max-steps", 2, "--output", model),
    )
    after = mpctest.read_weights(model)
    assert any(np.any(after[name] != before[name]) for name in before)


@pytest.mark.parametrize(
    "name, flag",
    [
        ("a\x1b[31m", ["--output", "w.npz"]),
        ("__metadata__", ["--output", "w.safetensors"]),
        ("__metadata__", ["--checkpoint-dir", "states"]),
    ],
)
def test_names_that_a_file_cannot_have_are_found_first(name, flag, tmp_path):
    model = mpctest.make_model(
        [onnx.helper.make_node("MatMul", ["x", name], ["y"])],
        {"x": (np.float32, ["N", 3])},
        {"y": (np.float32, ["N", 2])},
        {name: np.ones((3, 2), np.float32)},
    )
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "d.npz", x=np.ones((4, 3)), target=np.ones((4, 2)))
    process = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "d.npz"),
        *("--loss", "mse", "--batch-size", "2", "--epochs", "1"),
        *(flag[0], tmp_path / flag[1]),
    )
    assert process.returncode == 2, process.stderr
    assert "cannot have an array called" in process.stderr
    assert "step 1/" not in process.stderr
    assert "\x1b" not in process.stderr


def test_trained_only_leaves_out_what_is_frozen(tmp_path):
    """The model with these values equals the trained model."""
    model = mpctest.MODELS / "mlp.onnx"
    common = ("--max-steps", 3, "--train", "^fc2", "--overwrite-metrics")
    part, whole = tmp_path / "part.safetensors", tmp_path / "whole.onnx"
    mpctest.mpc_ok(*flags(tmp_path, model, *common), "--output", whole)
    mpctest.mpc_ok(*flags(tmp_path, model, *common), "--output", part, "--trained-only")
    assert set(load_file(part)) == {"fc2.weight", "fc2.bias"}
    evaluate = ("--data", mpctest.DIGITS / "digits-test.npz", "--loss", "cross_entropy")
    expected = mpctest.mpc_ok("eval", whole, *evaluate)
    found = mpctest.mpc_ok("eval", model, "--weights", part, *evaluate)
    assert found.stdout == expected.stdout


def test_trained_only_is_of_arrays(tmp_path):
    process = mpctest.mpc(
        *flags(tmp_path, mpctest.MODELS / "mlp.onnx", "--trained-only")
    )
    assert process.returncode == 2
    assert "a model always has all its weights" in process.stderr
