"""Weights in Constant nodes behave like initializers: they are trained, written
back and checkpointed, and --weights replaces them.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

RANDOM = np.random.RandomState(0)
WEIGHTS = {
    "layer_0.w_0": RANDOM.randn(4, 3).astype(np.float32),
    "layer_0.b_0": np.zeros(3, np.float32),
    "Constant_7": RANDOM.randn(3, 1).astype(np.float32),
}
DATA = {
    "x": RANDOM.randn(32, 4).astype(np.float32),
    "target": RANDOM.randn(32, 1).astype(np.float32),
}
FLAGS = ("--loss", "mse", "--optimizer", "sgd", "--lr", 0.1, "--batch-size", 8)


def make_constant(tensor, as_list):
    """Returns a node that gives `tensor`. If `as_list`, a tensor of rank 1 uses
    value_floats."""
    value = {"value": tensor}
    if as_list and len(tensor.dims) == 1:
        value = {"value_floats": numpy_helper.to_array(tensor).tolist()}
    return helper.make_node("Constant", [], [tensor.name], **value)


def make(in_nodes, as_list=False):
    tensors = [numpy_helper.from_array(v, name) for name, v in WEIGHTS.items()]
    nodes = [
        helper.make_node("Constant", [], ["Constant_8"], value=numpy_helper.from_array(
            np.float32([0.5]))),
        helper.make_node("MatMul", ["x", "layer_0.w_0"], ["a"]),
        helper.make_node("Add", ["a", "layer_0.b_0"], ["b"]),
        helper.make_node("Mul", ["b", "Constant_8"], ["c"]),
        helper.make_node("Tanh", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "Constant_7"], ["y"]),
    ]
    if in_nodes:
        nodes = [make_constant(tensor, as_list) for tensor in tensors] + nodes
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])],
        [] if in_nodes else tensors,
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def constants(path):
    return {
        node.output[0]: numpy_helper.to_array(node.attribute[0].t)
        for node in onnx.load(path).graph.node
        if node.op_type == "Constant"
    }


@pytest.mark.parametrize("as_list", [False, True])
def test_weights_of_nodes_train_as_initializers_do(as_list, tmp_path):
    steps = ("--max-steps", 4)
    metrics, expected = mpctest.train(make(False), DATA, tmp_path / "a", *FLAGS, *steps)
    folder = tmp_path / "b"
    found, _ = mpctest.train(
        *(make(True, as_list), DATA, folder, *FLAGS, *steps),
        *("--checkpoint-dir", folder / "saved"),
    )
    assert mpctest.losses(found) == mpctest.losses(metrics)
    written = constants(folder / "trained.onnx")
    assert written.pop("Constant_8") == 0.5
    for name, value in expected.items():
        np.testing.assert_array_equal(written[name], value)
        assert (value != WEIGHTS[name]).any()
    (state,) = folder.glob("saved/**/state.safetensors")
    assert all(name.encode() in state.read_bytes() for name in WEIGHTS)


def test_weights_of_nodes_are_replaced(tmp_path):
    np.savez(tmp_path / "w.npz", Constant_7=np.zeros((3, 1), np.float32))
    metrics, _ = mpctest.train(
        make(True), DATA, tmp_path, *FLAGS,
        *("--max-steps", 1, "--weights", tmp_path / "w.npz"),
    )  # fmt: skip
    expected = np.square(DATA["target"][:8]).mean()
    np.testing.assert_allclose(mpctest.losses(metrics), [expected], rtol=1e-6)
