"""ONNX Runtime's training artifacts: a folder that brings its own optimizer.

SPDX-License-Identifier: Apache-2.0
"""

import journey
import numpy as np
import onnxruntime
import pytest

import mpctest

ARTIFACTS = mpctest.DATA / "ort-lenet"
LENET = mpctest.MODELS / "lenet.onnx"


def digits(path):
    data = np.load(path)
    image = data["image"].repeat(4, axis=2).repeat(4, axis=3)
    return {
        "image": image.astype(np.float32),
        "labels": data["target"].astype(np.int64),
    }


@pytest.mark.parametrize("mode", ["32-true", "bf16-mixed"])
def test_journey(mode, tmp_path):
    train = digits(journey.TRAIN)
    journey.save_arrays(tmp_path / "train.npz", **train)
    command = ["train", ARTIFACTS, "--data", tmp_path / "train.npz"]
    command += ["--batch-size", 32]

    # Each parameter without a value is named once, with what to do.
    text = journey.refused(journey.INVALID, *command)
    assert text.count("'conv1.weight'") == 1
    assert text.count("error:") == 1
    assert "--weights" in text

    # What would have no effect is refused.
    command += ["--weights", LENET]
    for flag in (
        ["--optimizer", "sgd"],
        ["--beta1", 0.5],
        ["--weight-decay", 0.3],
        ["--as-exported"],
    ):
        text = journey.refused(journey.USAGE, *command, *flag)
        assert flag[0] in text and "leave the flag out" in text

    # A model that cannot receive the weights is found before the first step.
    metrics = tmp_path / "m.jsonl"
    command += ["--epochs", 2, "--metrics", metrics, "--precision", mode]
    command += ["--output", tmp_path / "trained.onnx", "--export-model"]
    text = journey.refused(
        journey.INVALID, *command, ARTIFACTS / "eval_model.onnx"
    )
    assert "cannot receive" in text and not metrics.exists()

    mpctest.mpc_ok(*command, LENET)
    losses = mpctest.losses(mpctest.read_metrics(metrics))
    assert len(losses) == 2 * (len(train["labels"]) // 32)
    test = digits(journey.TEST)
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    (scores,) = session.run(None, {"image": test["image"]})
    assert journey.accuracy(scores, test["labels"]) > 0.8


def test_weights_are_not_in_the_runtimes_checkpoint(tmp_path):
    """The artifacts' folder has a file of that name: it is called what it is."""
    checkpoint = tmp_path / "checkpoint"
    checkpoint.write_bytes(b"\x18\x00\x00\x00ODTC" + bytes(64))
    text = journey.refused(
        *(journey.INVALID, "train", ARTIFACTS, "--data", journey.TRAIN),
        *("--weights", checkpoint),
    )
    assert "a checkpoint of ONNX Runtime, which is not read" in text
