"""A user trains a small U-Net on folders of photos and masks, from the first
look at the model to masks of unmarked photos.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest
from journey import INVALID, USAGE, refused, save

SIZE = 16


def convolution(name, x, y):
    inputs = [x, name + ".weight", name + ".bias"]
    return helper.make_node("Conv", inputs, [y], name, pads=[1] * 4)


def unet(outputs):
    """Returns a network that downsamples, upsamples, and concatenates the
    skipped values."""
    nodes = [
        convolution("down", "photo", "a"),
        helper.make_node("Relu", ["a"], ["fine"]),
        helper.make_node(
            "MaxPool", ["fine"], ["small"], kernel_shape=[2, 2], strides=[2, 2]
        ),
        convolution("middle", "small", "b"),
        helper.make_node("Relu", ["b"], ["coarse"]),
        helper.make_node(
            *("Resize", ["coarse", "", "scales"], ["large"]),
            mode="linear",
            coordinate_transformation_mode="half_pixel",
        ),
        helper.make_node("Concat", ["large", "fine"], ["both"], axis=1),
        convolution("head", "both", "scores"),
    ]
    random = np.random.default_rng(0)
    values = {"scales": np.array([1, 1, 2, 2], np.float32)}
    for name, shape in (("down", (8, 3)), ("middle", (8, 8)), ("head", (outputs, 16))):
        weights = random.normal(0, (2 / (9 * shape[1])) ** 0.5, (*shape, 3, 3))
        values[name + ".weight"] = weights.astype(np.float32)
        values[name + ".bias"] = np.zeros(shape[0], np.float32)
    return mpctest.make_model(
        nodes,
        {"photo": (np.float32, ["batch", 3, SIZE, SIZE])},
        {"scores": (np.float32, ["batch", outputs, SIZE, SIZE])},
        values,
    )


def save_photos(folder, count, seed):
    """Writes dark photos with one bright square each, and black and white
    masks."""
    random = np.random.default_rng(seed)
    masks = []
    for i in range(count):
        mask = np.zeros((SIZE, SIZE), np.uint8)
        y, x = random.integers(0, SIZE - 6, 2)
        mask[y : y + 6, x : x + 6] = 255
        photo = random.integers(0, 90, (SIZE, SIZE, 3)) + mask[:, :, None] // 2
        mpctest.save_png(folder / "images" / f"{i:02}.png", photo.astype(np.uint8))
        mpctest.save_png(folder / "masks" / f"{i:02}.png", mask)
        masks.append(mask > 0)
    return np.stack(masks)


@pytest.mark.parametrize("outputs", [1, 2])
def test_journey(outputs, tmp_path):
    """Covers one score per pixel, and one score per class."""
    loss = ["--loss", "bce_with_logits" if outputs == 1 else "cross_entropy"]
    model = save(unet(outputs), tmp_path / "unet.onnx")
    save_photos(tmp_path / "train", 48, seed=1)
    truth = save_photos(tmp_path / "test", 8, seed=2)
    trained = tmp_path / "trained.onnx"
    process = mpctest.mpc_ok(
        *("train", model, "--data", tmp_path / "train", *loss, "--val-split", 0.2),
        *("--normalize", "0:1", "--optimizer", "adam", "--lr", 0.01, "--epochs", 20),
        *("--batch-size", 8, "-o", trained),
    )
    assert "masks with the class numbers 0, 255, which become 0 and 1" in process.stderr
    test = ["--data", tmp_path / "test", "--normalize", "0:1"]
    process = mpctest.mpc_ok("eval", trained, *test, *loss, "--metric", "f1")
    accuracy = float(process.stdout.split("accuracy ")[1].split("%")[0])
    assert accuracy > 97, process.stdout
    # Photos alone give masks.
    output = tmp_path / "masks.npz"
    photos = ["--data", tmp_path / "test" / "images", "--normalize", "0:1"]
    mpctest.mpc_ok("run", trained, *photos, "-o", output)
    with np.load(output) as arrays:
        scores = arrays["scores"]
    found = scores[:, 0] > 0 if outputs == 1 else scores.argmax(1) == 1
    assert np.mean(found == truth) > 0.97


def test_slips(tmp_path):
    model = save(unet(2), tmp_path / "unet.onnx")
    save_photos(tmp_path / "train", 4, seed=1)
    train = ["train", model, "--loss", "cross_entropy", "--data"]
    # Photos without their masks have no labels.
    said = refused(INVALID, *train, tmp_path / "train" / "images")
    assert "no array is called 'target'" in said
    # Augmentation does not move masks with their photos.
    said = refused(USAGE, *train, tmp_path / "train", "--augment", "flip")
    assert "--augment" in said
    # The model file is not data.
    said = refused(USAGE, *train, model)
    assert "unet.onnx: is a model, not data; the model goes first" in said
    (tmp_path / "train" / "masks" / "02.png").unlink()
    said = refused(INVALID, *train, tmp_path / "train")
    assert "02.png: an image without a mask" in said
