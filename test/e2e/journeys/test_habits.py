"""Five users of other tools try their habits in mpc.

SPDX-License-Identifier: Apache-2.0
"""

import journey
import mpctest
import numpy as np
import onnx
import pytest
from journey import CLASSES, INVALID, USAGE, refused
from onnx import helper


@pytest.fixture
def flowers():
    """Returns rows of four numbers and their classes, which a perceptron
    learns."""
    random = np.random.default_rng(3)
    rows = random.standard_normal((240, 4)).astype(np.float32)
    return rows, rows[:, :3].argmax(1)


def test_who_knows_lightning_types_its_flags(flowers, tmp_path):
    """Each error names the flag to type, until the command works."""
    rows, labels = flowers
    model = journey.save(journey.perceptron(), tmp_path / "m.onnx")
    data = journey.save_arrays(tmp_path / "d.npz", x=rows, target=labels)
    typed = {
        ("--loss", "CrossEntropyLoss"): ("cross_entropy?", ["--loss", "cross_entropy"]),
        ("--optimizer", "AdamW"): ("adamw?", ["--optimizer", "adamw"]),
        ("--learning-rate", "0.01"): ("--lr?", ["--lr", "0.01"]),
        ("--max-epochs", "5"): ("--epochs?", ["--epochs", "5"]),
        ("--batch", "16"): ("--batch-size?", ["--batch-size", "16"]),
        ("--precision", "bf16"): ("bf16-mixed?", ["--precision", "bf16-mixed"]),
        ("--val", "0.2"): ("--val-data?", ["--val-split", "0.2"]),
        ("--metrics", "accuracy"): ("--metric accuracy?", ["--metric", "f1"]),
        ("--monitor", "val_loss"): ("METRIC:PATIENCE?", []),
        ("--early-stopping", "val_loss:3"): ("loss?", ["--early-stopping", "loss:3"]),
        ("--save", "best.onnx"): ("--output?", ["-o", tmp_path / "best.onnx"]),
    }
    right = []
    for wrong, (answer, flags) in typed.items():
        text = refused(USAGE, "train", model, "--data", data, *right, *wrong)
        assert "did you mean" in text and answer in text, text
        right += flags
    mpctest.mpc_ok("train", model, "--data", data, *right, "-q")
    best = tmp_path / "best.onnx"
    process = mpctest.mpc_ok("eval", best, "--data", data, *CLASSES, "-q")
    assert process.stdout.startswith("evaluation: accuracy")


def test_who_knows_scikit_learn_has_x_and_y(flowers, tmp_path):
    """The user passes X and y, labels that are words, and a table, then
    predicts one row."""
    rows, labels = flowers
    words = np.array(["iris", "rose", "tulip"])[labels]
    model = journey.save(journey.perceptron(), tmp_path / "m.onnx")
    train = ["train", model, *CLASSES, "--batch-size", 16, "--epochs", 20, "--lr", 1]
    data = journey.save_arrays(tmp_path / "Xy.npz", X=rows, y=labels)
    text = refused(INVALID, *train, "--data", data)
    assert "save the array under that name" in text
    data = journey.save_arrays(tmp_path / "words.npz", x=rows, target=words)
    text = refused(INVALID, *train, "--data", data)
    assert "numpy.unique(labels, return_inverse=True)[1]" in text
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    text = refused(INVALID, *train, "--data", tmp_path / "rows.parquet")
    assert "save it as .csv" in text
    # The table works unchanged.
    table = tmp_path / "rows.csv"
    header = "a,b,c,d,flower"
    values = np.column_stack([rows, labels])
    np.savetxt(table, values, "%.7g", ",", header=header, comments="")
    output = tmp_path / "o.onnx"
    mpctest.mpc_ok(*train, "--data", table, "--target-array", "flower", "-o", output)
    assert "flower numbers" in " ".join(mpctest.mpc_ok("inspect", table).stdout.split())
    text = refused(USAGE, "run", output, "--data", table)
    assert "--csv-columns x=a:..." in text
    predictions = tmp_path / "p.csv"
    columns = ["--csv-columns", "x=a:d"]
    mpctest.mpc_ok("run", output, "--data", table, *columns, "-o", predictions)
    scores = np.loadtxt(predictions, delimiter=",", skiprows=1)
    assert journey.accuracy(scores, labels) > 0.85
    # One row, given as numbers.
    process = mpctest.mpc_ok("run", output, "--input", "x=5,0,0,0")
    assert "f32 1x3" in process.stdout


@pytest.mark.parametrize(
    "start, found",
    [
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras); export the model with tf2onnx"),
        (b"\x1c\0\0\0TFL3", "a TensorFlow Lite file"),
        (b"\x80\x04\x95", "a Python pickle, which is never read"),
    ],
)
def test_who_knows_keras_passes_its_file(start, found, tmp_path):
    (tmp_path / "model").write_bytes(start + bytes(64))
    assert found in refused(INVALID, "inspect", tmp_path / "model")


def test_who_compares_pairs_has_two_inputs(tmp_path):
    """The user has a Siamese network: one layer read twice, and a cosine
    similarity."""
    nodes = [
        helper.make_node("Gemm", ["a", "w", "bias"], ["ea"], "first", transB=1),
        helper.make_node("Gemm", ["b", "w", "bias"], ["eb"], "second", transB=1),
        helper.make_node("Mul", ["ea", "eb"], ["products"]),
        helper.make_node("ReduceSum", ["products", "axes"], ["dot"], keepdims=0),
        helper.make_node("ReduceL2", ["ea", "axes"], ["na"], keepdims=0),
        helper.make_node("ReduceL2", ["eb", "axes"], ["nb"], keepdims=0),
        helper.make_node("Mul", ["na", "nb"], ["norms"]),
        helper.make_node("Div", ["dot", "norms"], ["cosine"]),
        helper.make_node("Mul", ["cosine", "sharpness"], ["sharp"]),
        helper.make_node("Add", ["sharp", "offset"], ["y"]),
    ]
    random = np.random.default_rng(0)
    model = mpctest.make_model(
        nodes,
        {"a": (np.float32, ["N", 8]), "b": (np.float32, ["N", 8])},
        {"y": (np.float32, ["N"])},
        {
            "w": random.standard_normal((4, 8)).astype(np.float32),
            "bias": np.zeros(4, np.float32),
            "axes": np.array([1]),
            "sharpness": np.array(8, np.float32),
            "offset": np.array(-6, np.float32),
        },
    )
    model = journey.save(model, tmp_path / "siamese.onnx")
    first = random.standard_normal((320, 8)).astype(np.float32)
    same = random.random(320) < 0.5
    other = random.standard_normal((320, 8)).astype(np.float32)
    second = np.where(same[:, None], first + 0.1 * other, other)
    target = same.astype(np.float32)
    data = journey.save_arrays(tmp_path / "d.npz", a=first, b=second, target=target)
    output = tmp_path / "o.onnx"
    mpctest.mpc_ok(
        *("train", model, "--data", data, "--loss", "bce_with_logits"),
        *("--optimizer", "adam", "--lr", 0.02, "--batch-size", 32),
        *("--epochs", 30, "-o", output),
    )
    scores = tmp_path / "scores.npz"
    mpctest.mpc_ok("run", output, "--data", data, "-o", scores)
    with np.load(scores) as arrays:
        assert np.mean((arrays["y"] > 0) == same) > 0.85


def test_who_writes_results_names_a_folder_that_there_is(flowers, tmp_path):
    """mpc refuses before it runs if it cannot write the result."""
    rows, labels = flowers
    model = journey.save(journey.perceptron(), tmp_path / "m.onnx")
    data = journey.save_arrays(tmp_path / "d.npz", x=rows, target=labels)
    for command, name in [("run", "p.csv"), ("compile", "m.mpc")]:
        flags = ["--data", data] if command == "run" else ["--batch-size", 4]
        text = refused(5, command, model, *flags, "-o", tmp_path / "none" / name)
        assert f"none/{name}: folder" in text and "does not exist" in text
    onnx.checker.check_model(str(model))
