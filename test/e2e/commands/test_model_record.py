"""A trained model records classes, preparation, loss, metrics and precision.
`mpc eval` and `mpc run` use the record unless flags say otherwise. A hostile
record is ignored with a warning.

SPDX-License-Identifier: Apache-2.0
"""

import csv
import json
import shutil

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

NAMES = ["ant", "bee", "über, \"cat\""]
SIZE = 6


def image_model(path, classes=3):
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"], "fc", transB=1),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", 3, SIZE, SIZE])},
        {"y": (np.float32, ["N", classes])},
        {
            "fc.weight": random.normal(0, 0.05, (classes, 3 * SIZE**2)).astype("f4"),
            "fc.bias": np.zeros(classes, np.float32),
        },
    )
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder with `labelled`, a folder per class, `new`, images without
    labels, and trained.onnx with checkpoints in `run`."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(1)
    for label, name in enumerate(NAMES):
        for number in range(8):
            pixels = random.integers(0, 100, (SIZE, SIZE, 3))
            pixels[..., label] += 150
            pixels = pixels.astype(np.uint8)
            mpctest.save_png(folder / "labelled" / name / f"{number}.png", pixels)
            if number < 3:
                mpctest.save_png(folder / "new" / f"{label}{number}.png", pixels)
    image_model(folder / "model.onnx")
    mpctest.mpc_ok(
        *("train", folder / "model.onnx", "--data", f"x={folder}/labelled"),
        *("--loss", "cross_entropy", "--label-smoothing", 0.1),
        *("--class-weights", "1,2,0.1", "--normalize", "0.5:0.25"),
        *("--val-data", f"x={folder}/labelled", "--metric", "f1"),
        *("--precision", "bf16-mixed", "--keep-fp32", "#dw$"),
        *("--optimizer", "adamw", "--lr", 0.01, "--epochs", 4, "--batch-size", 8),
        *("--metrics", folder / "run.jsonl", "--checkpoint-dir", folder / "run"),
        *("--output", folder / "trained.onnx", *mpctest.TARGET),
    )
    return folder


def read_record(path):
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def write_record(source, path, **entries):
    """Copies a model with other entries; None removes one."""
    model = onnx.load(source)
    record = {entry.key: entry.value for entry in model.metadata_props}
    record |= {f"mpc.{key}": value for key, value in entries.items()}
    del model.metadata_props[:]
    for key, value in record.items():
        if value is not None:
            model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)
    return path


def evaluate(model, data, *flags):
    process = mpctest.mpc(
        *("eval", model, "--data", data, "--format", "jsonl", "--batch-size", 8),
        *(*mpctest.TARGET, *flags),
    )
    figures = json.loads(process.stdout) if process.returncode == 0 else {}
    return figures, process


def last_evaluation(path):
    events = mpctest.read_metrics(path)
    return [event for event in events if event["event"] == "eval"][-1]


def figures_of(event):
    return {key: value for key, value in event.items() if key.startswith("eval_")}


#===------------------------------------------------------------------------===#
# The record
#===------------------------------------------------------------------------===#


def test_what_is_recorded(photos):
    record = read_record(photos / "trained.onnx")
    assert record["mpc.version"] == "1"
    assert json.loads(record["mpc.classes"]) == NAMES
    assert json.loads(record["mpc.loss"]) == {
        "loss": "softmax_cross_entropy",
        "label-smoothing": "0.1",
        "class-weights": "1,2,0.1",
    }
    assert json.loads(record["mpc.metrics"]) == {"metric": "f1"}
    assert json.loads(record["mpc.precision"]) == {
        "precision": "bf16-mixed",
        "keep-fp32": "#dw$",
    }
    assert record["mpc.preparation"] == "--normalize 0.5:0.25"
    process = mpctest.mpc_ok("inspect", photos / "trained.onnx")
    assert "trained with, preparation: --normalize 0.5:0.25" in process.stdout
    assert "classes: 3: ant, bee, über" in process.stdout
    process = mpctest.mpc_ok("inspect", photos / "trained.onnx", "--format", "json")
    assert json.loads(process.stdout)["training"]["classes"] == NAMES
    assert "trained with" not in mpctest.mpc_ok("inspect", photos / "model.onnx").stdout


def test_folders_of_other_classes_are_refused(photos, tmp_path):
    """Folder 0 would be another class than label 0 of the model."""
    shutil.copytree(photos / "labelled", tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / NAMES[0])
    flags = (photos / "trained.onnx", "--data", f"x={tmp_path}/data")
    process = mpctest.mpc("eval", *flags, "--batch-size", 8)
    assert process.returncode == 3
    assert f"trained with the classes '{NAMES[0]}'" in process.stderr
    flags += ("--no-metadata", "--loss", "cross_entropy", "--normalize", "0.5:0.25")
    mpctest.mpc_ok("eval", *flags, "--batch-size", 8)


def test_classes_of_image_folders_have_names(photos):
    figures, _ = evaluate(photos / "trained.onnx", f"x={photos}/labelled", "--per-class")
    assert [entry["name"] for entry in figures["eval_classes"]] == NAMES


def test_flags_of_the_loss_are_recorded(photos, tmp_path):
    """Evaluating the model gives the figures of its own exponent, not of the
    default one."""
    data, trained = f"x={photos}/labelled", tmp_path / "trained.onnx"
    mpctest.mpc_ok(
        *("train", photos / "model.onnx", "--data", data, "--val-data", data),
        *("--loss", "focal", "--focal-gamma", 3, "--normalize", "0.5:0.25"),
        *("--lr", 0.01, "--epochs", 1, "--batch-size", 8),
        *("--metrics", tmp_path / "run.jsonl", "--output", trained, *mpctest.TARGET),
    )
    assert json.loads(read_record(trained)["mpc.loss"]) == {
        "loss": "focal",
        "focal-gamma": "3",
    }
    expected = figures_of(last_evaluation(tmp_path / "run.jsonl"))
    recorded, _ = evaluate(trained, data)
    assert figures_of(recorded) == expected
    other, _ = evaluate(trained, data, "--loss", "focal")
    assert other["eval_loss"] != recorded["eval_loss"]


@pytest.mark.parametrize("kind", ("model", "checkpoint"))
def test_figures_of_training_without_flags(photos, kind):
    """Without any flag, eval prints the figures of training, bit for bit."""
    expected = figures_of(last_evaluation(photos / "run.jsonl"))
    arguments, where = (photos / "trained.onnx",), photos / "trained.onnx"
    flags = ()
    if kind == "checkpoint":
        arguments, flags = (photos / "model.onnx",), ("--checkpoint", photos / "run/last")
        where = f"{photos}/run/step-12"
    # Training decided types with the gradients of this optimizer.
    flags += ("--optimizer", "adamw")
    figures, process = evaluate(*arguments, f"x={photos}/labelled", *flags)
    assert figures_of(figures) == expected, process.stderr
    assert process.stderr.count("note: from ") == 1
    assert f"note: from {where}: " in process.stderr
    for flag in (
        *("--loss softmax_cross_entropy", "--label-smoothing 0.1", "--metric f1"),
        *("--class-weights 1,2,0.1", "--precision bf16-mixed", "--keep-fp32 #dw$"),
        "--normalize 0.5:0.25",
    ):
        assert flag in process.stderr
    assert "warning" not in process.stderr


def test_flags_say_otherwise(photos):
    data, model = f"x={photos}/labelled", photos / "trained.onnx"
    recorded, _ = evaluate(model, data)
    # A loss that is typed has the flags that are typed.
    figures, process = evaluate(model, data, "--loss", "cross_entropy")
    assert "eval_f1" not in figures and "label-smoothing" not in process.stderr
    assert "--normalize 0.5:0.25" in process.stderr
    assert figures["eval_loss"] != recorded["eval_loss"]
    # The same precision still has the recorded --keep-fp32.
    same, process = evaluate(model, data, "--precision", "bf16-mixed")
    assert same == recorded and "--keep-fp32 #dw$" in process.stderr
    # Another precision has no use for --keep-fp32.
    figures, process = evaluate(model, data, "--precision", "32-true")
    assert "keep-fp32" not in process.stderr
    assert figures["eval_loss"] != recorded["eval_loss"]
    assert figures["eval_loss"] == pytest.approx(recorded["eval_loss"], rel=0.02)
    # Another preparation is used, with the warning that it differs.
    figures, process = evaluate(model, data, "--normalize", "0:1")
    assert "and is evaluated with --normalize 0:1" in process.stderr
    assert figures["eval_loss"] != recorded["eval_loss"]
    # Nothing is taken with --no-metadata.
    figures, process = evaluate(model, data, "--no-metadata")
    assert process.returncode == 2 and "needs a loss" in process.stderr
    assert "note: from" not in process.stderr


def test_a_policy_travels_by_value(tmp_path):
    random = np.random.default_rng(0)
    model = image_model(tmp_path / "model.onnx")
    samples = random.normal(0, 1, (16, 3, SIZE, SIZE)).astype("f4")
    np.savez(tmp_path / "data.npz", x=samples, target=np.arange(16) % 3)
    rules = [
        {"node": "^fc$", "class": "deny", "reason": "range"},
        # A forward function has no such node.
        {"node": "^fc#dw$", "class": "deny", "reason": "range"},
    ]
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"preset": "torch", "rules": rules}))
    (tmp_path / "weights").write_text("never read")
    mpctest.mpc_ok(
        *("train", model, "--data", tmp_path / "data.npz", "--loss", "cross_entropy"),
        *("--precision", "bf16-mixed", "--policy", policy, "--max-steps", 1),
        *("--batch-size", 8, "--output", tmp_path / "trained.onnx", *mpctest.TARGET),
    )
    policy.unlink()
    trained = tmp_path / "trained.onnx"
    recorded = json.loads(read_record(trained)["mpc.precision"])
    assert recorded["policy"] == {"preset": "torch", "rules": rules}
    figures, process = evaluate(trained, tmp_path / "data.npz")
    assert figures, process.stderr
    process = mpctest.mpc_ok("explain", trained, "fc", *mpctest.TARGET)
    assert "the model's policy:rules[0]" in process.stdout, process.stdout
    mpctest.mpc_ok("run", trained, "--data", tmp_path / "data.npz", *mpctest.TARGET)


def test_another_training_replaces_the_record(photos, tmp_path):
    samples = np.ones((8, 3, SIZE, SIZE), np.float32)
    np.savez(tmp_path / "data.npz", x=samples, target=np.arange(8) % 3)
    mpctest.mpc_ok(
        *("train", photos / "trained.onnx", "--data", tmp_path / "data.npz"),
        *("--loss", "nll", "--max-steps", 1, "--batch-size", 8),
        *("--output", tmp_path / "again.onnx", *mpctest.TARGET),
    )
    record = read_record(tmp_path / "again.onnx")
    assert set(record) == {"mpc.version", "mpc.loss"}
    assert json.loads(record["mpc.loss"]) == {"loss": "nll"}


def test_training_with_another_preparation_warns(photos, tmp_path):
    """The weights fit values as they were prepared before."""
    flags = ("--loss", "cross_entropy", "--max-steps", 1, "--batch-size", 8, *mpctest.TARGET)
    flags += ("--output", tmp_path / "again.onnx", "--data", f"x={photos}/labelled")
    model = photos / "trained.onnx"
    for new, words in (
        ((), "neither --normalize nor --input-layout"),
        (("--normalize", "0:1"), "--normalize 0:1"),
    ):
        process = mpctest.mpc_ok("train", model, *flags, *new)
        assert (
            f"warning: {model} was trained with --normalize 0.5:0.25, and is now "
            f"trained with {words}" in process.stderr
        )
    process = mpctest.mpc_ok("train", model, *flags, "--normalize", "0.5:0.25")
    assert "warning" not in process.stderr
    process = mpctest.mpc_ok("train", photos / "model.onnx", *flags)
    assert "was trained with" not in process.stderr


def test_a_model_with_other_outputs_records_no_loss(photos, tmp_path):
    """--export-model names a model that may lack what the loss reads."""
    model = onnx.load(photos / "model.onnx")
    model.graph.node[1].output[0] = model.graph.output[0].name = "scores"
    onnx.save(model, tmp_path / "serve.onnx")
    samples = np.ones((8, 3, SIZE, SIZE), np.float32)
    np.savez(tmp_path / "data.npz", x=samples, target=np.arange(8) % 3)
    for serve, has in ((tmp_path / "serve.onnx", False), (photos / "model.onnx", True)):
        mpctest.mpc_ok(
            *("train", photos / "model.onnx", "--data", tmp_path / "data.npz"),
            *("--loss", "cross_entropy", "--max-steps", 1, "--batch-size", 8),
            *("--normalize", "0:2", "--export-model", serve, *mpctest.TARGET),
            *("--output", tmp_path / "out.onnx"),
        )
        record = read_record(tmp_path / "out.onnx")
        assert ("mpc.loss" in record) == has
        assert record["mpc.preparation"] == "--normalize 0:2"


#===------------------------------------------------------------------------===#
# Predictions
#===------------------------------------------------------------------------===#


def predict(photos, *flags):
    return mpctest.mpc_ok(
        *("run", photos / "trained.onnx", "--data", f"x={photos}/new"),
        *("--batch-size", 4, *mpctest.TARGET, *flags),
    )


def expected_predictions(photos, folder):
    """The class and probability of each image, from the scores."""
    output = folder / "scores.npz"
    predict(photos, "--no-metadata", "--normalize", "0.5:0.25", "--output", output,
            "--precision", "bf16-mixed")
    with np.load(output) as arrays:
        assert list(arrays) == ["file", "y"]
        scores = arrays["y"].astype(np.float64)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    shares = powers / powers.sum(1, keepdims=True)
    return [NAMES[i] for i in shares.argmax(1)], shares.max(1)


def test_run_prints_classes(photos, tmp_path):
    classes, shares = expected_predictions(photos, tmp_path)
    # The images are ordered by name, which begins with their label.
    assert classes == [name for name in NAMES for _ in range(3)]
    lines = predict(photos).stdout.splitlines()
    assert len(lines) == 9
    for i, line in enumerate(lines):
        file, rest = line.split(".png: ")
        assert file.endswith(f"new/{i // 3}{i % 3}")
        name, share = rest.rsplit(" ", 1)
        assert name == classes[i]
        assert float(share.rstrip("%")) == pytest.approx(100 * shares[i], abs=0.01)
    # Without the record, run prints the scores.
    assert predict(photos, "--no-metadata").stdout.startswith("y: f32 9x3 = ")


def test_files_of_predictions(photos, tmp_path):
    classes, shares = expected_predictions(photos, tmp_path)
    predict(photos, "--output", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["file", "class", "probability", "y_0", "y_1", "y_2"]
    assert [row[1] for row in rows] == classes
    np.testing.assert_allclose([float(row[2]) for row in rows], shares, rtol=1e-6)
    predict(photos, "--output", tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz") as arrays:
        assert set(arrays) == {"file", "class", "probability", "y"}
        assert [str(name) for name in arrays["class"]] == classes
        assert [name[-6:] for name in arrays["file"]] == [row[0][-6:] for row in rows]
        np.testing.assert_allclose(arrays["probability"], shares, rtol=1e-6)
    predict(photos, "--output", tmp_path / "p.npy")
    assert np.load(tmp_path / "p.npy").shape == (9, 3)
    # The names of another program's archive are not read as data.
    process = mpctest.mpc("inspect", tmp_path / "p.npz")
    assert process.returncode in (0, 3), process.stderr


#===------------------------------------------------------------------------===#
# Hostile records
#===------------------------------------------------------------------------===#

LOSS = {"loss": "cross_entropy"}
DAMAGED = {
    "no JSON": dict(loss="{"),
    "deep": dict(loss="[" * 100000),
    "a list": dict(loss="[1]"),
    "a number": dict(loss=json.dumps(LOSS | {"ignore-index": 3})),
    "another flag": dict(loss=json.dumps(LOSS | {"weights": "/etc/passwd"})),
    "no values": dict(loss=json.dumps({"loss": []})),
    "no classes": dict(classes='["a", 1, "b"]'),
    "a newer version": dict(version="2"),
    "no version": dict(version="one"),
    "augmented": dict(preparation="--augment flip"),
    "no preparation": dict(preparation="normalize"),
    "no numbers": dict(preparation="--normalize here:there"),
    "oversized": dict(classes=json.dumps(["x" * (2 << 20)])),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_records_are_ignored(photos, name, tmp_path):
    model = write_record(photos / "trained.onnx", tmp_path / "m.onnx", **DAMAGED[name])
    flags = ("--loss", "cross_entropy", "--normalize", "0.5:0.25", "--precision", "32-true")
    figures, process = evaluate(model, f"x={photos}/labelled", *flags)
    assert process.returncode == 0, process.stderr
    assert figures["eval_samples"] == 24
    assert f"warning: {model}: " in process.stderr and "ignored" in process.stderr
    process = mpctest.mpc_ok(
        *("run", model, "--data", f"x={photos}/new", *mpctest.TARGET, *flags[2:])
    )
    assert len(process.stderr) < 2000


FILES = {
    "weights": ("loss", LOSS | {"class-weights": "secret.npy"}, "class-weights"),
    "numbers and a file": ("loss", LOSS | {"class-weights": "x=secret.npz"}, "class-weights"),
    "policy": ("precision", {"precision": "bf16-mixed", "policy": "secret.json"}, "policy"),
    "loss": ("loss", {"loss": "no_such_loss"}, "loss"),
    "precision": ("precision", {"precision": "fp8"}, "precision"),
}


@pytest.mark.parametrize("name", FILES)
def test_records_name_no_files(photos, name, tmp_path, monkeypatch):
    """A value that would name a file, or that no flag takes, is left out."""
    monkeypatch.chdir(tmp_path)
    np.save("secret.npy", np.ones(3))
    np.savez("secret.npz", x=np.ones(3))
    (tmp_path / "secret.json").write_text("{}")
    key, value, flag = FILES[name]
    model = write_record(
        photos / "trained.onnx", tmp_path / "m.onnx", **{key: json.dumps(value)}
    )
    figures, process = evaluate(model, f"x={photos}/labelled")
    assert f"warning: {model}: the recorded flag --{flag} is ignored" in process.stderr
    assert figures or "needs a loss" in process.stderr


LATE = {
    "class weights": ("loss", LOSS | {"class-weights": "1,2"}, "class-weights"),
    "label array": ("loss", LOSS | {"target-array": "y=other"}, "target-array"),
    "expression": ("precision", {"precision": "bf16-mixed", "keep-fp32": "["}, "keep-fp32"),
    "policy": (
        "precision",
        {"precision": "bf16-mixed", "policy": {"rules": [{"node": "fc"}]}},
        "policy",
    ),
    "metric": ("metrics", {"metric": "r2"}, "metric"),
    "preparation": ("preparation", "--normalize z=0:1", "normalize"),
}


@pytest.mark.parametrize("name", LATE)
def test_late_errors_name_the_record(photos, name, tmp_path):
    """The user did not give the flag that such an error is about."""
    key, value, flag = LATE[name]
    text = value if isinstance(value, str) else json.dumps(value)
    model = write_record(photos / "trained.onnx", tmp_path / "m.onnx", **{key: text})
    _, process = evaluate(model, f"x={photos}/labelled", "--quiet")
    assert process.returncode in (2, 3), process.stderr
    origin = process.stderr.rpartition(" (--")[2]
    assert flag in origin and f" from the record in {model}; " in origin
    assert "--no-metadata" in origin


def test_errors_about_given_flags_do_not_name_the_record(photos):
    flags = ("--loss", "cross_entropy", "--class-weights", "1,2")
    _, process = evaluate(photos / "trained.onnx", f"x={photos}/labelled", *flags)
    assert process.returncode != 0
    assert "--class-weights" in process.stderr
    assert "from the record" not in process.stderr


@pytest.mark.parametrize("command", ("eval", "run", "explain"))
def test_given_expressions_must_match(photos, command, tmp_path):
    """A recorded expression may match nothing, one that is given may not."""
    flags = () if command == "explain" else ("--data", f"x={photos}/labelled", "--batch-size", 8)
    if command == "run":
        flags = ("--data", f"x={photos}/new", "--batch-size", 4)
    record = json.dumps({"precision": "bf16-mixed", "keep-fp32": "none", "policy": {}})
    model = write_record(photos / "trained.onnx", tmp_path / "m.onnx", precision=record)
    process = mpctest.mpc_ok(command, model, *flags, *mpctest.TARGET)
    assert "the model's expression 'none' matches no node" in process.stderr
    for flag in ("--keep-fp32", "--force-low"):
        process = mpctest.mpc(command, model, *flags, flag, "typo", *mpctest.TARGET)
        assert process.returncode == 2, process.stderr
        assert f"{flag}: expression 'typo' matches no node" in process.stderr
        assert f"({flag} is from the record" not in process.stderr
    # A policy that is given does not make recorded expressions given.
    (tmp_path / "policy.json").write_text("{}")
    mpctest.mpc_ok(command, model, *flags, "--policy", tmp_path / "policy.json", *mpctest.TARGET)


def test_numbers_are_no_names_of_files(photos, tmp_path, monkeypatch):
    """A file called like the recorded weights is not read."""
    monkeypatch.chdir(tmp_path)
    expected, _ = evaluate(photos / "trained.onnx", f"x={photos}/labelled")
    (tmp_path / "1,2,0.1").write_text("no array")
    found, process = evaluate(photos / "trained.onnx", f"x={photos}/labelled")
    assert found == expected, process.stderr


def test_a_cut_model_is_refused_as_before(photos, tmp_path):
    content = (photos / "trained.onnx").read_bytes()
    for length in (1, 40, len(content) // 2, len(content) - 3):
        (tmp_path / "cut.onnx").write_bytes(content[:length])
        _, process = evaluate(tmp_path / "cut.onnx", f"x={photos}/labelled")
        assert process.returncode == 3, process.stderr
