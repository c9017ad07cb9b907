"""A user distils a large model into a small one, with predictions as a table
and as arrays, and probabilities as targets.

SPDX-License-Identifier: Apache-2.0
"""

import csv

import journey
import numpy as np
import pytest

import mpctest

SAMPLES = 96
CROSS_ENTROPY = ["--loss", "cross_entropy"]
RUN = ["--batch-size", 32, "--optimizer", "sgd", "--lr", 0.5]


def softmax(scores):
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def features():
    random = np.random.default_rng(0)
    x = random.normal(size=(SAMPLES, 4)).astype(np.float32)
    return x, np.argmax(x[:, :3], axis=1)


def predict(model, data, output):
    mpctest.mpc_ok("run", model, "--data", data, "--output", output)
    return output


def scores_of(weights, x):
    hidden = np.maximum(x @ weights["fc1.weight"].T + weights["fc1.bias"], 0)
    return hidden @ weights["fc2.weight"].T + weights["fc2.bias"]


def cross_entropy(scores, targets, weights=1.0, smoothing=0.0):
    """Follows torch.nn.functional.cross_entropy with probabilities as targets."""
    part = targets * (1 - smoothing) + smoothing / targets.shape[1]
    return -np.mean(np.sum(weights * part * np.log(softmax(scores)), axis=1))


def test_a_student_learns_what_the_teacher_says(tmp_path):
    x, labels = features()
    data = {"x": x, "target": labels}
    teacher = journey.perceptron(hidden=32)
    mpctest.train(teacher, data, tmp_path, *CROSS_ENTROPY, *RUN, "--epochs", 20)
    trained = tmp_path / "trained.onnx"
    # The table holds the arrays' numbers, to the bit.
    arrays = predict(trained, tmp_path / "data.npz", tmp_path / "p.npz")
    table = predict(trained, tmp_path / "data.npz", tmp_path / "p.csv")
    with np.load(arrays) as file:
        scores = file["y"]
    with open(table, newline="") as file:
        names, *rows = csv.reader(file)
    assert names == ["y_0", "y_1", "y_2"]
    np.testing.assert_array_equal(np.array(rows, np.float32), scores)
    # The student's loss equals PyTorch's, and falls.
    student = journey.perceptron(hidden=4, seed=1)
    taught = {"x": x, "target": softmax(scores)}
    flags = ["--class-weights", "1,2,3", "--label-smoothing", 0.1]
    flags += ["--precision", "64-true", "--epochs", 5]
    metrics, after = mpctest.train(
        student, taught, tmp_path / "student", *CROSS_ENTROPY, *RUN, *flags
    )
    losses = mpctest.losses(metrics)
    before = {
        name: value.astype(np.float64)
        for name, value in mpctest.read_weights(
            tmp_path / "student" / "model.onnx"
        ).items()
    }
    first = cross_entropy(
        *(scores_of(before, x[:32]), taught["target"][:32]),
        *(np.array([1, 2, 3]), 0.1),
    )
    np.testing.assert_allclose(losses[0], first, rtol=1e-7)
    assert losses[-1] < losses[0]
    # An evaluation covers all samples, whatever the batch.
    line = mpctest.mpc_ok(
        *("eval", tmp_path / "student" / "trained.onnx", *CROSS_ENTROPY),
        *("--data", tmp_path / "student" / "data.npz", "--batch-size", 36),
    ).stdout
    whole = cross_entropy(scores_of(after, x), taught["target"])
    np.testing.assert_allclose(float(line.split("loss ")[1].split()[0]), whole, 1e-5)
    # The share of samples with equal most probable classes, as in Keras.
    same = np.mean(scores_of(after, x).argmax(1) == taught["target"].argmax(1))
    assert f"accuracy {100 * same:.2f}%" in line


def test_one_hot_labels_are_probabilities(tmp_path):
    x, labels = features()
    losses = [
        mpctest.losses(
            mpctest.train(
                *(journey.perceptron(), {"x": x, "target": target}, tmp_path / name),
                *(*CROSS_ENTROPY, *RUN, "--precision", "64-true"),
            )[0]
        )
        for name, target in (("labels", labels), ("hot", np.eye(3, dtype="u1")[labels]))
    ]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-12)


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--ignore-index", 1], "is for class labels, and has no effect on"),
        (["--metric", "top2,f1", "--val-split", 0.25], "--metric top2 needs"),
        (["--train-accuracy"], "--train-accuracy needs a loss of class labels"),
    ],
)
def test_what_is_of_class_labels_is_refused(flags, said, tmp_path):
    x, labels = features()
    data = journey.save_arrays(
        tmp_path / "d.npz", x=x, target=np.eye(3, dtype=np.float32)[labels]
    )
    model = journey.save(journey.perceptron(), tmp_path / "m.onnx")
    text = journey.refused(
        *(journey.USAGE, "train", model, "--data", data, *CROSS_ENTROPY),
        *("--batch-size", 32, *flags),
    )
    assert said in text


def test_a_loss_is_no_row_of_a_table(tmp_path):
    model = journey.save(journey.perceptron(batch=2), tmp_path / "m.onnx")
    text = journey.refused(
        *(journey.USAGE, "run", model, "--loss", "mse", "--function", "eval"),
        *("--input", "x=[[1,2,3,4],[5,6,7,8]]", "--input", "target=[[1,2,3],[1,2,3]]"),
        *("-o", tmp_path / "p.csv"),
    )
    assert "p.csv: a table has a row of numbers for each sample, and output 'loss'" in text


def test_several_metrics_and_their_table(tmp_path):
    x, labels = features()
    data = journey.save_arrays(tmp_path / "d.npz", x=x, target=labels)
    model = journey.save(journey.perceptron(), tmp_path / "m.onnx")
    table = tmp_path / "run.csv"
    said = mpctest.mpc_ok(
        *("train", model, "--data", data, "--val-split", 0.25, *CROSS_ENTROPY),
        *(*RUN, "--metric", "top2,f1", "--metric", "iou", "--metrics", table),
    ).stdout
    assert all(name in said for name in ("top2 ", "f1 ", "iou "))
    page = tmp_path / "page.html"
    mpctest.mpc_ok("report", table, "-o", page)
    text = page.read_text()
    assert "top2" in text and "<svg" in text
    # A name listed twice counts as given twice.
    assert "--metric f1: given twice" in journey.refused(
        *(journey.USAGE, "train", model, "--data", data, "--val-split", 0.25),
        *(*CROSS_ENTROPY, "--metric", "f1,top2,f1"),
    )
