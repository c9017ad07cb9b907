"""A user trains a Keras classifier from tf2onnx: channels last, a final
softmax, one-hot labels, and Keras's names for flags.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import journey
import mpctest
from journey import INVALID, USAGE, accuracy, refused, save

LAYER = "sequential/dense/"
SCORES = LAYER + "BiasAdd"


def network():
    """Returns Conv2D, MaxPooling2D, Flatten and Dense(10, "softmax") as tf2onnx
    writes them."""
    p = "sequential/"
    nodes = [
        helper.make_node("Transpose", ["image"], ["t"], p + "t", perm=[0, 3, 1, 2]),
        helper.make_node(
            *("Conv", ["t", p + "conv2d/kernel", p + "conv2d/bias"], ["c"]),
            name=p + "conv2d/BiasAdd",
            auto_pad="SAME_UPPER",
            kernel_shape=[3, 3],
        ),
        helper.make_node("Relu", ["c"], ["r"], p + "conv2d/Relu"),
        helper.make_node(
            *("MaxPool", ["r"], ["m"], p + "max_pooling2d/MaxPool"),
            kernel_shape=[2, 2],
            strides=[2, 2],
        ),
        helper.make_node("Transpose", ["m"], ["u"], p + "u", perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["u", "shape"], ["f"], p + "flatten/Reshape"),
        helper.make_node("MatMul", ["f", LAYER + "kernel"], ["d"], LAYER + "MatMul"),
        helper.make_node("Add", ["d", LAYER + "bias"], ["s"], SCORES),
        helper.make_node("Softmax", ["s"], ["dense"], LAYER + "Softmax", axis=1),
    ]
    random = np.random.default_rng(0)
    values = {
        p + "conv2d/kernel": random.normal(0, 0.3, (16, 1, 3, 3)),
        p + "conv2d/bias": np.zeros(16),
        LAYER + "kernel": random.normal(0, 0.06, (256, 10)),
        LAYER + "bias": np.zeros(10),
    }
    values = {name: value.astype(np.float32) for name, value in values.items()}
    model = mpctest.make_model(
        nodes,
        {"image": (np.float32, ["unk__20", 8, 8, 1])},
        {"dense": (np.float32, ["unk__21", 10])},
        values | {"shape": np.array([-1, 256])},
    )
    model.producer_name = "tf2onnx"
    return model


@pytest.fixture
def folder(tmp_path):
    save(network(), tmp_path / "keras.onnx")
    for name, file in (("train", journey.TRAIN), ("test", journey.TEST)):
        with np.load(file) as data:
            images, labels = data["image"], data["target"]
        images = images.transpose(0, 2, 3, 1).astype(np.float32) / 16
        np.save(tmp_path / f"x_{name}.npy", images)
        np.save(tmp_path / f"y_{name}.npy", np.eye(10, dtype=np.float32)[labels])
        np.save(tmp_path / f"classes_{name}.npy", labels[:, None])
    return tmp_path


def arrays(folder, name, labels="y"):
    files = {"image": f"x_{name}", "target": f"{labels}_{name}"}
    return [f"--data={key}={folder}/{file}.npy" for key, file in files.items()]


def test_journey(folder):
    model, trained = folder / "keras.onnx", folder / "trained.onnx"
    # mpc answers Keras's words with its own.
    for typed, answer in (
        (["fit", model], "did you mean train?"),
        (["evaluate", model], "did you mean eval?"),
        (["predict", model], "did you mean run?"),
    ):
        assert answer in refused(USAGE, *typed)
    data = arrays(folder, "train")
    for name in ("categorical_crossentropy", "sparse_categorical_crossentropy"):
        said = refused(USAGE, "train", model, *data, "--loss", name)
        assert "did you mean cross_entropy?" in said
    # mpc's cross entropy would apply the softmax a second time.
    said = refused(INVALID, "train", model, *data, "--loss", "cross_entropy")
    assert f"here @{SCORES}" in said
    said = refused(
        *(INVALID, "train", model, *arrays(folder, "train", "classes")),
        *("--loss", "nll"),
    )
    assert f"train on the scores before it: --loss cross_entropy@{SCORES}" in said
    loss = ["--loss", f"cross_entropy@{SCORES}"]
    process = mpctest.mpc_ok(
        *("train", model, *data, *loss, "--optimizer", "adam", "--lr", 0.01),
        *("--epochs", 5, "--val-split", 0.2, "-o", trained),
    )
    # One-hot labels have an accuracy, as in Keras. Integer labels give the same
    # one.
    assert "accuracy 9" in process.stdout
    said = [
        mpctest.mpc_ok("eval", trained, *arrays(folder, "test", labels), *loss).stdout
        for labels in ("y", "classes")
    ]
    assert said[0] == said[1] and "accuracy 9" in said[0]
    # The trained model is a Keras model: images in, probabilities out.
    output = folder / "predictions.npy"
    mpctest.mpc_ok("run", trained, *arrays(folder, "test")[:1], "-o", output)
    probabilities = np.load(output)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    classes = np.load(folder / "classes_test.npy")[:, 0]
    assert f"accuracy {100 * accuracy(probabilities, classes):.2f}%" in said[0]
    assert onnx.load(trained).graph.output[0].name == "dense"
