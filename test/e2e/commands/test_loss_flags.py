"""Every loss trains in every precision. Losses stay in fp32, so low precision
follows float32, and samples without labels have no effect.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
from test_gpu import emulated

STEPS = 12
COMMON = ("--batch-size", 32)


def digits(count=STEPS * 32):
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        return arrays["image"][:count], arrays["target"][:count].astype(int)


def model_ending_in(*ops):
    """Returns the MLP with the given ops behind its logits."""
    model = onnx.load(mpctest.MODELS / "mlp.onnx")
    name = "logits"
    for i, op in enumerate(ops):
        model.graph.node.append(
            helper.make_node(op, [name], [f"end{i}"], f"end{i}")
        )
        name = f"end{i}"
    model.graph.output[0].name = name
    return model


def one_hot(labels):
    return np.eye(10, dtype=np.float32)[labels]


LOSSES = {
    "cross_entropy": (),
    "nll": ("LogSoftmax",),
    "mse": ("Sigmoid",),
    "l1": (),
    "huber": (),
    "smooth_l1": (),
    "bce": ("Sigmoid",),
    "bce_with_logits": (),
    "kl_div": ("LogSoftmax",),
    "focal": (),
    "sigmoid_focal": (),
    "dice": (),
    "sigmoid_dice": (),
}
CLASSES = ("cross_entropy", "nll", "focal", "dice")


@pytest.mark.parametrize("loss", LOSSES)
def test_low_precision_follows_float32(loss, tmp_path):
    image, labels = digits()
    classes = loss in CLASSES
    data = {"image": image, "target": labels if classes else one_hot(labels)}
    model = model_ending_in(*LOSSES[loss])
    results = {}
    for precision in ("32-true", "bf16-mixed", "16-mixed"):
        metrics, _ = mpctest.train(
            *(model, data, tmp_path / precision, *COMMON, "--loss", loss),
            *("--precision", precision),
            *("--optimizer", "adamw", "--lr", 0.003),
        )
        results[precision] = np.array(mpctest.losses(metrics))
    exact = results["32-true"]
    assert exact[-1] < exact[0]
    np.testing.assert_allclose(results["bf16-mixed"], exact, rtol=0.05)
    np.testing.assert_allclose(results["16-mixed"], exact, rtol=0.02)


@pytest.mark.parametrize("precision", ("32-true", "bf16-mixed", "16-mixed"))
def test_flags_of_cross_entropy(precision, tmp_path):
    """A batch of ignored labels has loss 0 in every precision and leaves the
    weights unchanged."""
    image, labels = digits()
    labels[32:64] = -100
    labels[100:120] = -100
    np.save(tmp_path / "weights.npy", np.linspace(0.5, 2, 10))
    flags = (
        *(*COMMON, "--lr", 1, "--loss", "cross_entropy"),
        *("--class-weights", tmp_path / "weights.npy"),
        *("--label-smoothing", 0.1, "--precision", precision),
    )
    model = mpctest.MODELS / "mlp.onnx"
    data = {"image": image, "target": labels}
    metrics, weights = mpctest.train(model, data, tmp_path, *flags)
    losses = mpctest.losses(metrics)
    assert losses[1] == 0
    assert losses[-1] < losses[0] - 0.2
    assert all(np.isfinite(value).all() for value in weights.values())
    # A run without that batch gives the same result.
    rest = np.r_[0:32, 64 : len(labels)]
    data = {"image": image[rest], "target": labels[rest]}
    metrics, without = mpctest.train(model, data, tmp_path / "without", *flags)
    assert mpctest.losses(metrics) == losses[:1] + losses[2:]
    for name, value in weights.items():
        np.testing.assert_array_equal(value, without[name])


def test_class_weights_on_the_command_line_are_those_of_a_file(tmp_path):
    image, labels = digits(64)
    weights = [1, 2.5, 0, 1, 1, 1e-1, 1, 1, 1, 3]
    np.save(tmp_path / "weights.npy", np.array(weights))
    runs = []
    for i, text in enumerate(
        (",".join(map(str, weights)), tmp_path / "weights.npy")
    ):
        metrics, _ = mpctest.train(
            *(mpctest.MODELS / "mlp.onnx", {"image": image, "target": labels}),
            *(tmp_path / str(i), *COMMON, "--loss", "cross_entropy"),
            *("--class-weights", text),
        )
        runs.append(mpctest.losses(metrics))
    assert runs[0] == runs[1]


GPU_FLAGS = {
    "cross_entropy": ("--ignore-index", 3, "--label-smoothing", 0.1),
    "nll": ("--reduction", "sum"),
    "bce_with_logits": ("--pos-weight", 2.5),
    "focal": ("--ignore-index", 3, "--focal-gamma", 0.5),
    "sigmoid_focal": ("--focal-gamma", 3),
    "dice": ("--ignore-index", 3, "--dice-smooth", 1),
}


def test_targets_that_are_no_probabilities(tmp_path):
    """Cross entropy rejects targets with several true classes and suggests the
    right loss, in training and in evaluation."""
    image, labels = digits(64)
    model = tmp_path / "model.onnx"
    onnx.save(model_ending_in(*LOSSES["cross_entropy"]), model)
    several = one_hot(labels)
    several[5, 0] = several[5, 1] = 1
    smooth = one_hot(labels) * 0.9 + 0.01
    for name, target in (("several", several), ("smooth", smooth)):
        data = tmp_path / f"{name}.npz"
        np.savez(data, image=image, target=target)
        for command in (["train", "--max-steps", 1], ["eval"]):
            process = mpctest.mpc_ok(
                *(command[0], model, "--data", data, "--batch-size", 32),
                *("--loss", "cross_entropy", *command[1:]),
            )
            is_said = "say --loss bce_with_logits" in process.stderr
            assert is_said == (name == "several"), process.stderr
            assert ("those of sample 5 add up to" in process.stderr) == is_said


@pytest.mark.parametrize("loss", LOSSES)
def test_emulated_gpu(loss, tmp_path):
    """Losses and gradients equal the CPU's, also for probabilities of exactly 0
    or 1."""
    image, labels = digits(64)
    classes = loss in CLASSES
    data = {"image": image, "target": labels if classes else one_hot(labels)}
    model = model_ending_in(*LOSSES[loss])
    if loss == "bce":
        bias = np.array([-1e4, 1e4] + 8 * [0], np.float32)
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(bias, "certain")
        )
        add = helper.make_node("Add", ["logits", "certain"], ["sure"], "sure")
        model.graph.node.insert(len(model.graph.node) - 1, add)
        model.graph.node[-1].input[0] = "sure"
    results = {}
    for device in ("cpu", "cuda"):
        target = ("--device", "cuda", "--target", "sm_80")
        metrics, weights = mpctest.train(
            *(model, data, tmp_path / device, *COMMON, "--loss", loss),
            *("--optimizer", "sgd", "--lr", 0.01, "--precision", "64-true"),
            *GPU_FLAGS.get(loss, ()),
            *(target if device == "cuda" else ()),
            env=emulated("sm_80", tmp_path),
        )
        results[device] = mpctest.losses(metrics), weights
    assert np.isfinite(results["cpu"][0]).all()
    np.testing.assert_allclose(*(r[0] for r in results.values()), rtol=1e-10)
    for name, value in results["cpu"][1].items():
        np.testing.assert_allclose(
            results["cuda"][1][name], value, rtol=1e-6, atol=1e-8
        )


def multiplied(data, folder, loss, *flags):
    """Runs `mpc train` of y = x * w for one step. The output is unbounded."""
    folder.mkdir(exist_ok=True)
    model = mpctest.make_model(
        [helper.make_node("Mul", ["x", "w"], ["y"], "scale")],
        {"x": (np.float32, ["N", 3])},
        {"y": (np.float32, ["N", 3])},
        {"w": np.ones(3, np.float32)},
    )
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "d.npz", **data)
    return mpctest.mpc(
        *("train", folder / "m.onnx", "--data", folder / "d.npz"),
        *("--loss", loss, "--batch-size", 4, "--train", "."),
        *("--no-shuffle", "--output", folder / "t.onnx", *flags),
    )


@pytest.mark.parametrize(
    "loss", ("bce", "bce_with_logits", "0.5*bce_with_logits@y", "sigmoid_dice")
)
def test_targets_of_binary_losses_are_probabilities(loss, tmp_path):
    x = np.full((4, 3), 0.5, np.float32)
    masks = np.zeros((4, 3), np.uint8)
    process = multiplied({"x": x, "target": masks}, tmp_path, loss)
    assert process.returncode == 0, process.stderr
    masks[2, 1] = 255
    process = multiplied({"x": x, "target": masks}, tmp_path, loss)
    assert process.returncode == 3, process.stderr
    assert "d.npz: target[2,1]: target 255 is not in [0,1]" in process.stderr
    # With two losses, each checks its own targets.
    data = {"x": x, "target": x, "m": masks}
    both = ("--loss", "mse@y", "--target-array", "scale=m")
    process = multiplied(data, tmp_path, "bce@scale", *both)
    assert process.returncode == 3, process.stderr
    assert "d.npz: m[2,1]: target 255 is not in [0,1]" in process.stderr
    data = {"x": x, "target": masks, "m": x}
    process = multiplied(data, tmp_path, "bce@scale", *both)
    assert process.returncode == 0, process.stderr


def test_losses_say_what_they_are_not_of(tmp_path):
    """Negative outputs are no probabilities, and positive outputs are no
    log-probabilities."""
    x = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    process = multiplied({"x": -x, "target": x / 12}, tmp_path, "bce")
    assert process.returncode == 7, process.stderr
    assert (
        "bce needs probabilities, and an output outside [0,1] makes it "
        "non-finite; for logits, use --loss bce_with_logits" in process.stderr
    )
    labels = {"x": x, "target": np.arange(4) % 3}
    process = multiplied(labels, tmp_path, "nll", "--epochs", "3")
    assert process.returncode == 0, process.stderr
    warning = "step 1: nll is below 0, so the outputs are not log-probabilities"
    assert process.stderr.count(warning) == 1
    assert process.stderr.count("nll is below 0") == 1
    labels["x"] = -x
    process = multiplied(labels, tmp_path, "nll", "--lr", "1e-6")
    assert process.returncode == 0, process.stderr
    assert "nll is below 0" not in process.stderr


@pytest.mark.parametrize("loss", ("focal", "dice"))
def test_labels_of_focal_and_dice_are_classes(loss, tmp_path):
    """A label that is no class must not count as one of none."""
    x = np.full((4, 3), 0.5, np.float32)
    labels = np.array([0, 1, 7, 2])
    process = multiplied({"x": x, "target": labels}, tmp_path, loss)
    assert process.returncode == 3, process.stderr
    assert "target[2]: label 7 is not in [0,3)" in process.stderr
    labels[2] = -100
    process = multiplied({"x": x, "target": labels}, tmp_path, loss)
    assert process.returncode == 0, process.stderr
    process = multiplied({"x": x, "target": x}, tmp_path, loss)
    assert process.returncode == 3, process.stderr
    assert f"for such targets, use sigmoid_{loss}" in process.stderr


def test_balanced_weights_are_those_of_scikit_learn(tmp_path):
    """samples / (classes * samples of the class), over labels that count."""
    samples, labels = digits(64)
    labels[:20] = 0
    labels[20] = -100
    data = tmp_path / "data.npz"
    np.savez(data, image=samples, target=labels)
    counts = np.bincount(labels[labels >= 0], minlength=10)
    weights = counts.sum() / (10 * counts)

    def train(text, name, *flags):
        output = tmp_path / name
        process = mpctest.mpc(
            *("train", mpctest.MODELS / "mlp.onnx", "--data", data, *COMMON),
            *("--loss", "cross_entropy", "--class-weights", text, *flags),
            *("--max-steps", 2, "--lr", 0.1, "--output", output, *mpctest.TARGET),
            cwd=tmp_path,
        )
        return process, output

    process, balanced = train("balanced", "a.safetensors")
    assert process.returncode == 0, process.stderr
    assert "note: the weights of 10 classes are balanced: " in process.stderr
    numbers = ",".join(repr(float(weight)) for weight in weights)
    process, typed = train(numbers, "b.safetensors")
    assert process.returncode == 0, process.stderr
    assert balanced.read_bytes() == typed.read_bytes()
    process, other = train("1,1,1,1,1,1,1,1,1,1", "c.safetensors")
    assert other.read_bytes() != typed.read_bytes()
    # The trained model records numbers, so eval needs no counts.
    process, model = train("balanced", "d.onnx")
    record = {entry.key: entry.value for entry in onnx.load(model).metadata_props}
    recorded = json.loads(record["mpc.loss"])["class-weights"]
    np.testing.assert_array_equal([float(each) for each in recorded.split(",")], weights)
    mpctest.mpc_ok("eval", model, "--data", data, *COMMON, *mpctest.TARGET)
    # A class without labels has no weight.
    np.savez(data, image=samples, target=np.where(labels == 3, 4, labels))
    process, _ = train("balanced", "e.safetensors")
    assert process.returncode == 3
    assert "class 3 has no label in 'target'" in process.stderr
    process = mpctest.mpc(
        *("compile", mpctest.MODELS / "mlp.onnx", *COMMON, "--loss", "cross_entropy"),
        *("--class-weights", "balanced", "-o", tmp_path / "x.mpc"),
    )
    assert process.returncode == 2
    assert "only mpc train reads the labels" in process.stderr
