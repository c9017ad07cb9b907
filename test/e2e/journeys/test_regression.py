"""A user trains a regression with BatchNormalization, exported by PyTorch in
training mode. The run equals PyTorch's, and the written model is for inference.

SPDX-License-Identifier: Apache-2.0
"""

import journey
import numpy as np
import onnx
import onnxruntime
from onnx import helper

import mpctest

INPUTS, HIDDEN, SAMPLES, BATCH, EPOCHS = 4, 6, 128, 32, 3
RATE, DECAY, EPSILON = 1e-3, 0.01, 1e-5
# Rounded like a float attribute.
MOMENTUM = float(np.float32(0.9))


def exported():
    random = np.random.default_rng(0)
    values = journey.parameters(random, fc1=(HIDDEN, INPUTS), fc2=(1, HIDDEN))
    values["bn.weight"] = np.ones(HIDDEN, np.float32)
    values["bn.bias"] = np.zeros(HIDDEN, np.float32)
    values["bn.running_mean"] = np.zeros(HIDDEN, np.float32)
    values["bn.running_var"] = np.ones(HIDDEN, np.float32)
    norm = ["bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"]
    model = mpctest.make_model(
        [
            journey.linear("fc1", "x", "h"),
            helper.make_node(
                "BatchNormalization",
                ["h", *norm],
                ["n", "mean", "var"],
                "bn",
                training_mode=1,
                momentum=MOMENTUM,
                epsilon=EPSILON,
            ),
            helper.make_node("Relu", ["n"], ["r"], "relu"),
            journey.linear("fc2", "r", "y"),
        ],
        {"x": (np.float32, ["N", INPUTS])},
        {"y": (np.float32, ["N", 1])},
        values,
    )
    model.producer_name = "pytorch"
    return model, {name: v.astype(np.float64) for name, v in values.items()}


def gradients(p, x, target):
    """Returns the loss, its gradients, and the batch's mean and variance."""
    h = x @ p["fc1.weight"].T + p["fc1.bias"]
    mean, variance = h.mean(0), h.var(0)
    scale = 1 / np.sqrt(variance + EPSILON)
    normal = (h - mean) * scale
    n = normal * p["bn.weight"] + p["bn.bias"]
    r = np.maximum(n, 0)
    error = r @ p["fc2.weight"].T + p["fc2.bias"] - target
    dy = 2 * error / error.size
    dn = dy @ p["fc2.weight"] * (n > 0)
    dx = dn * p["bn.weight"]
    dh = scale * (dx - dx.mean(0) - normal * (dx * normal).mean(0))
    found = {
        "fc2.weight": dy.T @ r,
        "fc2.bias": dy.sum(0),
        "bn.weight": (dn * normal).sum(0),
        "bn.bias": dn.sum(0),
        "fc1.weight": dh.T @ x,
        "fc1.bias": dh.sum(0),
    }
    return np.mean(error**2), found, mean, variance


def train_as_pytorch(p, x, target):
    """Trains with the defaults of AdamW and BatchNorm1d. Returns the losses."""
    first = {name: 0.0 for name in p}
    second = {name: 0.0 for name in p}
    losses = []
    for step in range(1, EPOCHS * SAMPLES // BATCH + 1):
        start = (step - 1) * BATCH % SAMPLES
        rows = slice(start, start + BATCH)
        loss, found, mean, variance = gradients(p, x[rows], target[rows])
        losses.append(loss)
        for name, gradient in found.items():
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.999 * second[name] + 0.001 * gradient**2
            p[name] = p[name] * (1 - RATE * DECAY) - RATE * (
                first[name] / (1 - 0.9**step)
            ) / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
        unbiased = variance * BATCH / (BATCH - 1)
        for name, new in (("mean", mean), ("var", unbiased)):
            name = "bn.running_" + name
            p[name] = MOMENTUM * p[name] + (1 - MOMENTUM) * new
    return losses


def test_journey(tmp_path):
    model, expected = exported()
    random = np.random.default_rng(1)
    x = random.normal(size=(SAMPLES, INPUTS))
    target = x @ random.normal(size=(INPUTS, 1)) + 3
    metrics, weights = mpctest.train(
        model,
        {"x": x, "target": target},
        tmp_path,
        *("--loss", "mse", "--optimizer", "adamw", "--lr", RATE),
        *("--batch-size", BATCH, "--epochs", EPOCHS, "--precision", "64-true"),
        *("--val-data", tmp_path / "data.npz"),
    )
    # Every number equals PyTorch's. One output has a trained bias, and the
    # running variance is unbiased.
    losses = train_as_pytorch(expected, x, target)
    np.testing.assert_allclose(mpctest.losses(metrics), losses, rtol=1e-10)
    for name, value in expected.items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-6, atol=1e-7)

    # The written model is for inference: each sample is independent of its
    # batch.
    written = onnx.load(tmp_path / "trained.onnx")
    norm = next(n for n in written.graph.node if n.op_type == "BatchNormalization")
    assert all(a.name != "training_mode" or a.i == 0 for a in norm.attribute)
    session = onnxruntime.InferenceSession(written.SerializeToString())
    evaluation = [m for m in metrics if m["event"] == "eval"][-1]["eval_loss"]
    for batch in (1, 8, SAMPLES):
        found = [
            session.run(None, {"x": part.astype(np.float32)})[0]
            for part in np.split(x, SAMPLES // batch)
        ]
        error = np.concatenate(found) - target
        np.testing.assert_allclose(np.mean(error**2), evaluation, rtol=1e-5)
    outputs = mpctest.run(written, {"x": x.astype(np.float32)}, tmp_path)
    np.testing.assert_allclose(outputs["y"], np.concatenate(found), atol=1e-6)


def test_one_weight_and_one_bias(tmp_path):
    """Linear(1, 1) learns a line."""
    model = mpctest.make_model(
        [journey.linear("line", "x", "y")],
        {"x": (np.float32, ["N", 1])},
        {"y": (np.float32, ["N", 1])},
        journey.parameters(np.random.default_rng(0), line=(1, 1)),
    )
    x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]
    _, weights = mpctest.train(
        *(model, {"x": x, "target": 2 * x + 1}, tmp_path, "--loss", "mse"),
        *("--optimizer", "sgd", "--momentum", 0.9, "--lr", 0.1),
        *("--batch-size", 32, "--epochs", 200),
    )
    np.testing.assert_allclose(weights["line.weight"], [[2]], atol=1e-3)
    np.testing.assert_allclose(weights["line.bias"], [1], atol=1e-3)
