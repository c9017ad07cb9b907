"""The data binds the open dimensions of a model. A tagger of sequences of any
length trains and evaluates without --shape.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

LENGTH = 7
FLAGS = ("--loss", "cross_entropy", "--batch-size", 4)


def make_tagger(mask_dimensions=("batch", "length")):
    random = np.random.RandomState(0)
    weights = {
        "table": random.randn(11, 6).astype(np.float32),
        "head": random.randn(6, 3).astype(np.float32),
        "last": np.array([-1], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["words"], "embed"),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"], "unsqueeze"),
        helper.make_node("Mul", ["words", "column"], ["kept"], "keep"),
        helper.make_node("MatMul", ["kept", "head"], ["scores"], "head_product"),
    ]
    inputs = {
        "ids": (np.int64, ["batch", "length"]),
        "mask": (np.float32, list(mask_dimensions)),
    }
    outputs = {"scores": (np.float32, ["batch", "length", 3])}
    return mpctest.make_model(nodes, inputs, outputs, weights)


def data(length=LENGTH, mask_length=LENGTH):
    random = np.random.RandomState(1)
    return {
        "ids": random.randint(0, 11, (16, length)),
        "mask": np.ones((16, mask_length), np.float32),
        "target": random.randint(0, 3, (16, length)),
    }


@pytest.fixture
def files(tmp_path):
    def write(arrays, **keywords):
        model, npz = tmp_path / "tagger.onnx", tmp_path / "data.npz"
        onnx.save(make_tagger(**keywords), model)
        np.savez(npz, **arrays)
        return model, npz

    return write


def evaluate(model, npz, *flags):
    return mpctest.mpc("eval", model, "--data", npz, "--loss", "cross_entropy", *flags)


def test_trains_and_evaluates(files, tmp_path):
    model, npz = files(data())
    output = tmp_path / "out.onnx"
    run = mpctest.mpc_ok("train", model, "--data", npz, *FLAGS, "--output", output)
    assert "note: 'length' of input 'ids' is 7, as in the data\n" in run.stderr
    # The trained model keeps the model's open dimensions.
    assert "ids: i64[batch,length]" in mpctest.mpc_ok("inspect", output).stdout
    assert "on 16 samples" in evaluate(output, npz).stdout


def test_dimension_of_two_inputs_is_said_once(files):
    run = evaluate(*files(data()))
    assert run.returncode == 0
    assert run.stderr.count("as in the data") == 1


def test_flag_wins(files):
    run = evaluate(*files(data()), "--shape", "length=7")
    assert run.returncode == 0
    assert "as in the data" not in run.stderr


def test_inputs_that_disagree_are_refused(files):
    run = evaluate(*files(data(mask_length=5)))
    assert run.returncode == 3
    assert "mask" in run.stderr and "[16,5]" in run.stderr


def test_batch_is_left_to_its_flag(files):
    """--batch-size binds the batch's symbol at all its occurrences."""
    model, npz = files(data(mask_length=16), mask_dimensions=("batch", "batch"))
    run = mpctest.mpc("train", model, "--data", npz, *FLAGS, "--max-steps", 1)
    assert run.returncode != 0
    assert "'batch' of input" not in run.stderr


# Dimension names that a list of dimensions cannot contain verbatim, and their
# escaped forms.
ODD_NAMES = {
    "a,b": "'a,b'",
    "N'": "'N'''",
    "[N]": "'[N]'",
    "7": "'7'",
    "...": "'...'",
    "batch size": "batch size",
}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_dimension_may_be_called_anything(name, tmp_path):
    """The dimension stays a single open one in JSON, in messages and on the
    command line."""
    model = mpctest.make_model(
        [helper.make_node("Relu", ["x"], ["y"])],
        {"x": (np.float32, [name, 3])},
        {"y": (np.float32, [name, 3])},
        {},
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    described = mpctest.mpc_ok("inspect", path, "--format", "json").stdout
    for values in ("inputs", "outputs"):
        assert json.loads(described)[values][0]["shape"] == [name, 3]
    text = mpctest.mpc_ok("inspect", path).stdout
    assert f"f32[{ODD_NAMES[name]},3]" in text
    x = np.arange(-6, 6, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "x.npy", x)
    arguments = ["--input", f"x=@{tmp_path}/x.npy"]
    for flags in ([], ["--shape", f"{name}=4"]):
        out = tmp_path / "y.npz"
        mpctest.mpc_ok("run", path, *arguments, *flags, "--output", out)
        with np.load(out) as outputs:
            np.testing.assert_array_equal(outputs["y"], np.maximum(x, 0))
