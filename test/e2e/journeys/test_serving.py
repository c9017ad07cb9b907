"""A user compiles an artifact for inference and runs it elsewhere, with any
number of samples.

SPDX-License-Identifier: Apache-2.0
"""

import shutil

import journey
import numpy as np
import onnxruntime

import mpctest

CNN = mpctest.MODELS / "digits-cnn.onnx"


def test_journey(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    built = mpctest.mpc_ok(
        *("compile", CNN, "--batch-size", 8, "-o", here / "cnn.mpc"),
        *mpctest.TARGET,
    )
    assert "forward graph alone" in built.stderr
    assert "8x1x8x8" in mpctest.mpc_ok("inspect", here / "cnn.mpc").stdout

    # 359 is not a multiple of 8. The run needs no other file than the artifact.
    shutil.move(here / "cnn.mpc", there / "cnn.mpc")
    outputs = {}
    for name, model, more in (
        ("artifact", there / "cnn.mpc", []),
        ("model", CNN, ["--batch-size", 32, *mpctest.TARGET]),
        ("whole", CNN, mpctest.TARGET),
    ):
        path = there / f"{name}.npz"
        mpctest.mpc_ok(
            *("run", model, "--data", journey.TEST, "-o", path, *more), cwd=there
        )
        outputs[name] = np.load(path)["logits"]
    session = onnxruntime.InferenceSession(CNN)
    image = np.load(journey.TEST)["image"].astype(np.float32)
    (expected,) = session.run(None, {"image": image})
    for scores in outputs.values():
        np.testing.assert_allclose(scores, expected, atol=2e-5)
    # One array, given as for training or as for single inputs.
    for argument in (["--data", f"image=@{tmp_path}/i.npy"], None):
        np.save(tmp_path / "i.npy", image)
        given = argument or ["--input", f"image={tmp_path}/i.npy"]
        path = tmp_path / "one.npz"
        mpctest.mpc_ok("run", there / "cnn.mpc", *given, "-o", path)
        np.testing.assert_array_equal(np.load(path)["logits"], outputs["artifact"])

    # The compiled settings are fixed, and damage is detected.
    text = journey.refused(
        journey.USAGE, "run", there / "cnn.mpc", "--batch-size", 8, "--loss", "mse"
    )
    assert "compiled already" in text
    bytes_ = (there / "cnn.mpc").read_bytes()
    (there / "half.mpc").write_bytes(bytes_[: len(bytes_) // 2])
    text = journey.refused(
        journey.INVALID, "run", there / "half.mpc", "--data", journey.TEST
    )
    assert "half.mpc" in text


def test_evaluation_of_what_was_trained(tmp_path):
    """The model, the checkpoint and an artifact evaluate to training's figures."""
    metrics, _ = mpctest.train(
        *(CNN, journey.TRAIN, tmp_path, *journey.CLASSES, "--batch-size", 32),
        *("--max-steps", 40, "--optimizer", "adamw", "--val-data", journey.TEST),
        *("--checkpoint-dir", tmp_path / "ck", "--metric", "top5"),
    )
    (expected,) = [m for m in metrics if m["event"] == "eval"]
    trained = tmp_path / "trained.onnx"
    mpctest.mpc_ok(
        *("compile", trained, *journey.CLASSES, "--batch-size", 32),
        *("-o", tmp_path / "t.mpc", *mpctest.TARGET),
    )
    model = [*journey.CLASSES, "--batch-size", 32, *mpctest.TARGET]
    for command in (
        [trained, *model],
        [CNN, "--checkpoint", tmp_path / "ck", *model],
        [tmp_path / "t.mpc"],
    ):
        text = mpctest.mpc_ok(
            *("eval", *command, "--data", journey.TEST, "--metric", "top5"),
            *("--format", "jsonl"),
        ).stdout
        found = mpctest.json.loads(text)
        assert found["eval_samples"] == 359
        for key in ("eval_loss", "eval_accuracy", "eval_top5"):
            assert found[key] == expected[key], (command, key)
