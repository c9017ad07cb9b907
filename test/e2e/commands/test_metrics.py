"""Each `--metric` covers the whole evaluation set, independent of batches. The
reference is the definition in NumPy applied to ONNX Runtime's predictions.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import mpctest

# The held-back samples are not a multiple of the batch.
HELD_BACK = 77
COMMON = ("--batch-size", 32, "--max-steps", 3, "--optimizer", "adamw")


def digits(start, count):
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        part = slice(start, start + count)
        return arrays["image"][part], arrays["target"][part].astype(int)


def evaluate(model, data, held, folder, *flags):
    """Returns the last evaluation, and the trained model's predictions on the
    same data."""
    np.savez(folder / "held.npz", **held)
    metrics, _ = mpctest.train(
        *(model, data, folder, *COMMON, *flags),
        *("--val-data", folder / "held.npz"),
    )
    event = [event for event in metrics if event["event"] == "eval"][-1]
    session = onnxruntime.InferenceSession(folder / "trained.onnx")
    image = held["image"].astype(np.float32)
    return event, session.run(None, {"image": image})[0].astype(np.float64)


def wanted(*names):
    return [flag for name in names for flag in ("--metric", name)]


def f1(labels, predictions):
    both = (labels & predictions).sum()
    return 2 * both / (labels.sum() + predictions.sum())


def iou(labels, predictions):
    return (labels & predictions).sum() / (labels | predictions).sum()


def precision(labels, predictions):
    return (labels & predictions).sum() / max(predictions.sum(), 1)


def recall(labels, predictions):
    return (labels & predictions).sum() / max(labels.sum(), 1)


def area(labels, scores):
    """Returns the area under the ROC curve: the share of correctly ordered
    pairs."""
    above = scores[labels][:, None] - scores[~labels]
    return ((above > 0) + 0.5 * (above == 0)).mean()


def macro(metric, labels, predictions):
    classes = np.union1d(labels, predictions)
    return np.mean([metric(labels == c, predictions == c) for c in classes])


@pytest.mark.parametrize("flags", ((), ("--label-smoothing", 0.2)))
def test_class_labels(flags, tmp_path):
    image, target = digits(0, 100)
    held, labels = digits(100, HELD_BACK)
    labels[labels == 7] = 1
    labels[::5] = -100
    event, scores = evaluate(
        *(mpctest.MODELS / "mlp.onnx", {"image": image, "target": target}),
        *({"image": held, "target": labels}, tmp_path),
        *("--loss", "cross_entropy", *flags),
        *wanted("top3", "f1", "iou", "perplexity", "accuracy", "top1"),
        *wanted("precision", "recall", "auc"),
    )
    counts = labels != -100
    scores, labels = scores[counts], labels[counts]
    ranks = (-scores).argsort(1)
    top3 = (ranks[:, :3] == labels[:, None]).any(1).mean()
    rates = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    loss = -rates[np.arange(len(labels)), labels].mean()
    assert event["eval_top3"] == pytest.approx(top3)
    assert event["eval_top1"] == event["eval_accuracy"]
    assert event["eval_accuracy"] == pytest.approx((ranks[:, 0] == labels).mean())
    assert event["eval_f1"] == pytest.approx(macro(f1, labels, ranks[:, 0]))
    assert event["eval_iou"] == pytest.approx(macro(iou, labels, ranks[:, 0]))
    for name, metric in (("precision", precision), ("recall", recall)):
        wanted_value = macro(metric, labels, ranks[:, 0])
        assert event["eval_" + name] == pytest.approx(wanted_value)
    # A class without labels has no area.
    areas = [area(labels == c, rates[:, c]) for c in np.unique(labels)]
    assert event["eval_auc"] == pytest.approx(np.mean(areas), rel=1e-4)
    assert event["eval_perplexity"] == pytest.approx(np.exp(loss), rel=1e-5)
    if not flags:
        assert event["eval_loss"] == pytest.approx(loss, rel=1e-5)


def test_tokens(tmp_path):
    """Scores are [samples, tokens, classes], as in language models."""
    image, target = digits(0, 100)
    held, labels = digits(100, HELD_BACK)
    model = onnx.load(mpctest.MODELS / "mlp.onnx")
    model.graph.node.append(
        helper.make_node("Reshape", ["logits", "shape"], ["tokens"], "tokens")
    )
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array([-1, 2, 5]), "shape")
    )
    output = helper.make_tensor_value_info("tokens", 1, ["N", 2, 5])
    model.graph.output[0].CopyFrom(output)
    places = np.stack([labels % 5, labels // 2], 1)
    event, scores = evaluate(
        *(model, {"image": image, "target": np.stack([target % 5] * 2, 1)}),
        *({"image": held, "target": places}, tmp_path),
        *("--loss", "cross_entropy@tokens:2", *wanted("perplexity", "top2")),
    )
    rates = scores - np.log(np.exp(scores).sum(2, keepdims=True))
    picked = np.take_along_axis(rates, places[..., None], 2)
    assert event["eval_perplexity"] == pytest.approx(
        np.exp(-picked.mean()), rel=1e-5
    )
    top2 = (-scores).argsort(2)[..., :2] == places[..., None]
    assert event["eval_top2"] == pytest.approx(top2.any(2).mean())


@pytest.mark.parametrize("loss", ("bce_with_logits", "bce"))
def test_binary_targets(loss, tmp_path):
    image, target = digits(0, 100)
    held, labels = digits(100, HELD_BACK)
    bits = np.arange(10)
    event, outputs = evaluate(
        *(mpctest.MODELS / "mlp.onnx" if loss != "bce" else with_sigmoid(),),
        {"image": image, "target": (target[:, None] > bits).astype(np.float32)},
        {"image": held, "target": (labels[:, None] > bits).astype(np.float32)},
        *(tmp_path, "--loss", loss, *wanted("f1", "iou", "accuracy")),
        *wanted("precision", "recall", "auc"),
    )
    predictions = outputs > (0.5 if loss == "bce" else 0)
    positive = labels[:, None] > bits
    assert event["eval_accuracy"] == pytest.approx((predictions == positive).mean())
    occurring = (positive | predictions).any(0)
    for metric in (f1, iou, precision, recall):
        values = [metric(positive[:, c], predictions[:, c]) for c in bits[occurring]]
        assert event["eval_" + metric.__name__] == pytest.approx(np.mean(values))
    # The last class is positive in no label.
    areas = [area(positive[:, c], outputs[:, c]) for c in bits[:-1]]
    assert event["eval_auc"] == pytest.approx(np.mean(areas), rel=1e-4)


def with_sigmoid():
    model = onnx.load(mpctest.MODELS / "mlp.onnx")
    model.graph.node.append(helper.make_node("Sigmoid", ["logits"], ["p"], "p"))
    model.graph.output[0].name = "p"
    return model


def test_values(tmp_path):
    """The targets are far from 0. A sum of squares would lose their deviations."""
    image, target = digits(0, 100)
    held, labels = digits(100, HELD_BACK)
    scale = np.arange(1, 11) / 4

    def targets(labels):
        return (1000 + labels[:, None] * scale).astype(np.float32)

    event, outputs = evaluate(
        *(mpctest.MODELS / "mlp.onnx", {"image": image, "target": targets(target)}),
        *({"image": held, "target": targets(labels)}, tmp_path),
        *("--loss", "huber", *wanted("mae", "rmse", "r2")),
    )
    goal = targets(labels).astype(np.float64)
    error = outputs - goal
    assert event["eval_mae"] == pytest.approx(np.abs(error).mean(), rel=1e-6)
    assert event["eval_rmse"] == pytest.approx(
        np.sqrt((error**2).mean()), rel=1e-6
    )
    deviations = ((goal - goal.mean(0)) ** 2).sum(0)
    r2 = np.mean(1 - (error**2).sum(0) / deviations)
    assert event["eval_r2"] == pytest.approx(r2, rel=1e-5)
    assert event["eval_accuracy"] is None
