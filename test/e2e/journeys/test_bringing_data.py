"""A user brings images as integers, channels last, in several files, and as a
table. mpc says how it prepares them, and refuses ambiguous data with a way out.

SPDX-License-Identifier: Apache-2.0
"""

import journey
import numpy as np

import mpctest

CNN = mpctest.MODELS / "digits-cnn.onnx"


def train(*arguments):
    return [
        *("train", CNN, *journey.CLASSES, "--batch-size", 32, "--max-steps", 10),
        *("--no-shuffle", "--metrics", "-", *mpctest.TARGET, *arguments),
    ]


def losses(process):
    events = map(mpctest.json.loads, process.stdout.splitlines())
    return [e["loss"] for e in events if e["event"] == "train"]


def test_journey(tmp_path):
    data = np.load(journey.TRAIN)
    image, target = data["image"], data["target"]
    process = mpctest.mpc_ok(*train("--data", journey.TRAIN))
    expected = losses(process)
    assert "u8 is taken as it is, 0..255" in process.stderr

    # The same samples in another form.
    journey.save_arrays(
        tmp_path / "last.npz", image=np.moveaxis(image, 1, -1), target=target
    )
    for i in range(3):
        part = slice(500 * i, 500 * (i + 1))
        journey.save_arrays(
            tmp_path / f"shard-{i}.npz", image=image[part], target=target[part]
        )
    np.save(tmp_path / "pixels.npy", image.astype(np.float64))
    np.save(tmp_path / "labels.npy", target)
    header = ",".join([*(f"p{i}" for i in range(64)), "label"])
    table = np.column_stack([image.reshape(-1, 64), target])
    np.savetxt(tmp_path / "t.csv", table, "%d", ",", header=header, comments="")
    for arguments, said in (
        (["--data", tmp_path / "last.npz"], "converted from channels last"),
        (["--data", tmp_path / "shard-*.npz"], ""),
        (
            [
                *("--data", f"image={tmp_path}/pixels.npy"),
                *("--data", f"target={tmp_path}/labels.npy"),
            ],
            "",
        ),
        (["--data", tmp_path / "t.csv", "--target-array", "label"], ""),
    ):
        process = mpctest.mpc_ok(*train(*arguments))
        assert losses(process) == expected, arguments
        assert said in process.stderr

    # Scaled inputs make another run.
    process = mpctest.mpc_ok(*train("--data", journey.TRAIN, "--normalize", "0:1"))
    assert "0..255" not in process.stderr
    assert losses(process) != expected


def test_data_that_does_not_fit(tmp_path):
    data = np.load(journey.TRAIN)
    image, target = data["image"], data["target"]
    color = np.repeat(np.moveaxis(image, 1, -1), 3, axis=3)
    wrong = target.astype(np.int64)
    wrong[7] = 10
    missing = image.astype(np.float32)
    missing[3, 0, 2, 1] = np.nan
    for name, arrays, words in (
        ("color", {"image": color, "target": target}, ["images of 3 channels", "takes 1"]),
        ("flat", {"image": image.reshape(-1, 64), "target": target}, ["reshape(-1,1,8,8)"]),
        ("wrong", {"image": image, "target": wrong}, ["10", "target"]),
        ("missing", {"image": missing, "target": target}, ["image", "nan"]),
        ("named", {"pixels": image, "target": target}, ["'image'", "pixels"]),
        ("few", {"image": image[:5], "target": target[:5]}, ["5 samples", "--last-batch"]),
    ):
        path = journey.save_arrays(tmp_path / f"{name}.npz", **arrays)
        text = journey.refused(journey.INVALID, *train("--data", path))
        assert all(word in text for word in words), text
    # An unused array is harmless, and mpc names it.
    path = journey.save_arrays(
        tmp_path / "more.npz", image=image, target=target, weight=target
    )
    assert "no input takes 'weight'" in mpctest.mpc_ok(*train("--data", path)).stderr


def test_no_sample_is_lost_silently(tmp_path):
    """1438 samples are 44 batches of 32, plus 30 samples."""
    run = ["train", CNN, "--data", journey.TRAIN, *journey.CLASSES]
    run += ["--batch-size", 32, "--epochs", 1]
    process = mpctest.mpc_ok(*run)
    assert "leaves out 30 of 1438 samples" in process.stderr
    assert "44 steps, 1 epoch, 1408 samples" in process.stdout
    process = mpctest.mpc_ok(*run, "--last-batch", "keep", "--val-split", 0.5)
    assert "leaves out" not in process.stderr
    assert "23 steps, 1 epoch, 736 samples" in process.stdout
    assert "on 719 samples" in process.stderr
