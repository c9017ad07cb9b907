"""A run that learned nothing fails, and its error names the first non-finite
value.

SPDX-License-Identifier: Apache-2.0
"""

import re
import shlex

import numpy as np
from onnx import helper

import mpctest

NUMERIC = 7
BATCH, WIDTH = 8, 4


def regression(batches=4):
    random = np.random.RandomState(2)
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"], "layer1"),
            helper.make_node("Relu", ["h"], ["a"], "relu"),
            helper.make_node("MatMul", ["a", "w2"], ["y"], "layer2"),
        ],
        {"x": (np.float32, ["N", WIDTH])},
        {"y": (np.float32, ["N", WIDTH])},
        {
            name: random.standard_normal((WIDTH, WIDTH)).astype(np.float32)
            for name in ("w1", "w2")
        },
    )
    x = random.standard_normal((batches * BATCH, WIDTH)).astype(np.float32)
    return model, {"x": x.copy(), "target": x}


def train(task, folder, *flags):
    """Returns the finished process of a training, which may have failed."""
    model, data = task
    mpctest.onnx.save(model, folder / "model.onnx")
    np.savez(folder / "data.npz", **data)
    return mpctest.mpc(
        *("train", folder / "model.onnx", "--data", folder / "data.npz"),
        *("--loss", "mse", "--batch-size", BATCH, "--no-shuffle"),
        *("--output", folder / "trained.onnx"),
        *("--checkpoint-dir", folder / "checkpoints"),
        *mpctest.TARGET,
        *flags,
    )


def failure(process, folder):
    """Returns the one error of a run that must end with code 7 and without a
    model."""
    assert process.returncode == NUMERIC, process.stderr
    assert not (folder / "trained.onnx").exists()
    errors = [l for l in process.stderr.splitlines() if l.startswith("error")]
    assert len(errors) == 1, process.stderr
    return errors[0]


def test_inputs_that_overflow_float16_are_named(tmp_path):
    """Every step is skipped, but no loss scale would help: the loss is not
    finite. Only the third sample is too large."""
    task = regression(batches=1)
    task[1]["x"][2] *= 1e6
    process = train(
        *(task, tmp_path, "--precision", "16-mixed", "--epochs", 100),
        *("--max-nonfinite", 3),
    )
    error = failure(process, tmp_path)
    assert "the loss has not been finite" in error or "loss of" in error
    assert "first non-finite value" in error
    assert "layer1" in error
    assert "sample 2 of the data; float16 ends at 65504: use --precision bf16-mixed" in error


def test_all_nodes_of_a_kernel_are_named(tmp_path):
    """The message lists all nodes of the kernel: only the last node's values
    are in memory."""
    model, data = regression()
    factor = mpctest.numpy_helper.from_array(np.float32(6e4), "factor")
    model.graph.initializer.append(factor)
    scale = helper.make_node("Mul", ["y", "factor"], ["large"], "scale")
    model.graph.node.append(scale)
    model.graph.output[0].name = "large"
    process = train((model, data), tmp_path, "--precision", "16-mixed")
    error = failure(process, tmp_path)
    assert re.search("the kernel of nodes '.+' and '.+' gives -?inf", error)
    assert re.search(r", or add --keep-fp32 '\^\(.*\blayer2\b.*\)\(#\|\$\)'", error)


def test_weights_that_the_last_update_makes_infinite_are_no_success(tmp_path):
    """The loss of that step is finite because it precedes the update."""
    task = regression()
    process = train(
        *(task, tmp_path, "--optimizer", "sgd", "--lr", "3e38"),
        *("--max-steps", 1),
    )
    error = failure(process, tmp_path)
    assert "the run ends with weights that are not finite: parameter" in error
    assert "first non-finite value: in step 1, " in error
    assert "#update' gives " in error
    assert "there is no checkpoint from before" in error
    assert not list((tmp_path / "checkpoints").glob("step-*"))


def test_weights_that_become_infinite_unseen_are_no_success(tmp_path):
    """Clip hides the infinite weights from all later losses. The error still
    names the update that made them infinite."""
    bounds = {"low": np.float32(-1), "high": np.float32(1)}
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"], "layer"),
            helper.make_node("Clip", ["h", "low", "high"], ["y"], "clip"),
        ],
        {"x": (np.float32, ["N", 1])},
        {"y": (np.float32, ["N", 1])},
        {"w": np.full((1, 1), 0.25, np.float32), **bounds},
    )
    x = np.linspace(1, 2, 6 * BATCH, dtype=np.float32)[:, None]
    process = train(
        *((model, {"x": x, "target": -9 * x}), tmp_path),
        *("--optimizer", "sgd", "--lr", "3e38"),
    )
    error = failure(process, tmp_path)
    assert "first non-finite value: in step 1, after the update parameter 'w' is -inf" in error


def test_a_fixed_loss_scale_that_is_too_large_is_no_success(tmp_path):
    process = train(
        *(regression(), tmp_path, "--precision", "16-mixed"),
        *("--loss-scale", "1e30", "--epochs", 2),
    )
    error = failure(process, tmp_path)
    assert "all 8 steps were skipped" in error
    assert "--loss-scale dynamic" in error


def test_a_loss_scale_at_its_floor_ends_the_run(tmp_path):
    """Gradients overflow float16 at any scale while the loss is finite."""
    model, data = regression()
    data["target"] = data["target"] * np.float32(1e12)
    process = train(
        *((model, data), tmp_path, "--precision", "16-mixed"),
        *("--epochs", 1000),
    )
    error = failure(process, tmp_path)
    assert "smallest loss scale of 2^-14" in error


def test_divergence_names_the_step_and_the_last_good_checkpoint(tmp_path):
    process = train(
        *(regression(), tmp_path, "--lr", "30", "--epochs", 100),
        *("--checkpoint-every", 1, "--optimizer", "sgd"),
    )
    error = failure(process, tmp_path)
    assert "first non-finite value" in error
    assert "float16" not in error
    assert "the last good checkpoint is" in error
    last = error.rsplit("checkpoint is ", 1)[1]
    assert (mpctest.pathlib.Path(last) / "state.safetensors").exists()


def test_the_flag_of_the_message_ends_the_overflow(tmp_path):
    """The message names all nodes that read the value, backward nodes too, so
    its flag need be given only once."""
    random = np.random.RandomState(5)
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"], "fc.1"),
            helper.make_node("Mul", ["h", "twenty"], ["large"], "scale"),
            helper.make_node("Mul", ["large", "large"], ["square"], "square"),
            helper.make_node("MatMul", ["square", "w2"], ["g"], "fc.2"),
            helper.make_node("Relu", ["g"], ["a"], "relu"),
            helper.make_node("MatMul", ["a", "w3"], ["y"], "fc.3"),
        ],
        {"x": (np.float32, ["N", 64])},
        {"y": (np.float32, ["N", 10])},
        {
            "w1": random.standard_normal((64, 32)).astype(np.float32) / 4,
            "w2": random.standard_normal((32, 32)).astype(np.float32) / 1e4,
            "w3": random.standard_normal((32, 10)).astype(np.float32) / 6,
            "twenty": np.float32(20),
        },
    )
    x = random.uniform(0, 16, (8 * BATCH, 64)).astype(np.float32)
    target = random.uniform(-1, 1, (8 * BATCH, 10)).astype(np.float32)
    flags = ("--precision", "16-mixed", "--epochs", 5, "--lr", 1e-12)
    task = (model, {"x": x, "target": target})
    error = failure(train(task, tmp_path, *flags), tmp_path)
    (advice,) = re.findall(r"or add (--keep-fp32 '[^']*')", error)
    for name in (r"square", r"fc\.2"):
        assert name in re.split(r"[(|)]", advice), advice
    process = train(task, tmp_path, *flags, *shlex.split(advice))
    assert process.returncode == 0, process.stderr
    # The loss scale begins too high for the gradients, as in any run.
    (skipped,) = re.findall(r"; (\d+) skipped;", process.stdout)
    assert int(skipped) < 10, process.stdout
