"""Losses match other implementations step by step.

The bounds are the project's promises. Bounds against float32 implementations
allow for another order of sums, whose effect grows over the steps. Bounds
against float64 allow only for the last digits of 64-true.

SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mpctest

REFERENCES = pathlib.Path(__file__).parent / "references"
ORT = mpctest.DATA / "ort-lenet"
TRAINING_INFO = mpctest.DATA / "training-info"


def relative_errors(actual, expected):
    actual, expected = np.array(actual), np.array(expected)
    assert actual.shape == expected.shape
    return np.abs(actual - expected) / np.abs(expected)


def check_losses(actual, expected, bound):
    errors = relative_errors(actual, expected)
    step = int(errors.argmax())
    assert errors[step] <= bound, (
        f"loss of step {step} is {actual[step]!r}, reference"
        f" {expected[step]!r}: {errors[step]:.2e} apart, allowed {bound:.0e}"
    )


def train_digits(name, precision, folder):
    """Returns the losses of mpc on a case of make_torch_references.py, and the
    case."""
    case = json.loads((REFERENCES / f"{name}.json").read_text())
    metrics, _ = mpctest.train(
        mpctest.MODELS / f"{case['model']}.onnx",
        mpctest.DIGITS / "digits-train.npz",
        folder,
        *("--loss", "softmax_cross_entropy"),
        *("--optimizer", case["optimizer"], "--lr", case["lr"]),
        *("--batch-size", case["batch_size"], "--max-steps", case["steps"]),
        *("--precision", precision),
    )
    return mpctest.losses(metrics), case


@pytest.mark.parametrize(
    "name, horizon", [("mlp-sgd", 50), ("cnn-sgd", 50), ("resnet-sgd", 14)]
)
def test_sgd_in_32_true_matches_pytorch(name, horizon, tmp_path):
    """In step 14 of the residual network, one of millions of pre-activations is
    within a rounding of Relu's kink. The order of sums decides its sign. From
    then on the runs diverge."""
    losses, case = train_digits(name, "32-true", tmp_path)
    check_losses(losses[:horizon], case["loss_float32"][:horizon], 1e-5)


@pytest.mark.parametrize(
    "name", ["mlp-sgd", "cnn-sgd", "resnet-sgd", "mlp-adamw"]
)
def test_64_true_matches_float64(name, tmp_path):
    losses, case = train_digits(name, "64-true", tmp_path)
    check_losses(losses, case["loss_float64"], 1e-10)


def test_adamw_in_32_true_is_as_close_to_float64_as_pytorch(tmp_path):
    """The distance to float64 stays within three times PyTorch's own over 50
    steps. AdamW divides by the gradient's size, which enlarges every rounding,
    so the test compares distances instead of digits."""
    losses, case = train_digits("mlp-adamw", "32-true", tmp_path)
    pytorch = relative_errors(case["loss_float32"], case["loss_float64"])
    ours = relative_errors(losses, case["loss_float64"])
    assert ours.max() <= 3 * pytorch.max()


def write_tensor_optimizer(path):
    """Writes the optimizer of ORT's artifacts, which updates sequences, with a
    node for each parameter."""
    parameters = np.load(ORT / "parameters.npz")
    inputs = [("rate", TensorProto.FLOAT, [1]), ("t", TensorProto.INT64, [1])]
    outputs, nodes = [], []
    for name in parameters:
        shape = parameters[name].shape
        state = [name + ".first", name + ".second"]
        tensors = [name, name + "_grad.accumulation.buffer", *state]
        inputs += [(t, TensorProto.FLOAT, shape) for t in tensors]
        updated = [t + ".new" for t in [*state, name]]
        outputs += [(t, TensorProto.FLOAT, shape) for t in updated]
        nodes.append(
            helper.make_node(
                "AdamOptimizer",
                ["rate", "t", *tensors],
                [name + ".t", *updated],
                domain="com.microsoft",
                epsilon=1e-6,
                weight_decay_mode=1,
            )
        )
    graph = helper.make_graph(
        nodes,
        "optimizer",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
    )
    imports = [helper.make_opsetid("", 17)]
    imports.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=imports), path
    )


@pytest.mark.parametrize(
    "accumulate, over_tensors", [(1, False), (4, False), (4, True)]
)
def test_ort_artifacts_match_onnxruntime(accumulate, over_tensors, tmp_path):
    reference = json.loads((ORT / "losses.json").read_text())
    digits = np.load(mpctest.DIGITS / "digits-train.npz")
    image = digits["image"].repeat(4, axis=2).repeat(4, axis=3)
    data = {
        "image": image.astype(np.float32),
        "labels": digits["target"].astype(np.int64),
    }
    np.savez(tmp_path / "data.npz", **data)
    metrics_file = tmp_path / "metrics.jsonl"
    flags = []
    if over_tensors:
        flags = ["--optimizer-model", tmp_path / "optimizer.onnx"]
        write_tensor_optimizer(flags[1])
    mpctest.mpc_ok(
        *("train", ORT, "--weights", ORT / "parameters.npz", *flags),
        *("--data", tmp_path / "data.npz", "--no-shuffle"),
        *("--lr", reference["lr"], "--batch-size", reference["batch_size"]),
        *("--accumulate-grad-batches", accumulate),
        *("--max-steps", reference["steps"], "--precision", "32-true"),
        *("--export-model", mpctest.MODELS / "lenet.onnx"),
        *("--output", tmp_path / "trained.onnx", "--metrics", metrics_file),
    )
    micro_losses = np.array(reference["losses"][str(accumulate)])
    expected = micro_losses.reshape(-1, accumulate).mean(axis=1)
    losses = mpctest.losses(mpctest.read_metrics(metrics_file))
    check_losses(losses, expected, 2e-5)
    trained = mpctest.read_weights(tmp_path / "trained.onnx")
    initial = mpctest.read_weights(mpctest.MODELS / "lenet.onnx")
    assert trained.keys() == initial.keys()
    assert np.any(trained["fc3.weight"] != initial["fc3.weight"])


@pytest.mark.parametrize("name", ["adam", "momentum", "nesterov", "adagrad"])
@pytest.mark.parametrize(
    "precision, bound", [("64-true", 1e-10), ("32-true", 1e-5)]
)
def test_training_info_matches_the_specification(
    name, precision, bound, tmp_path
):
    reference = json.loads((TRAINING_INFO / "losses.json").read_text())
    digits = np.load(mpctest.DIGITS / "digits-train.npz")
    metrics, _ = mpctest.train(
        TRAINING_INFO / f"{name}.onnx",
        {"image": digits["image"], "labels": digits["target"].astype("i8")},
        tmp_path,
        *("--batch-size", reference["batch_size"]),
        *("--max-steps", reference["steps"], "--precision", precision),
    )
    check_losses(mpctest.losses(metrics), reference["losses"][name], bound)
