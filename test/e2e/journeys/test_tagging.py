"""A user predicts several rare tags per picture, and several hours ahead:
training and metrics of binary targets and numbers.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

import mpctest
from journey import USAGE, perceptron, refused, save

TAGS = 5


def test_rare_tags(tmp_path):
    random = np.random.default_rng(0)
    samples = random.normal(0, 1, (400, 8)).astype(np.float32)
    target = (samples @ random.normal(0, 1, (8, TAGS)) > 3).astype(np.int64)
    np.savez(tmp_path / "tags.npz", x=samples, target=target)
    weight = (1 - target).sum(0) / np.maximum(target.sum(0), 1)
    np.save(tmp_path / "weight.npy", weight.astype(np.float32))
    model = save(perceptron(inputs=8, outputs=TAGS), tmp_path / "model.onnx")
    train = ["train", model, "--data", tmp_path / "tags.npz", "--batch-size", 20]
    train += ["--loss", "bce_with_logits", "--val-split", 0.2]
    said = refused(USAGE, *train, "--metric", "top3")
    assert "--metric top3 is for losses of class labels" in said
    said = refused(USAGE, *train, "--class-weights", "1,2,1,1,1")
    assert "--class-weights is for losses of class labels" in said
    figures = {}
    for name, flags in [("plain", []), ("weighted", [tmp_path / "weight.npy"])]:
        flags = ["--pos-weight", *flags] if flags else []
        metrics, _ = mpctest.train(
            model,
            tmp_path / "tags.npz",
            tmp_path / name,
            *(*train[4:], "--optimizer", "adam", "--lr", 0.01, "--epochs", 8),
            *("--metric", "f1,iou", *flags),
        )
        figures[name] = [m for m in metrics if m["event"] == "eval"][-1]
    # Rare tags are found once positive targets weigh as much as negative ones.
    assert figures["weighted"]["eval_f1"] > figures["plain"]["eval_f1"] + 0.05


def test_hours_ahead(tmp_path):
    random = np.random.default_rng(0)
    series = np.sin(np.arange(700) / 5) + 0.1 * random.normal(0, 1, 700)
    windows = np.stack([series[i : i + 20] for i in range(680)]).astype(np.float32)
    np.savez(tmp_path / "hours.npz", x=windows[:, :16], target=windows[:, 16:])
    model = save(perceptron(inputs=16, hidden=24, outputs=4), tmp_path / "m.onnx")
    metrics, _ = mpctest.train(
        model,
        tmp_path / "hours.npz",
        tmp_path,
        *("--loss", "huber", "--metric", "mae,r2", "--val-split", 0.1),
        *("--optimizer", "adam", "--lr", 0.02, "--lr-scheduler", "one-cycle"),
        *("--gradient-clip-val", 1, "--batch-size", 34, "--epochs", 10),
    )
    steps = [m for m in metrics if m["event"] == "train"]
    rates = [m["lr"] for m in steps]
    assert max(rates) <= 0.02 and rates.index(max(rates)) in range(40, 80)
    assert rates[-1] < 1e-5 and rates[0] < 0.001
    assert all(m["grad_norm"] is not None for m in steps)
    last = [m for m in metrics if m["event"] == "eval"][-1]
    assert last["eval_r2"] > 0.95 and last["eval_mae"] < 0.15
