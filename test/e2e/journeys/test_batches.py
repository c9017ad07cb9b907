"""A user trains an image classifier from PyTorch's exporter with a batch fixed
in the file. mpc reports what the export has lost, any batch trains, and
accumulated gradients equal those of the larger batch.

SPDX-License-Identifier: Apache-2.0
"""

import journey
import numpy as np
import onnx
from onnx import helper

import mpctest

EXPORTERS = mpctest.DATA / "exporters"


def images(count):
    """Returns images of three classes, told apart by brightness."""
    random = np.random.default_rng(0)
    target = np.arange(count) % 3
    image = random.normal(size=(count, 1, 8, 8)) + 2 * target[:, None, None, None]
    return {"image": image.astype(np.float32), "target": target}


def test_journey(tmp_path):
    # The default export has folded the BatchNormalization. mpc says how to keep
    # it.
    text = mpctest.mpc_ok("check", EXPORTERS / "folded.onnx", *journey.CLASSES).stdout
    assert "'layers.1' is folded into the Conv" in text
    assert "optimize=False" in text
    assert "which are taken apart again" in text

    # The recommended export keeps BatchNormalization and trains, also with four
    # times the exported batch.
    kept = EXPORTERS / "kept-eval.onnx"
    assert onnx.load(kept).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 8
    metrics, weights = mpctest.train(
        *(kept, images(192), tmp_path / "kept", *journey.CLASSES),
        *("--optimizer", "adamw", "--lr", 0.01, "--batch-size", 32),
        *("--epochs", 6, "--val-data", tmp_path / "kept" / "data.npz"),
    )
    last = [m for m in metrics if m["event"] == "eval"][-1]
    assert last["eval_accuracy"] > 0.9
    before = mpctest.read_weights(kept)
    for name in ("layers.1.weight", "layers.1.running_mean", "layers.9.bias"):
        assert np.any(weights[name] != before[name]), name
    written = onnx.load(tmp_path / "kept" / "trained.onnx")
    assert written.graph.input[0] == onnx.load(kept).graph.input[0]


def test_accumulated_batches(tmp_path):
    runs = {}
    for batch, accumulated in ((32, 1), (8, 4), (1, 32)):
        runs[batch] = mpctest.train(
            *(journey.MLP, journey.TRAIN, tmp_path / str(batch)),
            *(*journey.CLASSES, "--optimizer", "adamw", "--batch-size", batch),
            *("--accumulate-grad-batches", accumulated, "--max-steps", 20),
        )
    metrics, weights = runs[32]
    for batch in (8, 1):
        others, found = runs[batch]
        expected = mpctest.losses(metrics)
        np.testing.assert_allclose(mpctest.losses(others), expected, rtol=1e-5)
        for name, value in weights.items():
            np.testing.assert_allclose(found[name], value, atol=2e-6)


def test_every_problem_is_named_at_once(tmp_path):
    """A batch that does not fit must not hide an unsupported operator."""
    weights = {"w": np.ones((4, 4), np.float32), "c": np.ones((8, 4), np.float32)}
    model = mpctest.make_model(
        [
            helper.make_node("Unknown", ["x"], ["a"], "first", domain="mine"),
            helper.make_node("MatMul", ["a", "w"], ["b"], "product"),
            helper.make_node("Other", ["b"], ["y"], "last", domain="mine"),
        ],
        {"x": (np.float32, [8, 4])},
        {"y": (np.float32, [8, 4])},
        weights,
    )
    path = journey.save(model, tmp_path / "model.onnx")
    text = journey.refused(1, "check", path, "--batch-size", 32)
    assert "mine.Unknown x1 (node 'first')" in text
    assert "mine.Other x1 (node 'last')" in text
