"""A scalar input decides a condition of which only one branch fits the other
inputs. Audio models have such a branch for each sampling rate.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mpctest

SAMPLES, LENGTH = 8, 6
FLAGS = ("--loss", "mse", "--lr", "0.1", "--batch-size", "4", "--max-steps", "2")


def make_branch(name, result):
    node = helper.make_node("MatMul", ["h", f"{name}_w"], [result], name)
    output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
    return helper.make_graph([node], name, [], [output])


@pytest.fixture
def model(tmp_path):
    """Returns y = relu(x) @ w, of six samples at a rate of 16000, and of three
    at other rates."""
    nodes = [
        helper.make_node("Equal", ["rate", "fast"], ["is_fast"], "equal"),
        helper.make_node("Relu", ["x"], ["h"], "relu"),
        helper.make_node(
            *("If", ["is_fast"], ["y"], "choice"),
            then_branch=make_branch("wide", "wide_y"),
            else_branch=make_branch("narrow", "narrow_y"),
        ),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", "T"]), "rate": (np.int64, [])},
        {"y": (np.float32, ["N", 2])},
        {
            "wide_w": np.ones((6, 2), np.float32),
            "narrow_w": np.ones((3, 2), np.float32),
            "fast": np.array(16000),
        },
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


def write_data(path, rate=16000):
    x = np.ones((SAMPLES, LENGTH), np.float32)
    target = np.zeros((SAMPLES, 2), np.float32)
    np.savez(path, x=x, target=target, rate=np.array(rate))
    return path


def test_data_that_know_the_condition_train_its_branch(model, tmp_path):
    data = write_data(tmp_path / "data.npz")
    out = tmp_path / "trained.onnx"
    process = mpctest.mpc_ok(
        *("train", model, "--data", data, "--val-data", data, *FLAGS),
        *("--output", out),
    )
    assert "note: 'rate' is a constant of the compiled code, with its value in the data" in process.stderr
    trained = mpctest.read_weights(out)
    assert (trained["wide_w"] < 1).all()
    assert (trained["narrow_w"] == 1).all()
    process = mpctest.mpc_ok("eval", model, "--data", data, "--loss", "mse")
    assert "loss 36 " in process.stdout + process.stderr


def test_other_data_to_evaluate_on_leave_it_open(model, tmp_path):
    data = write_data(tmp_path / "data.npz")
    held = write_data(tmp_path / "held.npz", rate=8000)
    process = mpctest.mpc(
        "train", model, "--data", data, "--val-data", held, *FLAGS
    )
    assert process.returncode in (3, 4)
    assert "node 'narrow' (MatMul): inner dimensions 6 and 3" in process.stderr
    assert "node 'choice' (If): one branch does not fit" in process.stderr


@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_file_of_values_lets_others_know_it(command, model, tmp_path):
    flags = ("--shape", "x=4x6", "--loss", "mse")
    process = mpctest.mpc(command, model, *flags)
    assert process.returncode != 0
    assert "'is_fast' is not known" in process.stdout + process.stderr
    np.savez(tmp_path / "rate.npz", rate=np.array(16000))
    mpctest.mpc_ok(command, model, *flags, "--weights", tmp_path / "rate.npz")


def test_a_shape_that_the_input_has_is_no_contradiction(model, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 6), np.float32))
    inputs = ("--input", f"x={tmp_path}/x.npy", "--input", "rate=16000")
    process = mpctest.mpc_ok("run", model, *inputs, "--shape", "x=2x6")
    assert process.stdout == "y: f32 2x2 = 6 6 6 6\n"
    process = mpctest.mpc("run", model, *inputs, "--shape", "x=3x6")
    assert process.returncode == 2
    assert "has the shape 2x6, --shape says x=3x6; leave --shape out" in process.stderr
