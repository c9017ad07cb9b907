"""A user ranks items for users from a shop's click table: user and item ids,
prices, and few clicks. The model has embeddings.

SPDX-License-Identifier: Apache-2.0
"""

import csv

import numpy as np
import onnxruntime
from onnx import helper

import mpctest
from journey import INVALID, USAGE, linear, parameters, refused, save

USERS, ITEMS = 40, 20


def recommender():
    """Returns a model of scores [N], from two embeddings and three numbers."""
    nodes = [
        helper.make_node("Gather", ["user.weight", "user_id"], ["u"], "user"),
        helper.make_node("Gather", ["item.weight", "item_id"], ["i"], "item"),
        helper.make_node("Concat", ["u", "i", "dense"], ["all"], "all", axis=1),
        linear("fc1", "all", "h"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        linear("fc2", "r", "score"),
        helper.make_node("Squeeze", ["score", "last"], ["click"], "squeeze"),
    ]
    random = np.random.default_rng(0)
    values = parameters(random, fc1=(16, 4 + 4 + 3), fc2=(1, 16))
    values["user.weight"] = random.normal(0, 1, (USERS, 4)).astype(np.float32)
    values["item.weight"] = random.normal(0, 1, (ITEMS, 4)).astype(np.float32)
    values["last"] = np.array([1])
    return mpctest.make_model(
        nodes,
        {
            "user_id": (np.int64, ["batch"]),
            "item_id": (np.int64, ["batch"]),
            "dense": (np.float32, ["batch", 3]),
        },
        {"click": (np.float32, ["batch"])},
        values,
    )


def save_clicks(path, count, seed):
    """Writes a day's rows. One in seven is a click, after the users' and items'
    tastes."""
    random = np.random.default_rng(7)
    users, items = random.normal(0, 1, (USERS, 2)), random.normal(0, 1, (ITEMS, 2))
    random = np.random.default_rng(seed)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow("time,user_id,item_id,price,age,hour,clicked".split(","))
        for k in range(count):
            u, i = random.integers(USERS), random.integers(ITEMS)
            price, age, hour = random.gamma(2, 10), 18 + k % 50, k % 24
            score = 2 * (users[u] @ items[i]) - price / 20 - 2
            click = int(random.random() < 1 / (1 + np.exp(-score)))
            row = [f"2026-01-01 {hour}:00", u, i, round(price, 2), age, hour, click]
            writer.writerow(row)
    return path


def area(scores, labels):
    """Returns the area under the ROC curve: the share of correctly ordered
    pairs of a click and a non-click."""
    above = scores[labels == 1][:, None] - scores[labels == 0]
    return ((above > 0) + 0.5 * (above == 0)).mean()


def test_journey(tmp_path):
    model = save(recommender(), tmp_path / "model.onnx")
    train = save_clicks(tmp_path / "train.csv", 4000, 1)
    held = save_clicks(tmp_path / "held.csv", 700, 2)
    command = ["train", model, "--data", train, "--val-data", held]
    command += ["--loss", "bce_with_logits", "--optimizer", "adam", "--lr", 0.01]
    # mpc answers other tools' words, and names columns that are not features.
    said = refused(USAGE, *command, "--metric", "roc_auc")
    assert "did you mean auc?" in said
    command += ["--metric", "auc,precision,recall", "--target-array", "clicked"]
    said = refused(INVALID, *command)
    assert "4 columns are left for the input 'dense', which takes 3" in said
    columns = ["--csv-columns", "dense=price:hour"]
    columns += ["--normalize", "dense=20,43,12:14,15,7"]
    output, metrics = tmp_path / "trained.onnx", tmp_path / "m.jsonl"
    process = mpctest.mpc_ok(
        *(*command, *columns, "--batch-size", 50, "--epochs", 5, "--pos-weight", 6),
        *("--best", "auc", "--metrics", metrics, "--output", output),
    )
    assert "best: step" in process.stdout and "auc 0." in process.stdout

    # ONNX Runtime's scores have the same area.
    rows = np.genfromtxt(held, delimiter=",", skip_header=1)[:, 1:]
    labels = rows[:, -1]
    dense = (rows[:, 2:5] - [20, 43, 12]) / [14, 15, 7]
    inputs = {
        "user_id": rows[:, 0].astype(np.int64),
        "item_id": rows[:, 1].astype(np.int64),
        "dense": dense.astype(np.float32),
    }
    (scores,) = onnxruntime.InferenceSession(output).run(None, inputs)
    expected = area(scores, labels)
    evaluations = [e for e in mpctest.read_metrics(metrics) if e["event"] == "eval"]
    best = max(event["eval_auc"] for event in evaluations)
    np.testing.assert_allclose(best, expected, rtol=1e-6)
    assert best > 0.8
    final = mpctest.mpc_ok(
        *("eval", output, "--data", held, *columns, "--target-array", "clicked"),
        *("--loss", "bce_with_logits", "--metric", "precision,recall"),
    )
    clicks = scores > 0
    right = (clicks & (labels == 1)).sum()
    assert f"precision {right / clicks.sum():.6g}, " in final.stdout
    assert f"recall {right / labels.sum():.6g}, " in final.stdout

    # The output has a score per row, in the table's order.
    ranked = tmp_path / "ranked.csv"
    mpctest.mpc_ok("run", output, "--data", held, *columns, "-o", ranked)
    predicted = np.genfromtxt(ranked, delimiter=",", names=True)["click"]
    np.testing.assert_allclose(predicted, scores, atol=1e-5)
