"""A user forecasts the hourly load of a grid with an LSTM. Each row of the
table is a window of hours and the hour after it.

SPDX-License-Identifier: Apache-2.0
"""

import csv

import numpy as np
from onnx import helper

import mpctest
from journey import INVALID, linear, parameters, refused, save

HOURS, HIDDEN = 24, 16


def make_tables(folder):
    """Writes hours.csv as measured, and windows.csv as the model takes it."""
    random = np.random.default_rng(0)
    hours = np.arange(700)
    load = np.sin(hours * 2 * np.pi / 24) + random.normal(0, 0.05, hours.size)
    with (folder / "hours.csv").open("w", newline="") as file:
        rows = [(f"2026-01-{hour}", f"{load[hour]:.3f}") for hour in hours]
        csv.writer(file).writerows([("time", "load"), *rows])
    with (folder / "windows.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([f"h{i}" for i in range(HOURS)] + ["next"])
        for i in range(hours.size - HOURS):
            table.writerow([f"{value:.3f}" for value in load[i : i + HOURS + 1]])


def forecaster():
    """Returns PyTorch's LSTM(1, HIDDEN, batch_first=True) -> the last hour's ->
    fc."""
    nodes = [
        helper.make_node("Transpose", ["window"], ["steps"], perm=[1, 0, 2]),
        helper.make_node(
            *("LSTM", ["steps", "w", "r", "b"], ["", "last"], "lstm"),
            hidden_size=HIDDEN,
        ),
        helper.make_node("Squeeze", ["last", "zero"], ["h"]),
        linear("fc", "h", "y"),
        helper.make_node("Squeeze", ["y", "one"], ["forecast"]),
    ]
    random = np.random.default_rng(0)
    shapes = {"w": (1, 4 * HIDDEN, 1), "r": (1, 4 * HIDDEN, HIDDEN)}
    shapes["b"] = (1, 8 * HIDDEN)
    values = {
        name: random.uniform(-0.25, 0.25, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    values |= parameters(random, fc=(1, HIDDEN))
    values |= {"zero": np.array([0]), "one": np.array([1])}
    return mpctest.make_model(
        nodes,
        {"window": (np.float32, ["batch", HOURS, 1])},
        {"forecast": (np.float32, ["batch"])},
        values,
    )


def test_journey(tmp_path):
    make_tables(tmp_path)
    model = save(forecaster(), tmp_path / "lstm.onnx")
    # A table with another extension is not read as a table.
    other = tmp_path / "hours.tsv"
    other.write_text((tmp_path / "hours.csv").read_text().replace(",", "\t"))
    said = refused(INVALID, "train", model, "--data", other, "--loss", "mse")
    assert "this looks like a table: name the file .csv, and put commas" in said
    # Single hours are not samples.
    flags = ["--target-array", "load", "--loss", "mse"]
    said = refused(INVALID, "train", model, "--data", tmp_path / "hours.csv", *flags)
    assert "1 columns are left for the input 'window', which takes 24" in said
    assert "; a row is one sample" in said
    # Windows are samples. Unless the target column is named, there is one
    # column too many.
    data = ["--data", tmp_path / "windows.csv"]
    said = refused(INVALID, "train", model, *data, "--loss", "mse")
    assert "name labels with --target-array" in said
    flags[1] = "next"
    data += ["--normalize", "0:0.7"]
    trained = tmp_path / "trained.onnx"
    process = mpctest.mpc_ok(
        *("train", model, *data, *flags, "--val-split", 0.2, "--metric", "mae,r2"),
        *("--optimizer", "adam", "--lr", 0.02, "--epochs", 15, "--best", "min:mae"),
        *("--lr-scheduler", "cosine", "-o", trained),
    )
    # The same flags forecast the training data.
    process = mpctest.mpc_ok("eval", trained, *data, *flags, "--metric", "r2")
    r2 = float(process.stdout.split("r2 ")[1].split(",")[0])
    assert r2 > 0.9, process.stdout
    said = refused(INVALID, "run", trained, *data)
    assert "25 columns are left for the input 'window', which takes 24" in said
    assert "--csv-columns window=..., and name labels with --target-array" in said
    columns = ["--csv-columns", f"window=h0:h{HOURS - 1}"]
    for table, named in (("columns.csv", columns), ("forecast.csv", flags[:2])):
        mpctest.mpc_ok("run", trained, *data, *named, "-o", tmp_path / table)
    table = tmp_path / "forecast.csv"
    assert table.read_text() == (tmp_path / "columns.csv").read_text()
    assert table.read_text().splitlines()[0] == "forecast"
    forecast = np.loadtxt(table, skiprows=1)
    measured = np.loadtxt(tmp_path / "windows.csv", delimiter=",", skiprows=1)[:, -1]
    assert np.corrcoef(forecast, measured)[0, 1] > 0.95


def test_labels_that_no_data_has(tmp_path):
    """A name without effect is a mistake."""
    model = save(forecaster(), tmp_path / "lstm.onnx")
    np.save(tmp_path / "window.npy", np.zeros((3, HOURS, 1), np.float32))
    flags = ["--data", tmp_path / "window.npy", "--target-array", "next"]
    said = refused(2, "run", model, *flags)
    assert "--target-array is for training, and has no effect without --loss" in said
