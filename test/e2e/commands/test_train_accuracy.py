"""`--train-accuracy` counts each step's correct predictions before the update.
ONNX Runtime is the reference.

SPDX-License-Identifier: Apache-2.0
"""

import csv

import numpy as np
import onnxruntime
import pytest

import mpctest

MLP = mpctest.MODELS / "mlp.onnx"
COMMON = ["--loss", "cross_entropy", "--batch-size", 16, "--train-accuracy"]


def digits(count=96):
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        image, target = arrays["image"][:count], arrays["target"][:count]
    target = target.astype(int)
    target[::7] = -100
    return {"image": image, "target": target}


def accuracies(metrics):
    return [m["accuracy"] for m in metrics if m["event"] == "train"]


@pytest.mark.parametrize(
    "more, samples",
    [
        ([], 16),
        (["--accumulate-grad-batches", 3], 48),
        (["--precision", "bf16-mixed", "--label-smoothing", 0.1], 16),
    ],
    ids=["step", "accumulated", "mixed"],
)
def test_ignored_labels_count_nowhere(more, samples, tmp_path):
    """At rate 0 every step sees the same weights."""
    data = digits()
    metrics, _ = mpctest.train(MLP, data, tmp_path, *COMMON, "--lr", 0, *more)
    session = onnxruntime.InferenceSession(MLP)
    image = data["image"].astype(np.float32)
    right = session.run(None, {"image": image})[0].argmax(1) == data["target"]
    counts = data["target"] != -100
    expected = [
        right[start : start + samples].sum() / counts[start : start + samples].sum()
        for start in range(0, 96, samples)
    ]
    # bfloat16 may classify one of about 13 labels differently.
    tolerance = 0.1 if "bf16-mixed" in more else 1e-6
    assert accuracies(metrics) == pytest.approx(expected, abs=tolerance)
    assert len(set(expected)) > 1


def test_everywhere_that_steps_are_reported(tmp_path):
    np.savez(tmp_path / "d.npz", **digits())
    jsonl, table = tmp_path / "m.jsonl", tmp_path / "m.csv"
    process = mpctest.mpc_ok(
        *("train", MLP, "--data", tmp_path / "d.npz", *COMMON, "--epochs", 20),
        *("--optimizer", "adamw", "--lr", 0.01, "--log-every", 0),
        *("--metrics", jsonl, "--metrics", table, *mpctest.TARGET),
    )
    found = accuracies(mpctest.read_metrics(jsonl))
    # The model learns, and an epoch's line has the mean of its steps.
    assert np.mean(found[-6:]) > 0.9 > 0.5 > np.mean(found[:6])
    epoch = next(l for l in process.stderr.splitlines() if "epoch 1/20 done" in l)
    assert f"accuracy {100 * np.mean(found[:6]):.2f}%" in epoch
    with open(table, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["event"] == "train"]
    assert [float(row["accuracy"]) for row in rows] == found
    mpctest.mpc_ok("report", jsonl, "-o", tmp_path / "r.html")
    assert "Accuracy of training batches" in (tmp_path / "r.html").read_text()


def test_the_weights_are_those_of_a_run_without(tmp_path):
    data = digits()
    flags = ["--optimizer", "adamw", "--epochs", 3]
    with_it = mpctest.train(MLP, data, tmp_path / "with", *COMMON, *flags)
    without = mpctest.train(MLP, data, tmp_path / "without", *COMMON[:-1], *flags)
    for name, value in without[1].items():
        np.testing.assert_array_equal(with_it[1][name], value)
    assert all("accuracy" not in m for m in without[0] if m["event"] == "train")
