"""`mpc eval` reports the figures of `mpc train` bit for bit, given a model, a
checkpoint or an artifact with the same weights.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

# The held-back samples are not a multiple of the batch.
BATCH, TRAINING, HELD_BACK = 32, 96, 77
CLASSES = ("--loss", "cross_entropy", "--metric", "top3", "--metric", "f1")


def digits(begin, count):
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        part = slice(begin, begin + count)
        return {
            "image": arrays["image"][part],
            "target": arrays["target"][part].astype(np.int64),
        }


def train(model, data, held, folder, *flags):
    """Runs a short training in `folder`, which keeps its checkpoint and trained
    model. Returns the "eval" event."""
    np.savez(folder / "held.npz", **held)
    metrics, _ = mpctest.train(
        *(model, data, folder, "--batch-size", BATCH, "--max-steps", 3),
        *("--optimizer", "adamw", "--val-data", folder / "held.npz"),
        *("--checkpoint-dir", folder / "checkpoints", *flags),
    )
    return [event for event in metrics if event["event"] == "eval"][-1]


def evaluate(model, folder, *flags):
    process = mpctest.mpc_ok(
        *("eval", model, "--data", folder / "held.npz", "--format", "jsonl"),
        *(*mpctest.TARGET, *flags),
    )
    return json.loads(process.stdout)


def figures(event):
    return {key: value for key, value in event.items() if "eval" in key}


def test_averages_of_a_checkpoint_are_evaluated(tmp_path):
    model = mpctest.MODELS / "mlp.onnx"
    data, held = digits(0, TRAINING), digits(TRAINING, HELD_BACK)
    flags = (*CLASSES, "--ema", "0.5", "--lr", "0.01")
    event = train(model, data, held, tmp_path, *flags)
    compiled = (*CLASSES, "--optimizer", "adamw", "--batch-size", BATCH)
    folder = tmp_path / "checkpoints"
    again = evaluate(model, tmp_path, *compiled, "--checkpoint", folder)
    assert figures(event) == figures(again)
    # A checkpoint is not a model. The message says how to pass the checkpoint.
    for place in (folder, *sorted(folder.glob("step-*"))[-1:]):
        process = mpctest.mpc("eval", place, "--data", tmp_path / "held.npz")
        assert process.returncode == 2
        text = "expected a model, found checkpoints"
        assert text in process.stderr and f"--checkpoint {folder}/step-" in process.stderr


@pytest.mark.parametrize("kind", ("model", "artifact"))
def test_averages_of_a_file_of_weights_are_taken(kind, tmp_path):
    """With --ema the best weights are averages, also when --weights loads them."""
    model = mpctest.MODELS / "mlp.onnx"
    data, held = digits(0, TRAINING), digits(TRAINING, HELD_BACK)
    flags = (*CLASSES, "--ema", "0.5", "--lr", "0.01", "--best", "loss")
    event = train(model, data, held, tmp_path, *flags)
    compiled = (*CLASSES[:2], "--batch-size", BATCH)
    state = tmp_path / "checkpoints" / "best" / "state.safetensors"
    if kind == "artifact":
        artifact = tmp_path / "model.mpc"
        mpctest.mpc_ok("compile", model, *compiled, "-o", artifact)
        model, compiled = artifact, ()
    process = mpctest.mpc_ok(
        *("eval", model, "--data", tmp_path / "held.npz", "--weights", state),
        *("--format", "jsonl", *compiled, *CLASSES[2:]),
    )
    assert figures(event) == figures(json.loads(process.stdout))
    assert (
        "state.safetensors: the averages of --ema become the parameters: "
        "'fc1.bias.ema', 'fc1.weight.ema'" in process.stderr
    )
    assert "6 of 6 parameters from" in process.stderr


def test_parameters_called_as_averages_are_theirs(tmp_path):
    """A parameter that is named 'w.ema' is not an average of --ema."""
    ones = np.ones((4, 4), np.float32)
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
            helper.make_node("MatMul", ["h", "w.ema"], ["y"], "second"),
        ],
        {"x": (np.float32, [1, 4])},
        {"y": (np.float32, [1, 4])},
        {"w": ones, "w.ema": ones},
    )
    np.savez(tmp_path / "w.npz", **{"w": 2 * ones, "w.ema": 3 * ones})
    weights = ("--weights", tmp_path / "w.npz")
    y = mpctest.run(model, {"x": ones[:1]}, tmp_path, *weights)["y"]
    np.testing.assert_array_equal(y, np.full((1, 4), 4 * 2 * 4 * 3))


@pytest.mark.parametrize(
    "precision", ("32-true", "bf16-mixed", "16-mixed", "64-true")
)
@pytest.mark.parametrize("name", ("mlp", "resnet"))
def test_same_figures(name, precision, tmp_path):
    model = mpctest.MODELS / f"{name}.onnx"
    flags = (*CLASSES, "--precision", precision)
    data, held = digits(0, TRAINING), digits(TRAINING, HELD_BACK)
    event = train(model, data, held, tmp_path, *flags)
    assert event["eval_samples"] == HELD_BACK
    compiled = (*flags, "--optimizer", "adamw", "--batch-size", BATCH)
    checkpoints = tmp_path / "checkpoints"
    for folder in (checkpoints, checkpoints / "step-3"):
        assert event == evaluate(
            model, tmp_path, *compiled, "--checkpoint", folder
        )
    trained = tmp_path / "trained.onnx"
    state = checkpoints / "step-3" / "state.safetensors"
    for again in (
        evaluate(trained, tmp_path, *compiled),
        evaluate(model, tmp_path, *compiled, "--weights", state),
    ):
        # A float32 model rounds its weights.
        if precision == "64-true":
            again["eval_loss"] = pytest.approx(again["eval_loss"], rel=1e-6)
        assert figures(event) == figures(again)


def test_artifact(tmp_path):
    model = mpctest.MODELS / "mlp.onnx"
    data, held = digits(0, TRAINING), digits(TRAINING, HELD_BACK)
    event = train(model, data, held, tmp_path, *CLASSES)
    artifact = tmp_path / "model.mpc"
    mpctest.mpc_ok(
        *("compile", model, "--loss", "cross_entropy", "-o", artifact),
        *("--batch-size", BATCH, *mpctest.TARGET),
    )
    checkpoints = tmp_path / "checkpoints"
    metrics = CLASSES[2:]
    weights = ("--weights", checkpoints / "step-3" / "state.safetensors")
    target, mpctest.TARGET[:] = list(mpctest.TARGET), []
    try:
        assert event == evaluate(
            *(artifact, tmp_path, *metrics, "--checkpoint", checkpoints)
        )
        assert figures(event) == figures(
            evaluate(artifact, tmp_path, *metrics, *weights)
        )
        assert event["eval_loss"] != evaluate(artifact, tmp_path)["eval_loss"]
    finally:
        mpctest.TARGET[:] = target


@pytest.mark.parametrize(
    "loss, metric",
    (
        ("mse", "r2"),
        ("huber", "mae"),
        ("l1", "rmse"),
        ("smooth_l1", "r2"),
        ("bce_with_logits", "f1"),
        ("kl_div", None),
    ),
)
def test_losses_of_values(loss, metric, tmp_path):
    random = np.random.RandomState(4)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "y")]
    if loss == "kl_div":
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["z"], "z"),
            helper.make_node("LogSoftmax", ["z"], ["y"], "y"),
        ]
    model = mpctest.make_model(
        *(nodes, {"x": (np.float32, ["N", 6])}),
        *({"y": (np.float32, ["N", 3])}, {}),
    )
    weight = random.standard_normal((6, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))

    def sample(count):
        x = random.standard_normal((count, 6)).astype(np.float32)
        target = random.rand(count, 3).astype(np.float32)
        return {"x": x, "target": target / target.sum(1, keepdims=True)}

    metrics = ("--metric", metric) if metric else ()
    flags = ("--loss", loss, "--reduction", "sum", *metrics)
    held = sample(HELD_BACK)
    event = train(model, sample(TRAINING), held, tmp_path, *flags)
    assert figures(event) == figures(
        evaluate(tmp_path / "trained.onnx", tmp_path, *flags)
    )


def test_labels_that_count_differently(tmp_path):
    """Covers ignored labels, class weights and label smoothing."""
    data, held = digits(0, TRAINING), digits(TRAINING, HELD_BACK)
    data["target"][::7] = held["target"][::5] = -100
    np.save(tmp_path / "weights.npy", np.arange(1, 11) / 4)
    flags = (
        *(*CLASSES, "--class-weights", tmp_path / "weights.npy"),
        *("--label-smoothing", 0.1, "--metric", "perplexity"),
    )
    model = mpctest.MODELS / "mlp.onnx"
    event = train(model, data, held, tmp_path, *flags)
    assert event == evaluate(
        *(model, tmp_path, *flags),
        *("--batch-size", BATCH, "--checkpoint", tmp_path / "checkpoints"),
    )


def test_any_batch(tmp_path):
    """A last batch of any size counts correctly. Without --batch-size a default
    applies."""
    np.savez(tmp_path / "held.npz", **digits(0, HELD_BACK))
    model = mpctest.MODELS / "mlp.onnx"
    events = [
        evaluate(model, tmp_path, *CLASSES, "--precision", "64-true", *flags)
        for flags in ((), *(("--batch-size", n) for n in (1, 7, 76, 77, 100)))
    ]
    for event in events[1:]:
        assert event["eval_samples"] == HELD_BACK
        assert event["eval_accuracy"] == events[0]["eval_accuracy"]
        assert event["eval_top3"] == events[0]["eval_top3"]
        assert event["eval_loss"] == pytest.approx(
            events[0]["eval_loss"], rel=1e-12
        )


def test_samples_on_another_axis(tmp_path):
    """The default batch size is the length of the axis that --batch-axis names.
    Samples of an incomplete batch count as much as the others."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"], "t", perm=[1, 0])]
    nodes.append(helper.make_node("MatMul", ["t", "w"], ["y"], "y"))
    model = mpctest.make_model(
        *(nodes, {"x": (np.float32, ["T", "N"])}),
        *({"y": (np.float32, ["N", 3])}, {"w": np.eye(3, dtype=np.float32)}),
    )
    onnx.save(model, tmp_path / "model.onnx")
    x = np.arange(120, dtype=np.float32).reshape(3, 40)
    off = np.full((40, 1), 2, np.float32)
    off[32:] = 4
    np.savez(tmp_path / "held.npz", x=x, target=x.T + off)
    event = evaluate(
        *(tmp_path / "model.onnx", tmp_path, "--loss", "mse"),
        *("--batch-axis", "x=1", "--shape", "T=3"),
    )
    assert event["eval_loss"] == pytest.approx((32 * 4 + 8 * 16) / 40)
    assert event["eval_samples"] == 40


def test_without_a_loss_per_sample(tmp_path):
    """mpc leaves out an incomplete batch and says so."""
    nodes = [helper.make_node("Sub", ["x", "goal"], ["e"], "e")]
    nodes.append(helper.make_node("ReduceSumSquare", ["e"], ["l"], "l"))
    nodes.append(helper.make_node("Identity", ["l"], ["loss"], "loss"))
    nodes[1].attribute.append(helper.make_attribute("keepdims", 0))
    model = mpctest.make_model(
        *(nodes, {n: (np.float32, ["N", 2]) for n in ("x", "goal")}),
        *({"loss": (np.float32, [])}, {}),
    )
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "held.npz", x=np.ones((5, 2)), goal=np.zeros((5, 2)))
    flags = ("--loss", "output:loss", "--batch-size", 2)
    event = evaluate(tmp_path / "model.onnx", tmp_path, *flags)
    assert event["eval_samples"] == 4
    process = mpctest.mpc_ok(
        *("eval", tmp_path / "model.onnx", "--data", tmp_path / "held.npz"),
        *(*flags, *mpctest.TARGET),
    )
    assert "note: left out 1 sample that fills no batch" in process.stderr


def test_samples_that_depend_on_what_fills_a_batch(tmp_path):
    random = np.random.RandomState(4)
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], "m", axes=[0]),
        helper.make_node("Sub", ["x", "m"], ["y"], "y"),
    ]
    model = mpctest.make_model(
        *(nodes, {"x": (np.float32, ["N", 3])}, {"y": (np.float32, None)}, {})
    )
    onnx.save(model, tmp_path / "model.onnx")
    x = random.standard_normal((10, 3)).astype(np.float32)
    target = random.standard_normal((10, 3)).astype(np.float32)
    np.savez(tmp_path / "held.npz", x=x, target=target)
    command = ("eval", tmp_path / "model.onnx", "--loss", "mse")
    data = ("--data", tmp_path / "held.npz", *mpctest.TARGET)
    process = mpctest.mpc_ok(*command, *data, "--batch-size", 4)
    assert "on 8 samples" in process.stdout
    assert "left out 2 samples" in process.stderr
    assert "depend on each other" in process.stderr
    parts = [x[i : i + 4] - x[i : i + 4].mean(0) for i in (0, 4)]
    loss = np.mean((np.concatenate(parts) - target[:8]) ** 2)
    assert f"loss {loss:.4g}" in process.stdout
    process = mpctest.mpc(*command, *data, "--batch-size", 16)
    assert process.returncode == 4
    assert "depend on each other" in process.stderr


def test_training_artifacts(tmp_path):
    """In ONNX Runtime's training artifacts, parameters are inputs."""
    folder = mpctest.DATA / "ort-lenet"
    data = digits(0, HELD_BACK)
    image = data["image"].repeat(4, axis=2).repeat(4, axis=3)
    np.savez(tmp_path / "held.npz", image=image, labels=data["target"])
    flags = ("--batch-size", 16, "--checkpoint-dir", tmp_path / "checkpoints")
    metrics = tmp_path / "metrics.jsonl"
    mpctest.mpc_ok(
        *("train", folder, "--data", tmp_path / "held.npz", *flags),
        *("--weights", folder / "parameters.npz", "--metrics", metrics),
        *("--val-data", tmp_path / "held.npz", *mpctest.TARGET),
    )
    event = mpctest.read_metrics(metrics)[-2]
    assert event == evaluate(
        *(folder, tmp_path, "--batch-size", 16),
        *("--checkpoint", tmp_path / "checkpoints"),
    )


def test_without_a_gradient(tmp_path):
    """A model that cannot be trained can be evaluated."""
    nodes = [
        helper.make_node("Round", ["x"], ["whole"], "round"),
        helper.make_node("MatMul", ["whole", "w"], ["v"], "matmul"),
        helper.make_node("Round", ["v"], ["y"], "last"),
    ]
    model = mpctest.make_model(
        *(nodes, {"x": (np.float32, ["N", 2])}),
        *({"y": (np.float32, ["N", 2])}, {"w": np.eye(2, dtype=np.float32)}),
    )
    onnx.save(model, tmp_path / "model.onnx")
    x = np.array([[0.6, 1.2], [2.0, 3.9], [5.1, 0.0]], np.float32)
    np.savez(tmp_path / "held.npz", x=x, target=np.rint(x) + [[1, 3]])
    event = evaluate(
        *(tmp_path / "model.onnx", tmp_path, "--loss", "mse"),
        *("--metric", "mae", "--batch-size", 2),
    )
    assert event["eval_loss"] == 5
    assert event["eval_mae"] == 2


def test_other_preparation_than_that_of_the_checkpoint_is_warned_of(tmp_path):
    model = mpctest.MODELS / "mlp.onnx"
    data, held = digits(0, TRAINING), digits(TRAINING, HELD_BACK)
    prepared = ("--normalize", "0.5:0.25")
    train(model, data, held, tmp_path, *CLASSES, *prepared)
    command = (
        *("eval", model, "--data", tmp_path / "held.npz", "--batch-size", BATCH),
        *(*mpctest.TARGET, *CLASSES, "--checkpoint", tmp_path / "checkpoints"),
    )
    text = "warning: the checkpoint was trained with --normalize 0.5:0.25, and is "
    for flags, found in (
        (("--no-metadata",), "neither --normalize nor --input-layout"),
        (("--normalize", "0:1"), "--normalize 0:1"),
    ):
        stderr = mpctest.mpc_ok(*command, *flags).stderr
        assert f"{text}evaluated with {found}\n" in stderr
    # Without a flag, eval takes the preparation from the checkpoint.
    stderr = mpctest.mpc_ok(*command).stderr
    assert "step-3: --normalize 0.5:0.25; " in stderr and "warning" not in stderr
    assert "warning" not in mpctest.mpc_ok(*command, *prepared).stderr
