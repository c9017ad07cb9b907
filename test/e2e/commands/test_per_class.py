"""`mpc eval --per-class` prints a confusion matrix and figures of each class,
which match NumPy.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

random = np.random.RandomState(3)


def identity(folder, *shape):
    """Saves y = x * w, with w of ones, for samples of `shape`."""
    model = mpctest.make_model(
        [helper.make_node("Mul", ["x", "w"], ["y"], "scale")],
        {"x": (np.float32, ["N", *shape])},
        {"y": (np.float32, ["N", *shape])},
        {"w": np.ones(shape, np.float32)},
    )
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def evaluate(folder, x, target, *flags, text=False):
    """Returns the text of `mpc eval`, or its JSON."""
    model = identity(folder, *x.shape[1:])
    np.savez(folder / "d.npz", x=x, target=target)
    process = mpctest.mpc_ok(
        *("eval", model, "--data", folder / "d.npz", "--batch-size", 4),
        *("--per-class", *flags, *(() if text else ("--format", "jsonl"))),
    )
    return process.stdout if text else json.loads(process.stdout)


def matrix_of(labels, predicted, classes):
    matrix = np.zeros((classes, classes), int)
    np.add.at(matrix, (labels.ravel(), predicted.ravel()), 1)
    return matrix


def check(classes, matrix):
    both, labels, predicted = np.diag(matrix), matrix.sum(1), matrix.sum(0)
    with np.errstate(invalid="ignore"):
        expected = {
            "precision": both / predicted,
            "recall": both / labels,
            "f1": 2 * both / (labels + predicted),
            "iou": both / (labels + predicted - both),
            "support": labels,
        }
    for name, values in expected.items():
        found = [entry[name] for entry in classes]
        np.testing.assert_allclose(found, np.nan_to_num(values), err_msg=name)


@pytest.mark.parametrize("loss", ("cross_entropy", "focal"))
def test_class_labels(loss, tmp_path):
    x = random.standard_normal((23, 5)).astype(np.float32)
    labels = random.randint(0, 4, 23)  # class 4 has no label
    counts = labels != 2
    result = evaluate(
        *(tmp_path, x, labels, "--loss", loss, "--ignore-index", 2),
        *("--metric", "mcc,balanced_accuracy"),
    )
    matrix = matrix_of(labels[counts], x.argmax(1)[counts], 5)
    assert result["eval_confusion"] == matrix.tolist()
    check(result["eval_classes"], matrix)
    # scikit-learn's definitions
    t, p, n = matrix.sum(1), matrix.sum(0), matrix.sum()
    spread = (n**2 - (t**2).sum()) * (n**2 - (p**2).sum())
    mcc = (np.trace(matrix) * n - (t * p).sum()) / np.sqrt(float(spread))
    assert result["eval_mcc"] == pytest.approx(mcc)
    recall = (np.diag(matrix) / np.maximum(t, 1))[t > 0].mean()
    assert result["eval_balanced_accuracy"] == pytest.approx(recall)


def test_segmentation(tmp_path):
    x = random.standard_normal((6, 3, 4, 2)).astype(np.float32)
    labels = random.randint(0, 3, (6, 4, 2))
    flags = ("--loss", "dice@y:1", "--metric", "iou")
    result = evaluate(tmp_path, x, labels, *flags)
    matrix = matrix_of(labels, x.argmax(1), 3)
    assert result["eval_confusion"] == matrix.tolist()
    check(result["eval_classes"], matrix)
    mean = np.mean([entry["iou"] for entry in result["eval_classes"]])
    assert result["eval_iou"] == pytest.approx(mean)


def test_probabilities_of_classes(tmp_path):
    x = random.standard_normal((9, 3)).astype(np.float32)
    labels = random.randint(0, 3, 9)
    target = np.eye(3, dtype=np.float32)[labels] * 0.8 + 0.2 / 3
    result = evaluate(tmp_path, x, target, "--loss", "cross_entropy")
    assert result["eval_confusion"] == matrix_of(labels, x.argmax(1), 3).tolist()


def test_binary_targets(tmp_path):
    x = random.standard_normal((10, 3)).astype(np.float32)
    target = (random.rand(10, 3) > 0.4).astype(np.float32)
    flags = ("--loss", "bce_with_logits", "--metric", "mcc,balanced_accuracy")
    result = evaluate(tmp_path, x, target, *flags)
    assert "eval_confusion" not in result
    scores = []
    for c, entry in enumerate(result["eval_classes"]):
        matrix = matrix_of(target[:, c].astype(int), (x[:, c] > 0).astype(int), 2)
        true = matrix[1, 1]
        assert entry["support"] == matrix[1].sum()
        assert entry["predicted"] == matrix[:, 1].sum()
        assert entry["correct"] == true and entry["targets"] == 10
        assert entry["recall"] == pytest.approx(true / matrix[1].sum())
        sides = matrix.sum(0).prod() * matrix.sum(1).prod()
        product = matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0]
        scores.append(
            (product / np.sqrt(sides), (np.diag(matrix) / matrix.sum(1)).mean())
        )
    mcc, balanced = np.mean(scores, 0)
    assert result["eval_mcc"] == pytest.approx(mcc)
    assert result["eval_balanced_accuracy"] == pytest.approx(balanced)
    text = evaluate(tmp_path, x, target, *flags[:2], text=True)
    assert "true +  false +  false -  true -" in text


def test_names_of_folders(tmp_path):
    """Labels that are folders have names."""
    x = random.standard_normal((5, 2, 3)).astype(np.float32)
    for name, rows in zip(("cat", "dog"), (x[:3], x[3:])):
        (tmp_path / "d" / name).mkdir(parents=True)
        for i, row in enumerate(rows):
            np.save(tmp_path / "d" / name / f"{i}.npy", row)
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"], "layer"),
            helper.make_node("ReduceMean", ["h"], ["y"], "mean", axes=[1], keepdims=0),
        ],
        {"x": (np.float32, ["N", 2, 3])},
        {"y": (np.float32, ["N", 2])},
        {"w": random.standard_normal((3, 2)).astype(np.float32)},
    )
    onnx.save(model, tmp_path / "m.onnx")
    process = mpctest.mpc_ok(
        *("eval", tmp_path / "m.onnx", "--data", f"x={tmp_path / 'd'}"),
        *("--batch-size", 2, "--loss", "cross_entropy", "--per-class"),
    )
    lines = process.stdout.splitlines()
    assert lines[0].startswith("evaluation: accuracy ")
    assert lines[1].split() == ["class", "precision", "recall", "f1", "iou", "support"]
    assert lines[2].split()[0] == "cat" and lines[2].split()[-1] == "3"
    assert lines[3].split()[0] == "dog" and lines[3].split()[-1] == "2"
    assert lines[4].startswith("confusion matrix")
    assert lines[5].split() == ["cat", "dog"]


def test_many_classes_are_bounded(tmp_path):
    """A list of the most frequent confusions replaces a large matrix."""
    classes, count = 300, 900
    labels = np.arange(count) % classes
    x = np.eye(classes, dtype=np.float32)[labels]
    x[labels == 7, 9] = 2
    flags = ("--loss", "cross_entropy")
    result = evaluate(tmp_path, x, labels, *flags)
    assert "eval_confusion" not in result
    assert result["eval_confused"] == [{"label": 7, "predicted": 9, "count": 3}]
    assert len(result["eval_classes"]) == classes
    lines = evaluate(tmp_path, x, labels, *flags, text=True).splitlines()
    assert len(lines) < 30
    # The classes with the lowest F1 come first.
    assert [line.split()[0] for line in lines[2:4]] == ["7", "9"]
    assert "and 280 other classes" in lines[22]
    assert lines[-1].split() == ["7", "9", "3"]


def test_values_have_no_classes(tmp_path):
    x = random.standard_normal((4, 3)).astype(np.float32)
    model = identity(tmp_path, 3)
    np.savez(tmp_path / "d.npz", x=x, target=x)
    process = mpctest.mpc_ok(
        *("eval", model, "--data", tmp_path / "d.npz", "--batch-size", 4),
        *("--loss", "mse", "--per-class"),
    )
    assert process.stdout.count("\n") == 1
    assert "--per-class prints nothing" in process.stderr


def test_classes_of_several_losses(tmp_path):
    x = random.standard_normal((7, 3)).astype(np.float32)
    labels = random.randint(0, 3, 7)
    model = mpctest.make_model(
        [
            helper.make_node("Mul", ["x", "w"], ["a"], "first"),
            helper.make_node("Neg", ["a"], ["b"], "second"),
        ],
        {"x": (np.float32, ["N", 3])},
        {"a": (np.float32, ["N", 3]), "b": (np.float32, ["N", 3])},
        {"w": np.ones(3, np.float32)},
    )
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=x, target=labels)
    process = mpctest.mpc_ok(
        *("eval", tmp_path / "m.onnx", "--data", tmp_path / "d.npz"),
        *("--loss", "cross_entropy@a", "--loss", "dice@b", "--batch-size", 4),
        *("--per-class", "--format", "jsonl"),
    )
    result = json.loads(process.stdout)
    for name, scores in (("a", x), ("b", -x)):
        matrix = matrix_of(labels, scores.argmax(1), 3)
        assert result[f"eval_confusion@{name}"] == matrix.tolist()


def test_the_second_folder_is_the_binary_target(tmp_path):
    """Binary targets of two folders tell the second from the first."""
    x = np.array([[-1.0], [-2.0], [1.0], [2.0], [3.0]], np.float32)
    model = identity(tmp_path, 1)
    for name, rows in zip(("cat", "dog"), (x[:2], x[2:])):
        (tmp_path / "d" / name).mkdir(parents=True)
        for i, row in enumerate(rows):
            np.save(tmp_path / "d" / name / f"{i}.npy", row)
    process = mpctest.mpc_ok(
        *("eval", model, "--data", f"x={tmp_path / 'd'}", "--batch-size", 1),
        *("--loss", "bce_with_logits", "--per-class"),
    )
    rows = [line.split() for line in process.stdout.splitlines()]
    assert ["dog", "1.0000", "1.0000", "1.0000", "1.0000", "3"] in rows
    assert not any("cat" in row for row in rows)
