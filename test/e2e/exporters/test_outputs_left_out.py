"""Outputs that mpc cannot compute and no loss reads are left out of training,
and stay in the trained file.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import mpctest

UNSUPPORTED = 4
CLASSES = np.array([3, 5, 9], np.int64)


def make_classifier(zips):
    """Returns a perceptron as skl2onnx exports it: behind the scores, a softmax,
    and operators that look up labels. If `zips`, probabilities are a map for
    each sample."""
    random = np.random.RandomState(0)
    nodes = [
        helper.make_node("MatMul", ["X", "w1"], ["h1"], "MatMul"),
        helper.make_node("Add", ["h1", "b1"], ["a1"], "Add"),
        helper.make_node("Relu", ["a1"], ["r"], "Relu"),
        helper.make_node("MatMul", ["r", "w2"], ["h2"], "MatMul1"),
        helper.make_node("Add", ["h2", "b2"], ["scores"], "Add1"),
        helper.make_node("Softmax", ["scores"], ["probability"], "Softmax"),
        helper.make_node("ArgMax", ["probability"], ["best"], "ArgMax", axis=1),
        helper.make_node(
            *("ArrayFeatureExtractor", ["classes", "best"], ["found"], "Extract"),
            domain="ai.onnx.ml",
        ),
        helper.make_node("Reshape", ["found", "row"], ["label"], "Reshape"),
        helper.make_node(
            *("ZipMap", ["probability"], ["probabilities"], "ZipMap"),
            domain="ai.onnx.ml",
            classlabels_int64s=CLASSES,
        ),
    ]
    weights = {
        "w1": random.randn(4, 8).astype("f") / 2,
        "b1": np.zeros((1, 8), "f"),
        "w2": random.randn(8, 3).astype("f") / 2,
        "b2": np.zeros((1, 3), "f"),
        "classes": CLASSES,
        "row": np.array([-1]),
    }
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    number_map = helper.make_map_type_proto(TensorProto.INT64, number)
    ends = helper.make_sequence_type_proto(number_map)
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, ["N"]),
        helper.make_value_info("probabilities", ends)
        if zips
        else helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["N", 3]),
    ]
    graph = helper.make_graph(
        nodes[: 10 if zips else 9],
        "classifier",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 4])],
        outputs,
        [onnx.numpy_helper.from_array(v, name) for name, v in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.fixture
def data(tmp_path):
    random = np.random.RandomState(1)
    x = random.randn(256, 4).astype("f")
    target = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0)
    np.savez(tmp_path / "data.npz", X=x, target=target)
    return x, target


def train(folder, loss, zips):
    onnx.save(make_classifier(zips), folder / "model.onnx")
    return mpctest.mpc(
        *("train", folder / "model.onnx", "--data", folder / "data.npz"),
        *("--loss", loss, "--epochs", 20, "--lr", 0.05, "--optimizer", "adam"),
        *("--output", folder / "trained.onnx", *mpctest.TARGET),
    )


@pytest.mark.parametrize("zips", [False, True])
def test_labels_behind_the_loss_are_left_out(data, tmp_path, zips):
    x, target = data
    process = train(tmp_path, "cross_entropy@Add1", zips)
    assert process.returncode == 0, process.stderr
    names = "outputs 'label', 'probabilities' are" if zips else "output 'label' is"
    assert f": {names} left out, as no loss needs" in process.stderr
    assert "ai.onnx.ml.ArrayFeatureExtractor x1 (node 'Extract')" in process.stderr
    # The trained file computes the labels, with the trained weights.
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    labels = session.run(["label"], {"X": x})[0]
    assert np.mean(labels == CLASSES[target]) > 0.9
    assert [output.name for output in session.get_outputs()] == [
        "label",
        "probabilities" if zips else "probability",
    ]


def test_a_loss_that_reads_such_an_output_is_refused(data, tmp_path):
    process = train(tmp_path, "mse@label", zips=False)
    assert process.returncode == UNSUPPORTED
    assert "ops not supported: ai.onnx.ml.ArrayFeatureExtractor" in process.stderr


def test_evaluations_leave_the_output_out_too(data, tmp_path):
    onnx.save(make_classifier(zips=False), tmp_path / "model.onnx")
    process = mpctest.mpc_ok(
        *("eval", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *("--loss", "cross_entropy@Add1", *mpctest.TARGET),
    )
    assert "accuracy" in process.stdout
