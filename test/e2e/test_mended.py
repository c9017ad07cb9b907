"""What is put right when a file is read is right in the file that is written: ONNX's
checker and ONNX Runtime take it.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

RANDOM = np.random.RandomState(0)
DATA = {
    "x": RANDOM.randn(4, 1, 3, 3, 3).astype(np.float32),
    "target": RANDOM.randn(4, 2).astype(np.float32),
}


def finish(nodes, values, opsets=(("", 12),), outputs=1):
    floats = {name: np.float32(value) for name, value in values.items()}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 3, 3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])] * outputs,
        [numpy_helper.from_array(value, name) for name, value in floats.items()],
    )
    imports = [helper.make_opsetid(*opset) for opset in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=7)


def conv(bias=(), **attributes):
    return [
        helper.make_node("Conv", ["x", "w", *bias], ["h"]),
        helper.make_node("ReduceMean", ["h"], ["y"], keepdims=0, **attributes),
    ]


def with_integer():
    nodes = conv(axes=[2, 3, 4])
    nodes[0].attribute.append(helper.make_attribute("strides", [2, 2, 2]))
    nodes += [
        helper.make_node("Unsqueeze", ["y"], ["z"], axes=0),
        helper.make_node("Squeeze", ["z"], ["u"], axes=0),
    ]
    nodes[1].output[0], nodes[2].input[0], nodes[3].output[0] = "v", "v", "y"
    return nodes


WEIGHT = {"w": RANDOM.randn(2, 1, 2, 2, 2)}
AXES = {"axes": [2, 3, 4]}
MODELS = {
    "zeros": finish(conv(["b"], **AXES), {**WEIGHT, "b": np.zeros((2, 2))}),
    "integer": finish(with_integer(), WEIGHT),
    "opsets": finish(conv(**AXES), WEIGHT, opsets=(("", 11), ("", 12))),
    "outputs": finish(conv(**AXES), WEIGHT, outputs=2),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_mended_is_written(name, tmp_path):
    flags = ("--loss", "mse", "--optimizer", "sgd", "--lr", 0.1, "--batch-size", 4)
    mpctest.train(MODELS[name], DATA, tmp_path, *flags, "--max-steps", 2)
    path = tmp_path / "trained.onnx"
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": DATA["x"]})
    expected = mpctest.run(onnx.load(path), {"x": DATA["x"]}, tmp_path)["y"]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    assert is_mended(name, onnx.load(path))
    assert not is_mended(name, MODELS[name])


def is_mended(name, model):
    nodes = model.graph.node
    if name == "zeros":
        return len(nodes[0].input) == 2
    if name == "integer":
        attributes = [a for node in nodes[2:] for a in node.attribute]
        return all(a.type == onnx.AttributeProto.INTS for a in attributes)
    if name == "opsets":
        return [opset.version for opset in model.opset_import] == [12]
    return len(model.graph.output) == 1
