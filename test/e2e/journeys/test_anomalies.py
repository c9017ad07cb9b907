"""A user finds anomalies in a table of sensors without labels: an autoencoder
learns normal rows and cannot reconstruct broken ones.

SPDX-License-Identifier: Apache-2.0
"""

import csv

import numpy as np
import onnxruntime
from onnx import helper

import mpctest
from journey import linear, parameters, save, save_arrays

SENSORS = 6
# Temperatures, pressures and revolutions differ widely in size.
MEAN = np.array([20, 1013, 0, 3000, 0.5, 7])
DEVIATION = np.array([5, 10, 1, 200, 0.1, 2])
NORMALIZE = "{}:{}".format(*(",".join(map(str, v)) for v in (MEAN, DEVIATION)))


def autoencoder():
    nodes = [
        linear("encoder", "sensors", "h"),
        helper.make_node("Tanh", ["h"], ["code"], "tanh"),
        linear("decoder", "code", "again"),
    ]
    random = np.random.default_rng(0)
    return mpctest.make_model(
        nodes,
        {"sensors": (np.float32, ["batch", SENSORS])},
        {"again": (np.float32, ["batch", SENSORS])},
        parameters(random, encoder=(3, SENSORS), decoder=(SENSORS, 3)),
    )


def record(count, broken=0, seed=0):
    """Two causes drive six sensors. In the last `broken` rows each sensor is
    independent."""
    random = np.random.default_rng(3)
    mixture = random.normal(0, 0.7, (2, SENSORS))
    random = np.random.default_rng(seed)
    rows = np.tanh(random.normal(0, 1, (count, 2)) @ mixture)
    rows += random.normal(0, 0.03, rows.shape)
    rows[count - broken :] = random.normal(0, 1, (broken, SENSORS))
    return (rows * DEVIATION + MEAN).round(6)


def save_table(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([f"s{i}" for i in range(SENSORS)])
        writer.writerows(rows)
    return path


def test_journey(tmp_path):
    model = save(autoencoder(), tmp_path / "model.onnx")
    normal = record(1500)
    table = save_table(tmp_path / "normal.csv", normal)
    output = tmp_path / "trained.onnx"
    # The input is its own target: no array is stored twice.
    command = ["train", model, "--data", table, "--target-array", "sensors"]
    command += ["--loss", "mse", "--metric", "mae", "--val-split", 0.1]
    command += ["--normalize", NORMALIZE, "--optimizer", "adam", "--lr", 0.01]
    command += ["--batch-size", 30, "--epochs", 15, "--early-stopping", "loss:3"]
    process = mpctest.mpc_ok(*command, "--output", output)
    assert "evaluation: mae 0.0" in process.stdout

    # Figures apply to normalized input and normalized target.
    today = save_table(tmp_path / "today.csv", record(300, broken=30, seed=1))
    rows = np.loadtxt(today, delimiter=",", skiprows=1)
    x = ((rows - MEAN) / DEVIATION).astype(np.float32)
    (again,) = onnxruntime.InferenceSession(output).run(None, {"sensors": x})
    errors = ((again - x) ** 2).mean(axis=1)
    process = mpctest.mpc_ok(
        *("eval", output, "--data", today, "--target-array", "sensors"),
        *("--loss", "mse", "--metric", "mae", "--normalize", NORMALIZE),
    )
    assert f"mae {abs(again - x).mean():.3g}" in process.stdout
    assert f"loss {errors.mean():.3g}" in process.stdout
    # Broken rows stand out in the table of reconstructions.
    written = tmp_path / "again.csv"
    mpctest.mpc_ok(
        *("run", output, "--data", today, "--normalize", NORMALIZE, "-o", written)
    )
    found = np.loadtxt(written, delimiter=",", skiprows=1)
    np.testing.assert_allclose(found, again, atol=1e-5)
    errors = ((found - x) ** 2).mean(axis=1)
    assert set(np.argsort(errors)[-20:]) <= set(range(270, 300))
    assert np.median(errors[270:]) > 20 * np.median(errors[:270])


def test_the_same_array_twice_is_the_same_run(tmp_path):
    model = save(autoencoder(), tmp_path / "model.onnx")
    x = ((record(90) - MEAN) / DEVIATION).astype(np.float32)
    both = save_arrays(tmp_path / "both.npz", sensors=x, target=x)
    one = save_arrays(tmp_path / "one.npz", sensors=x)
    flags = ["--loss", "mse", "--batch-size", 30, "--epochs", 2]
    first, _ = mpctest.train(model, both, tmp_path / "both", *flags)
    second, _ = mpctest.train(
        *(model, one, tmp_path / "one", *flags, "--target-array", "sensors")
    )
    assert mpctest.losses(first) == mpctest.losses(second)


def test_without_normalization_the_run_ends_and_says_why(tmp_path):
    model = save(autoencoder(), tmp_path / "model.onnx")
    table = save_table(tmp_path / "normal.csv", record(900))
    process = mpctest.mpc(
        *("train", model, "--data", table, "--target-array", "sensors"),
        *("--loss", "mse", "--lr", 1000, "--epochs", 3, "--log-every", 0),
    )
    assert process.returncode == 7
    assert "smaller inputs" in process.stderr
    assert "-nan" not in process.stderr


def test_photos_of_what_is_whole(tmp_path):
    """A folder of images without labels is its own target, like an array."""
    random = np.random.default_rng(0)
    photos = random.integers(0, 256, (24, 1, 8, 8)).astype(np.uint8)
    for i, photo in enumerate(photos):
        mpctest.save_png(tmp_path / "photos" / f"{i:02d}.png", photo[0])
    weights = {"w": random.normal(0, 0.3, (1, 1, 3, 3)).astype(np.float32)}
    shape = (np.float32, ["batch", 1, 8, 8])
    model = mpctest.make_model(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1] * 4)],
        *({"x": shape}, {"y": shape}, weights),
    )
    flags = ["--target-array", "x", "--loss", "mse", "--batch-size", 8]
    flags += ["--normalize", "0.5:0.25", "--epochs", 2, "--val-split", 0.25]
    flags += ["--metric", "rmse"]
    expected = None
    for data in (
        save_arrays(tmp_path / "photos.npz", x=photos),
        tmp_path / "photos",
        f"x={tmp_path}/photos",
    ):
        metrics, _ = mpctest.train(model, data, tmp_path / "run", *flags)
        (last,) = [e for e in metrics if e["event"] == "eval"][-1:]
        assert abs(last["eval_rmse"] ** 2 - last["eval_loss"]) < 1e-5
        found = mpctest.losses(metrics)
        assert expected is None or found == expected
        expected = found
