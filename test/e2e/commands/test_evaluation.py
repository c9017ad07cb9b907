"""Evaluation agrees for all sources of the loss: --loss, the model itself, and
ONNX Runtime's artifacts. Every sample counts exactly once.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import mpctest

# Neither number of samples is a multiple of the batch.
BATCH, TRAINING, HELD_BACK = 32, 100, 77
COMMON = ["--batch-size", BATCH, "--max-steps", 3, "--optimizer", "adamw"]


def digits(count, target="target"):
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        return {
            "image": arrays["image"][:count],
            target: arrays["target"][:count],
        }


def evaluate(model, folder, *flags, target="target"):
    """Returns the last evaluation of a short training, and the trained model."""
    folder.mkdir()
    np.savez(folder / "held.npz", **digits(HELD_BACK, target))
    metrics, _ = mpctest.train(
        model,
        digits(TRAINING, target),
        folder,
        *COMMON,
        *("--val-data", folder / "held.npz"),
        *flags,
    )
    return [event for event in metrics if event["event"] == "eval"][-1]


def with_loss(**attributes):
    """Returns the MLP with a loss over `labels` as its second output."""
    model = onnx.load(mpctest.MODELS / "mlp.onnx")
    node = helper.make_node(
        "SoftmaxCrossEntropyLoss",
        ["logits", "labels"],
        ["loss"],
        "cross_entropy",
        **attributes,
    )
    model.graph.node.append(node)
    model.graph.input.append(
        helper.make_tensor_value_info("labels", TensorProto.INT64, ["N"])
    )
    model.graph.output.append(
        helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
    )
    return model


@pytest.fixture(name="by_flag")
def evaluation_by_flag(tmp_path):
    model = mpctest.MODELS / "mlp.onnx"
    folder = tmp_path / "flag"
    event = evaluate(model, folder, "--loss", "softmax_cross_entropy")
    session = onnxruntime.InferenceSession(folder / "trained.onnx")
    data = digits(HELD_BACK)
    image = data["image"].astype(np.float32)
    scores = session.run(["logits"], {"image": image})[0]
    correct = np.mean(scores.argmax(1) == data["target"])
    assert event["eval_accuracy"] == pytest.approx(correct)
    assert event["eval_samples"] == HELD_BACK
    return event


def test_loss_of_the_model(by_flag, tmp_path):
    event = evaluate(
        with_loss(),
        tmp_path / "model",
        *("--loss", "output:loss"),
        target="labels",
    )
    assert event["eval_samples"] == HELD_BACK
    assert event["eval_loss"] == pytest.approx(by_flag["eval_loss"], rel=1e-5)
    assert event["eval_accuracy"] == by_flag["eval_accuracy"]


def test_ignored_labels(tmp_path):
    """Labels that the model ignores may be out of range. They do not count."""
    model = with_loss(ignore_index=-1)
    data = digits(TRAINING, "labels")
    data["labels"] = data["labels"].astype(np.int64)
    data["labels"][::3] = -1
    folder = tmp_path / "ignored"
    metrics, _ = mpctest.train(
        model, data, folder, *COMMON, "--loss", "output:loss"
    )
    assert len(mpctest.losses(metrics)) == 3
    # Ignored samples do not enter the mean, whatever fills the last batch.
    held = digits(HELD_BACK, "labels")
    held["labels"] = held["labels"].astype(np.int64)
    held["labels"][::3] = -1
    np.savez(folder / "held.npz", **held)
    metrics, _ = mpctest.train(
        model,
        data,
        folder,
        *COMMON,
        *("--loss", "output:loss", "--val-data", folder / "held.npz"),
    )
    event = [event for event in metrics if event["event"] == "eval"][-1]
    session = onnxruntime.InferenceSession(folder / "trained.onnx")
    held["image"] = held["image"].astype(np.float32)
    loss = session.run(["loss"], held)[0]
    assert event["eval_loss"] == pytest.approx(float(loss), rel=1e-5)
    data["labels"][0] = -2
    np.savez(folder / "bad.npz", **data)
    process = mpctest.mpc(
        *("train", folder / "model.onnx", "--data", folder / "bad.npz"),
        *COMMON,
        *("--loss", "output:loss"),
    )
    assert process.returncode == 3
    assert "label -2 is not in [0,10) and not the ignored -1" in process.stderr


def test_training_artifacts(tmp_path):
    folder = mpctest.DATA / "ort-lenet"
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        image = arrays["image"][:TRAINING].repeat(4, axis=2).repeat(4, axis=3)
        labels = arrays["target"][:TRAINING]
    np.savez(tmp_path / "data.npz", image=image, labels=labels)
    metrics = tmp_path / "metrics.jsonl"
    mpctest.mpc_ok(
        *("train", folder, "--data", tmp_path / "data.npz"),
        *("--weights", folder / "parameters.npz", "--val-split", 0.2),
        *("--metrics", metrics, "--batch-size", 16, "--max-steps", 2),
        *mpctest.TARGET,
    )
    events = mpctest.read_metrics(metrics)
    event = [event for event in events if event["event"] == "eval"][-1]
    assert event["eval_samples"] == 20
    assert 0 <= event["eval_accuracy"] <= 1
