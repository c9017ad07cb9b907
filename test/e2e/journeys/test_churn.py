"""A user predicts churn from a table with gaps and words. mpc says what is
wrong with the table, and predicts for columns that training normalized.

SPDX-License-Identifier: Apache-2.0
"""

import csv

import numpy as np

import mpctest
from journey import INVALID, perceptron, refused, save

COLUMNS = ["customer", "tenure", "monthly", "contract", "churn"]


def make_table(path, clean):
    random = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for i in range(200):
            tenure, monthly = random.integers(1, 72), random.uniform(20, 120)
            yearly = random.random() < 0.5
            churns = monthly / 100 - tenure / 72 - yearly / 2 > 0
            row = [f"C{i}", tenure, f"{monthly:.2f}", "yearly", "Yes"]
            if clean:
                row[3:] = [int(yearly), int(churns)]
            elif i == 6:
                row[2] = ""
            table.writerow(row)
    return path


def test_journey(tmp_path):
    model = save(perceptron(inputs=3, outputs=1), tmp_path / "model.onnx")
    flags = ["--target-array", "churn", "--loss", "bce_with_logits"]
    flags += ["--batch-size", 20]
    raw = make_table(tmp_path / "raw.csv", clean=False)
    said = refused(INVALID, "train", model, "--data", raw, *flags)
    assert "4 columns are left for the input 'x', which takes 3" in said
    flags += ["--csv-columns", "x=tenure:contract"]
    said = refused(INVALID, "train", model, "--data", raw, *flags)
    assert "line 8, column 'monthly': a value is missing" in said
    # The user's cleaned table trains.
    clean = make_table(tmp_path / "clean.csv", clean=True)
    prepared = [*flags, "--normalize", "36,70,0.5:20,30,0.5"]
    trained = tmp_path / "trained.onnx"
    process = mpctest.mpc_ok(
        *("train", model, "--data", clean, *prepared, "--val-split", 0.2),
        *("--metric", "f1", "--best", "f1", "--optimizer", "adamw", "--lr", 0.02),
        *("--epochs", 40, "--output", trained),
    )
    assert "best: step" in process.stdout
    evaluated = mpctest.mpc_ok("eval", trained, "--data", clean, *prepared)
    assert "was trained with" not in evaluated.stderr
    # The model knows how the columns were prepared. mpc warns a user who takes
    # nothing from the model and forgets that.
    known = mpctest.mpc_ok("eval", trained, "--data", clean, *flags)
    assert known.stdout == evaluated.stdout
    assert "--normalize 36,70,0.5:20,30,0.5" in known.stderr
    flags.append("--no-metadata")
    warning = (
        "trained.onnx was trained with --normalize 36,70,0.5:20,30,0.5, and is "
    )
    neither = " with neither --normalize nor --input-layout"
    forgetful = mpctest.mpc_ok("eval", trained, "--data", clean, *flags)
    assert warning + "evaluated" + neither in forgetful.stderr
    columns = ["--csv-columns", "x=tenure:contract"]
    predict = ["run", trained, "--data", clean, *columns, "--no-metadata"]
    output = ["--output", tmp_path / "scores.csv"]
    forgetful = mpctest.mpc_ok(*predict, *output)
    assert warning + "run" + neither in forgetful.stderr
    careful = mpctest.mpc_ok(*predict, *prepared[-2:], *output)
    assert "was trained with" not in careful.stderr
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 201


def test_another_training_has_the_last_word(tmp_path):
    """A model that is trained again records its latest preparation."""
    data = tmp_path / "data.npz"
    samples = np.random.default_rng(0).normal(0, 1, (40, 4)).astype(np.float32)
    np.savez(data, x=samples, target=np.arange(40) % 3)
    model = save(perceptron(), tmp_path / "model.onnx")
    flags = ["--data", data, "--loss", "cross_entropy", "--batch-size", 10]
    normalized = [*flags, "--normalize", "0.5:2"]
    for name, given, options in [
        ("first", model, normalized),
        ("second", tmp_path / "first.onnx", flags),
    ]:
        output = ["--output", tmp_path / f"{name}.onnx"]
        mpctest.mpc_ok("train", given, *options, *output)
    bare = [*flags, "--no-metadata"]
    told = mpctest.mpc_ok("eval", tmp_path / "first.onnx", *bare)
    assert "was trained with --normalize 0.5:2" in told.stderr
    told = mpctest.mpc_ok("eval", tmp_path / "second.onnx", *bare)
    assert "was trained with" not in told.stderr
