"""Sums of losses over several outputs, each with its own targets, match NumPy
in float64: values, gradients and evaluation.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

SAMPLES, BATCH = 11, 4
random = np.random.RandomState(5)
X = random.standard_normal((SAMPLES, 6))
HEAD, AUX, FIT = (random.standard_normal(s) for s in ((6, 4), (6, 3), (6, 2)))
LABELS = np.arange(SAMPLES) % 4
OTHERS = np.where(np.arange(SAMPLES) % 5 == 1, -100, np.arange(SAMPLES) % 3)
GOAL = random.standard_normal((SAMPLES, 2))


def model():
    nodes = [
        helper.make_node("MatMul", ["x", name], [f"{name}_out"], f"{name}_node")
        for name in ("head", "aux", "fit")
    ]
    outputs = {
        "head_out": (np.float64, ["N", 4]),
        "aux_out": (np.float64, ["N", 3]),
        "fit_out": (np.float64, ["N", 2]),
    }
    return mpctest.make_model(
        *(nodes, {"x": (np.float64, ["N", 6])}, outputs),
        {"head": HEAD, "aux": AUX, "fit": FIT},
    )


DATA = {"x": X, "labels": LABELS, "others": OTHERS, "goal": GOAL}
LOSSES = (
    *("--loss", "cross_entropy@head_out", "--loss", "0.3*cross_entropy@aux_out"),
    *("--loss", "2*mse@fit_out", "--loss", "0.5*l1@fit_out"),
    *("--target-array", "labels", "--target-array", "aux_out=others"),
    *("--target-array", "fit_out=goal"),
)
COMMON = (
    *("--batch-size", BATCH, "--precision", "64-true", "--optimizer", "sgd"),
    *("--max-steps", 1, "--lr", 1),
)


def softmax(scores):
    exp = np.exp(scores)
    return exp / exp.sum(1, keepdims=True)


def cross_entropy(scores, labels):
    """Returns the loss and its gradient."""
    counts = labels >= 0
    rates = softmax(scores)
    safe = np.where(counts, labels, 0)
    rows = np.arange(len(labels))
    loss = -np.log(rates[rows, safe])[counts].sum() / counts.sum()
    hot = np.eye(scores.shape[1])[safe]
    return loss, (rates - hot) * counts[:, None] / counts.sum()


NAMES = (
    *("cross_entropy@head_out", "cross_entropy@aux_out", "mse@fit_out"),
    "l1@fit_out",
)


def terms_of(weights, part):
    """Returns the losses by name, without their factors."""
    x = X[part]
    error = x @ weights["fit"] - GOAL[part]
    values = (
        cross_entropy(x @ weights["head"], LABELS[part])[0],
        cross_entropy(x @ weights["aux"], OTHERS[part])[0],
        *((error**2).mean(), np.abs(error).mean()),
    )
    return dict(zip(NAMES, values))


def expected(weights, part):
    """Returns the sum of the losses, and its gradients."""
    x = X[part]
    head, d_head = cross_entropy(x @ weights["head"], LABELS[part])
    aux, d_aux = cross_entropy(x @ weights["aux"], OTHERS[part])
    error = x @ weights["fit"] - GOAL[part]
    fit = 2 * (error**2).mean() + 0.5 * np.abs(error).mean()
    d_fit = (4 * error + 0.5 * np.sign(error)) / error.size
    slopes = {
        "head": x.T @ d_head,
        "aux": 0.3 * x.T @ d_aux,
        "fit": x.T @ d_fit,
    }
    return head + 0.3 * aux + fit, slopes


def test_values_and_gradients(tmp_path):
    np.savez(tmp_path / "held.npz", **DATA)
    metrics, weights = mpctest.train(
        *(model(), DATA, tmp_path, *LOSSES, *COMMON),
        *("--val-data", tmp_path / "held.npz", "--metric", "top2"),
    )
    before = {"head": HEAD, "aux": AUX, "fit": FIT}
    loss, slopes = expected(before, slice(0, BATCH))
    assert mpctest.losses(metrics)[0] == pytest.approx(loss, rel=1e-12)
    for name, value in before.items():
        np.testing.assert_allclose(
            *(weights[name], value - slopes[name]), rtol=1e-11, err_msg=name
        )
    # Each loss is reported by itself, too.
    step = next(event for event in metrics if event["event"] == "train")
    for name, term in terms_of(before, slice(0, BATCH)).items():
        assert step[name] == pytest.approx(term, rel=1e-12), name
    # Evaluation covers all samples. Each loss counts its own labels.
    event = [event for event in metrics if event["event"] == "eval"][-1]
    loss, _ = expected(weights, slice(None))
    assert event["eval_loss"] == pytest.approx(loss, rel=1e-12)
    assert event["eval_samples"] == SAMPLES
    for name, term in terms_of(weights, slice(None)).items():
        assert event["eval_" + name] == pytest.approx(term, rel=1e-12), name
    # Accuracy and metrics apply to the first loss.
    scores = X @ weights["head"]
    places = (-scores).argsort(1)
    assert event["eval_accuracy"] == pytest.approx(
        (places[:, 0] == LABELS).mean()
    )
    top2 = (places[:, :2] == LABELS[:, None]).any(1).mean()
    assert event["eval_top2"] == pytest.approx(top2)


def test_metrics_of_the_first(tmp_path):
    """If the first loss is of values, the metric must not take another loss's
    labels."""
    np.savez(tmp_path / "held.npz", **DATA)
    metrics, weights = mpctest.train(
        *(model(), DATA, tmp_path, *COMMON, "--metric", "mae"),
        *("--val-data", tmp_path / "held.npz", "--target-array", "goal"),
        *("--loss", "mse@fit_out", "--loss", "cross_entropy@head_out"),
        *("--target-array", "head_out=labels"),
    )
    event = [event for event in metrics if event["event"] == "eval"][-1]
    error = np.abs(X @ weights["fit"] - GOAL)
    assert event["eval_mae"] == pytest.approx(error.mean(), rel=1e-12)
    assert event["eval_accuracy"] is None


def test_shared_labels(tmp_path):
    """Heads share labels, as in GoogLeNet."""
    data = {"x": X, "target": LABELS % 3}
    _, weights = mpctest.train(
        *(model(), data, tmp_path, *COMMON),
        *("--loss", "cross_entropy@aux_out", "--loss", "cross_entropy@head_out"),
    )
    _, slopes = cross_entropy(X[:BATCH] @ HEAD, LABELS[:BATCH] % 3)
    np.testing.assert_allclose(
        weights["head"], HEAD - X[:BATCH].T @ slopes, rtol=1e-11
    )


def test_labels_are_checked_by_their_own_classes(tmp_path):
    """One head has three classes and the other has four: label 3 is wrong for
    the first only."""
    onnx_model = tmp_path / "model.onnx"
    np.savez(tmp_path / "data.npz", **{**DATA, "others": LABELS})
    onnx_model.write_bytes(model().SerializeToString())
    process = mpctest.mpc(
        *("train", onnx_model, "--data", tmp_path / "data.npz"),
        *(*LOSSES, *COMMON),
    )
    assert process.returncode == 3
    assert "others[3]: label 3 is not in [0,3)" in process.stderr


def test_one_loss_with_a_factor(tmp_path):
    data = {"x": X, "target": GOAL}
    common = (*COMMON, "--loss")
    _, whole = mpctest.train(model(), data, tmp_path, *common, "mse@fit_out")
    _, part = mpctest.train(model(), data, tmp_path, *common, "0.25*mse@fit_out")
    np.testing.assert_allclose(
        part["fit"] - FIT, (whole["fit"] - FIT) / 4, rtol=1e-12
    )


def test_labels_called_as_the_outputs_are_theirs(tmp_path):
    """As in Keras, arrays match outputs by name by default. The run equals a
    run with explicit flags."""
    data = {"x": X, "head_out": LABELS, "aux_out": OTHERS, "fit_out": GOAL}
    flags = LOSSES[:8]
    named = mpctest.train(model(), data, tmp_path / "named", *flags, *COMMON)
    told = mpctest.train(model(), DATA, tmp_path / "told", *LOSSES, *COMMON)
    assert mpctest.losses(named[0]) == mpctest.losses(told[0])
    for name, weights in told[1].items():
        np.testing.assert_array_equal(named[1][name], weights)


def test_an_output_whose_name_no_flag_can_say_has_no_labels_of_its_own(tmp_path):
    """The error must not mention a --target-array that the user did not give."""
    other = model()
    for node in other.graph.node:
        for i, name in enumerate(node.output):
            node.output[i] = name.replace("fit_out", "fit=out")
    for output in other.graph.output:
        output.name = output.name.replace("fit_out", "fit=out")
    onnx.save(other, tmp_path / "model.onnx")
    data = arrays(tmp_path, {"x": X, "fit=out": GOAL})
    process = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", data),
        *("--loss", "mse@fit=out", *COMMON),
    )
    assert process.returncode == 3, process.stderr
    assert "no array is called 'target'" in process.stderr


def test_losses_that_need_other_labels_say_so(tmp_path):
    data = {"x": X, "target": LABELS}
    flags = ("--loss", "cross_entropy@head_out", "--loss", "mse@fit_out")
    process = mpctest.mpc(
        *("train", save(tmp_path), "--data", arrays(tmp_path, data), *flags),
        *COMMON,
    )
    assert process.returncode == 3
    assert "one loss needs labels of int64[4], another of double[4,2]" in process.stderr
    assert "--target-array OUTPUT=ARRAY" in process.stderr



def test_metrics_of_every_output(tmp_path):
    """--best, --early-stopping and plateau watch a metric of an output, or a
    loss, and request what they watch."""
    held = arrays(tmp_path, DATA)
    metrics, weights = mpctest.train(
        *(model(), DATA, tmp_path / "run", *LOSSES, *COMMON),
        *("--val-data", held, "--metric", "r2@fit_out,accuracy@aux_out"),
        *("--best", "f1@aux_out", "--early-stopping", "min:mae@fit_out:3"),
        *("--lr-scheduler", "plateau:0.1:3:mse@fit_out"),
    )
    event = [event for event in metrics if event["event"] == "eval"][-1]
    goal, fit = GOAL, X @ weights["fit"]
    spread = ((goal - goal.mean(0)) ** 2).sum(0)
    r2 = (1 - ((fit - goal) ** 2).sum(0) / spread).mean()
    assert event["eval_r2@fit_out"] == pytest.approx(r2, rel=1e-9)
    mae = np.abs(fit - goal).mean()
    assert event["eval_mae@fit_out"] == pytest.approx(mae, rel=1e-12)
    counts = OTHERS >= 0
    found, labels = (X @ weights["aux"]).argmax(1)[counts], OTHERS[counts]
    accuracy = (found == labels).mean()
    assert event["eval_accuracy@aux_out"] == pytest.approx(accuracy)
    f1 = [
        2 * ((found == c) & (labels == c)).sum()
        / ((found == c).sum() + (labels == c).sum())
        for c in range(3)
    ]
    assert event["eval_f1@aux_out"] == pytest.approx(np.mean(f1))
    end = [event for event in metrics if event["event"] == "end"][-1]
    assert end["best_value"] == event["eval_f1@aux_out"]


@pytest.mark.parametrize(
    "flags, message",
    (
        (["--metric", "r2"], "is for losses of values"),
        (["--metric", "r2"], "use --metric r2@fit_out"),
        (["--metric", "r2@box"], "no loss reads the output 'box'"),
        (["--metric", "r2@aux_out"], "and the loss is cross_entropy@aux_out"),
        (["--metric", "r2@"], "unknown metric 'r2@'"),
        (["--best", "mse@head_out"], "there is no loss mse@head_out"),
        (["--best", "r3@fit_out"], "unknown metric 'r3'; did you mean r2?"),
    ),
)
def test_metrics_of_no_loss(flags, message, tmp_path):
    held = arrays(tmp_path, DATA)
    process = mpctest.mpc(
        *("train", save(tmp_path), "--data", held, "--val-data", held),
        *(*LOSSES, *COMMON, "--output", tmp_path / "t.onnx", *flags),
    )
    assert process.returncode == 2, process.stderr
    assert message in process.stderr


def test_one_loss_has_no_name(tmp_path):
    data = {"x": X, "target": GOAL}
    held = arrays(tmp_path, data)
    common = ("--loss", "mse@fit_out", "--val-data", held)
    metrics, _ = mpctest.train(
        *(model(), data, tmp_path, *COMMON, *common, "--metric", "r2@fit_out"),
    )
    step = next(event for event in metrics if event["event"] == "train")
    assert not [key for key in step if key.startswith("mse")]
    event = [event for event in metrics if event["event"] == "eval"][-1]
    assert "eval_r2@fit_out" in event and "eval_mse@fit_out" not in event
    process = mpctest.mpc(
        *("train", save(tmp_path), "--data", held, *common, *COMMON),
        *("--best", "mse@fit_out", "--output", tmp_path / "t.onnx"),
    )
    assert process.returncode == 2
    assert "there is only one loss; say loss" in process.stderr


@pytest.mark.parametrize("batches", (1, 2))
def test_losses_in_every_record(batches, tmp_path):
    """Progress, table, TensorBoard and report name each loss. With
    accumulation, a loss is the mean over the batches of a step."""
    held, table = arrays(tmp_path, DATA), tmp_path / "run.csv"
    path = save(tmp_path)
    process = mpctest.mpc_ok(
        *("train", path, "--data", held, "--val-data", held, *LOSSES, *COMMON),
        *("--metrics", table, "--metrics", tmp_path / "run.jsonl"),
        *("--log-every", 0, "--tensorboard", tmp_path / "board", "--no-shuffle"),
        *("--accumulate-grad-batches", batches, "--output", tmp_path / "t.onnx"),
    )
    terms = terms_of({"head": HEAD, "aux": AUX, "fit": FIT}, slice(0, BATCH))
    rest = slice(BATCH, 2 * BATCH)
    if batches == 2:
        second = terms_of({"head": HEAD, "aux": AUX, "fit": FIT}, rest)
        terms = {name: (terms[name] + second[name]) / 2 for name in terms}
    line = next(l for l in process.stderr.splitlines() if "step 1/1" in l)
    parts = ", ".join(f"{name} {value:.6g}" for name, value in terms.items())
    assert f" ({parts})" in line
    assert "(cross_entropy@head_out " in process.stdout
    head, first = (l.split(",") for l in table.read_text().splitlines()[:2])
    row = dict(zip(head, first))
    assert float(row["mse@fit_out"]) == pytest.approx(terms["mse@fit_out"])
    assert "eval_mse@fit_out" in head
    board = b"".join(f.read_bytes() for f in (tmp_path / "board").iterdir())
    for tag in (b"train/l1@fit_out", b"eval/l1@fit_out"):
        assert tag in board
    for run in (table, tmp_path / "run.jsonl"):
        page = tmp_path / "report.html"
        mpctest.mpc_ok("report", run, "-o", page)
        assert "Loss: mse@fit_out" in page.read_text()
        assert "Evaluation: mse@fit_out" not in page.read_text()


def test_equal_losses_have_numbers(tmp_path):
    data = {"x": X, "target": GOAL}
    metrics, _ = mpctest.train(
        *(model(), data, tmp_path, *COMMON),
        *("--loss", "mse@fit_out", "--loss", "0.5*mse@fit_out"),
    )
    step = next(event for event in metrics if event["event"] == "train")
    assert step["mse@fit_out"] == step["mse@fit_out#2"]
    assert step["loss"] == pytest.approx(1.5 * step["mse@fit_out"], rel=1e-14)


def save(folder):
    onnx.save(model(), folder / "model.onnx")
    return folder / "model.onnx"


def arrays(folder, data):
    np.savez(folder / "data.npz", **data)
    return folder / "data.npz"
