"""Trains on masks as pixel labels, in the images/ and masks/ folders of
segmentation data.

SPDX-License-Identifier: Apache-2.0
"""

import re

import mpctest
import numpy as np
import onnx
import pytest
from onnx import helper

INVALID = 3
SIZE = 6


def save_model(folder, classes, size=SIZE):
    """Saves a convolution that gives every pixel its class scores."""
    random = np.random.RandomState(0)
    weights = random.standard_normal((classes, 3, 3, 3)).astype(np.float32)
    model = mpctest.make_model(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], "conv", pads=[1] * 4)],
        {"x": (np.float32, ["N", 3, size, size])},
        {"y": (np.float32, ["N", classes, size, size])},
        {"w": weights, "b": np.zeros(classes, np.float32)},
    )
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def train(folder, data, loss="cross_entropy", *flags):
    """Runs `mpc train` on `data`. Returns the exit code, the messages and the
    weights."""
    output = folder / "trained.npz"
    output.unlink(missing_ok=True)
    process = mpctest.mpc(
        *("train", folder / "model.onnx", *data, "--loss", loss),
        *("--batch-size", 2, "--epochs", 3, "--normalize", "0:1"),
        *("--output", output, *flags),
    )
    if process.returncode:
        return process.returncode, process.stderr, {}
    with np.load(output) as arrays:
        return 0, process.stderr, dict(arrays)


@pytest.fixture
def pictures():
    """Returns six images, each with a mask of three classes."""
    random = np.random.RandomState(1)
    images = random.randint(0, 256, (6, SIZE, SIZE, 3)).astype(np.uint8)
    masks = random.randint(0, 3, (6, SIZE, SIZE)).astype(np.uint8)
    return images, masks


def save_folders(folder, images, masks, palette=True, suffix=""):
    for i, (image, mask) in enumerate(zip(images, masks)):
        mpctest.save_png(folder / "images" / f"{i}.png", image)
        mpctest.save_png(folder / "masks" / f"{i}{suffix}.png", mask, palette)


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value)


@pytest.mark.parametrize("apart", [False, True], ids=["one folder", "two folders"])
def test_masks_are_the_classes_of_pixels(apart, pictures, tmp_path):
    images, masks = pictures
    save_model(tmp_path, 3)
    save_folders(tmp_path / "data", images, masks)
    np.savez(tmp_path / "d.npz", x=images.transpose(0, 3, 1, 2), target=masks)
    folders = tmp_path / "data"
    data = ["--data", f"x={folders}"]
    if apart:
        data = ["--data", f"x={folders}/images", "--data", f"target={folders}/masks"]
    code, text, files = train(tmp_path, data)
    assert code == 0, text
    assert "6 masks with the class numbers 0, 1, 2" in text
    code, text, arrays = train(tmp_path, ["--data", tmp_path / "d.npz"])
    assert code == 0, text
    assert_same(files, arrays)


def test_a_folder_is_for_the_only_input(pictures, tmp_path):
    """Covers training, evaluation and a run, from a model and from an artifact."""
    model, artifact = save_model(tmp_path, 3), tmp_path / "model.mpc"
    save_folders(tmp_path / "data", *pictures)
    named = train(tmp_path, ["--data", f"x={tmp_path}/data"])
    data = ["--data", tmp_path / "data"]
    assert named[0] == 0, named[1]
    assert_same(train(tmp_path, data)[2], named[2])
    loss = ["--loss", "cross_entropy"]
    mpctest.mpc_ok(*("compile", model, *loss, "--batch-size", 2, "-o", artifact))
    for command in (["eval", model, *loss], ["eval", artifact], ["run", model, "-q"]):
        mpctest.mpc_ok(*command, *data)
    said = mpctest.mpc_ok("train", artifact, *data, "--val-data", *data[1:]).stdout
    assert "evaluation: " in said


def test_a_folder_is_for_one_of_several_inputs(pictures, tmp_path):
    model = mpctest.make_model(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        {name: (np.float32, ["N", 3, SIZE, SIZE]) for name in "ab"},
        {"y": (np.float32, ["N", 3, SIZE, SIZE])},
        {},
    )
    onnx.save(model, tmp_path / "model.onnx")
    save_folders(tmp_path / "data", *pictures)
    folder = f"{tmp_path}/data/images"
    process = mpctest.mpc("run", tmp_path / "model.onnx", "--data", folder)
    assert process.returncode == 2
    said = f"such as --data a={folder}; there are 'a', 'b'"
    assert said in process.stderr
    output = tmp_path / "sum.npz"
    mpctest.mpc_ok(
        *("run", tmp_path / "model.onnx", "--data", f"a={folder}"),
        *("--data", folder, "-o", output),
    )
    with np.load(output) as arrays:
        assert_same({"y": arrays["y"]}, {"y": 2.0 * pictures[0].transpose(0, 3, 1, 2)})
        assert len(arrays["file"]) == len(pictures[0])


def test_black_and_white_masks_are_zeros_and_ones(pictures, tmp_path):
    images, masks = pictures
    masks = (masks > 0).astype(np.uint8)
    save_model(tmp_path, 1)
    save_folders(tmp_path / "data", images, 255 * masks, False, "_mask")
    target = masks[:, None].astype(np.float32)
    np.savez(tmp_path / "d.npz", x=images.transpose(0, 3, 1, 2), target=target)
    data = ["--data", f"x={tmp_path}/data"]
    code, text, files = train(tmp_path, data, "bce_with_logits")
    assert code == 0, text
    assert "masks with the class numbers 0, 255, which become 0 and 1" in text
    _, _, arrays = train(tmp_path, ["--data", tmp_path / "d.npz"], "bce_with_logits")
    assert_same(files, arrays)


def test_what_is_ignored_stays_255(pictures, tmp_path):
    images, masks = pictures
    save_model(tmp_path, 3)
    save_folders(tmp_path / "data", images, np.where(masks == 2, 255, 0).astype("u1"))
    data = ["--data", f"x={tmp_path}/data"]
    code, text, _ = train(tmp_path, data, "cross_entropy", "--ignore-index", 255)
    assert code == 0, text
    assert "masks with the class numbers 0, 255\n" in text


def test_masks_are_resized_without_new_numbers(pictures, tmp_path):
    """Masks use the nearest pixel where images interpolate."""
    images, masks = pictures
    save_model(tmp_path, 3)
    large = masks.repeat(2, axis=1).repeat(3, axis=2)
    flat = np.full_like(images, 7)
    save_folders(tmp_path / "large", flat.repeat(2, axis=1).repeat(3, axis=2), large)
    save_folders(tmp_path / "small", flat, masks)
    _, text, resized = train(tmp_path, ["--data", f"x={tmp_path}/large"])
    assert "masks with the class numbers 0, 1, 2" in text
    _, _, plain = train(tmp_path, ["--data", f"x={tmp_path}/small"])
    assert_same(resized, plain)


def test_every_image_needs_its_mask(pictures, tmp_path):
    save_model(tmp_path, 3)
    save_folders(tmp_path / "data", *pictures)
    data = ["--data", f"x={tmp_path}/data"]
    (tmp_path / "data/masks/3.png").unlink()
    code, text, _ = train(tmp_path, data)
    assert code == INVALID
    assert "images/3.png: an image without a mask" in text
    (tmp_path / "data/masks/3.png").write_bytes(b"no image")
    code, text, _ = train(tmp_path, data)
    assert code == INVALID
    assert "masks/3.png: neither a JPEG nor a PNG image" in text
    (tmp_path / "data/images/3.png").unlink()
    code, text, _ = train(tmp_path, data)
    assert code == INVALID
    assert "masks/3.png: a mask without an image" in text


def test_colours_are_no_classes(pictures, tmp_path):
    images, _ = pictures
    save_model(tmp_path, 3)
    save_folders(tmp_path / "data", images, images, palette=False)
    code, text, _ = train(tmp_path, ["--data", f"x={tmp_path}/data"])
    assert code == INVALID
    assert "masks/0.png: a mask in colours; expected the number of a class" in text


def test_a_class_that_the_model_lacks_is_named(pictures, tmp_path):
    save_model(tmp_path, 2)
    save_folders(tmp_path / "data", *pictures)
    code, text, _ = train(tmp_path, ["--data", f"x={tmp_path}/data"])
    assert code == INVALID
    assert re.search(
        r"data/masks/\d+\.png: pixel \[\d+,\d+\]: label 2 is not in \[0,2\)", text
    )


def test_images_without_labels_are_predicted(pictures, tmp_path):
    images, masks = pictures
    model = save_model(tmp_path, 3)
    save_folders(tmp_path / "data", images, masks)
    output = tmp_path / "out.npz"
    mpctest.mpc_ok(
        *("run", model, "--data", f"x={tmp_path}/data/images", "-o", output)
    )
    with np.load(output) as arrays:
        assert arrays["y"].shape == (6, 3, SIZE, SIZE)
