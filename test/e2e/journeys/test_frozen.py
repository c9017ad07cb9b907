"""A user fine-tunes the head of a residual network with a frozen backbone, and
serves the result in ONNX Runtime.

SPDX-License-Identifier: Apache-2.0
"""

import journey
import numpy as np
import onnx
import onnxruntime

import mpctest

RESNET = mpctest.MODELS / "resnet.onnx"


def test_journey(tmp_path):
    train = ["train", RESNET, "--data", journey.TRAIN, *journey.CLASSES]
    # List the parameters' names.
    listed = mpctest.mpc_ok("inspect", "--parameters", RESNET).stdout
    assert "fc.weight" in listed
    assert "running mean of" in listed
    # The error for a wrong name gives the nearest one.
    text = journey.refused(2, *train, "--batch-size", 32, "--train", "^head")
    assert "no parameter's name matches '^head'; there are" in text
    text = journey.refused(2, *train, "--batch-size", 32, "--freeze", "fc.wieght")
    assert text.index("'fc.weight'") < text.index("'stem.bn.bias'")

    metrics, weights = mpctest.train(
        *(RESNET, journey.TRAIN, tmp_path, *journey.CLASSES),
        *("--train", r"^fc\.", "--optimizer", "adamw", "--lr", 0.02),
        *("--batch-size", 32, "--epochs", 3, "--val-data", journey.TEST),
    )
    before = mpctest.read_weights(RESNET)
    changed = [k for k, v in weights.items() if not np.array_equal(v, before[k])]
    # Running statistics belong to the backbone.
    assert sorted(changed) == ["fc.bias", "fc.weight"]
    evaluation = [m for m in metrics if m["event"] == "eval"]
    assert evaluation[-1]["eval_loss"] < evaluation[0]["eval_loss"]

    # The served model gives the evaluated results.
    data = np.load(journey.TEST)
    image = data["image"].astype(np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    (scores,) = session.run(None, {"image": image})
    found = evaluation[-1]["eval_accuracy"]
    assert np.isclose(journey.accuracy(scores, data["target"]), found)
    ours = mpctest.run(
        onnx.load(tmp_path / "trained.onnx"), {"image": image}, tmp_path
    )
    np.testing.assert_allclose(ours["logits"], scores, atol=1e-4)


def test_backbone_of_another_file(tmp_path):
    """Lightning and DistributedDataParallel save weights under an outer
    module's prefix. These weights find their places, and missing ones are
    named."""
    random = np.random.default_rng(5)
    before = mpctest.read_weights(RESNET)
    others = {
        "module." + name: random.uniform(0.5, 1, value.shape).astype(np.float32)
        for name, value in before.items()
        if value.ndim > 0 and not name.startswith("fc.")
    }
    journey.save_arrays(tmp_path / "backbone.npz", **others)
    train = ["train", RESNET, "--data", journey.TRAIN, *journey.CLASSES]
    process = mpctest.mpc_ok(
        *(*train, "--weights", tmp_path / "backbone.npz", "--train", "^fc"),
        *("--batch-size", 32, "--max-steps", 1, "--output", tmp_path / "o.onnx"),
    )
    assert "names are taken without 'module.'" in process.stderr
    assert f"note: {len(others)} of {len(others) + 2} parameters" in process.stderr
    assert "so the model's values stay: 'fc.bias', 'fc.weight'" in process.stderr
    after = mpctest.read_weights(tmp_path / "o.onnx")
    for name, value in others.items():
        np.testing.assert_array_equal(after[name.removeprefix("module.")], value)
