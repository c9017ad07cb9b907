"""A user classifies sounds from spectrograms: a .npy file each, in a folder per
sound.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest
from journey import INVALID, linear, parameters, refused, save

SOUNDS = ["clap", "dog", "rain"]
ROWS, COLUMNS = 6, 8


def spectrogram(random, sound):
    values = random.normal(0, 1, (ROWS, COLUMNS))
    values[2 * sound : 2 * sound + 2] += 3
    return values.astype(np.float32)


def make_folders(folder, count, seed=0):
    random = np.random.default_rng(seed)
    for sound, name in enumerate(SOUNDS):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            np.save(folder / name / f"{i:03d}.npy", spectrogram(random, sound))
    return folder


def classifier(path):
    nodes = [
        helper.make_node("Flatten", ["spec"], ["f"], "flatten"),
        linear("fc", "f", "logits"),
    ]
    model = mpctest.make_model(
        nodes,
        {"spec": (np.float32, ["N", 1, ROWS, COLUMNS])},
        {"logits": (np.float32, ["N", len(SOUNDS)])},
        parameters(np.random.default_rng(0), fc=(len(SOUNDS), ROWS * COLUMNS)),
    )
    return save(model, path)


FLAGS = ["--loss", "cross_entropy", "--batch-size", 10, "--optimizer", "adam"]


def test_journey(tmp_path):
    model = classifier(tmp_path / "model.onnx")
    train = make_folders(tmp_path / "train", 30)
    held = make_folders(tmp_path / "held", 10, seed=1)
    # The files lack the model's channel axis of length one.
    process = mpctest.mpc_ok(
        *("train", model, "--data", f"spec={train}", "--val-data", f"spec={held}"),
        *(*FLAGS, "--lr", 0.05, "--epochs", 10, "--output", tmp_path / "o.onnx"),
    )
    assert "90 samples of 3 labels: 0 clap, 1 dog, 2 rain" in process.stderr
    assert "evaluation: accuracy 100.00%" in process.stdout
    # New spectrograms have no labels.
    output = tmp_path / "scores.npz"
    mpctest.mpc_ok(
        *("run", tmp_path / "o.onnx", "--data", f"spec={held / 'dog'}"),
        *("--output", output),
    )
    with np.load(output) as arrays:
        assert (arrays["logits"].argmax(1) == 1).all()
        assert len(arrays["logits"]) == 10


def test_the_run_is_that_of_one_file(tmp_path):
    """Files in folders train to the same bits as one file of all samples."""
    model = classifier(tmp_path / "model.onnx")
    train = make_folders(tmp_path / "train", 8)
    files = [sorted((train / name).iterdir()) for name in SOUNDS]
    arrays = {
        "spec": np.stack([np.load(f)[None] for group in files for f in group]),
        "target": np.repeat(np.arange(len(SOUNDS)), 8),
    }
    np.savez(tmp_path / "all.npz", **arrays)
    trained = []
    for i, data in enumerate([f"spec={train}", tmp_path / "all.npz"]):
        output = tmp_path / f"o{i}.npz"
        mpctest.mpc_ok(
            *("train", model, "--data", data, *FLAGS, "--epochs", 3),
            *("--output", output),
        )
        trained.append(dict(np.load(output)))
    for name, value in trained[0].items():
        assert np.array_equal(value, trained[1][name])


@pytest.mark.parametrize(
    "name, made, words",
    [
        ("dog/003.npy", np.zeros((ROWS, 3), "f4"), ["f32 [6,3]", "is f32 [6,8]"]),
        ("dog/003.npy", np.zeros((ROWS, COLUMNS), "f8"), ["f64 [6,8]"]),
        ("dog/notes.txt", None, ["is not a .npy file"]),
    ],
)
def test_what_is_no_such_sample_is_named(name, made, words, tmp_path):
    model = classifier(tmp_path / "model.onnx")
    train = make_folders(tmp_path / "train", 5)
    if made is None:
        (train / name).write_text("none")
    else:
        np.save(train / name, made)
    said = refused(INVALID, "train", model, "--data", f"spec={train}", *FLAGS)
    for word in [name, *words]:
        assert word in said, said


def test_a_folder_within_a_label_is_refused(tmp_path):
    """Samples in the inner folder would be missing from the run."""
    model = classifier(tmp_path / "model.onnx")
    train = make_folders(tmp_path / "train", 5)
    (train / "dog" / "loud").mkdir()
    (train / "dog" / "003.npy").rename(train / "dog" / "loud" / "003.npy")
    said = refused(INVALID, "train", model, "--data", f"spec={train}", *FLAGS)
    assert "dog/loud: is a folder within that of a label" in said


def test_a_sample_beside_the_labels_is_refused(tmp_path):
    """The sample would be missing from the run."""
    model = classifier(tmp_path / "model.onnx")
    train = make_folders(tmp_path / "train", 5)
    (train / "dog" / "003.npy").rename(train / "003.npy")
    said = refused(INVALID, "train", model, "--data", f"spec={train}", *FLAGS)
    assert "train/003.npy: is in no label's folder" in said


def test_labels_must_be_the_same_ones(tmp_path):
    model = classifier(tmp_path / "model.onnx")
    train = make_folders(tmp_path / "train", 5)
    held = make_folders(tmp_path / "held", 5)
    (held / "rain").rename(held / "wind")
    said = refused(
        *(INVALID, "train", model, "--data", f"spec={train}", *FLAGS),
        *("--val-data", f"spec={held}"),
    )
    assert "has other labels than" in said
