"""Writes models with duplicate initializers into a folder.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)


def typed(values, name):
    """Returns the same values, stored as numbers instead of bytes."""
    return helper.make_tensor(
        name, TensorProto.FLOAT, values.shape, values.flatten().tolist()
    )


def model(*tensors):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        tensors,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def main():
    folder = pathlib.Path(sys.argv[1])
    weight = numpy_helper.from_array(WEIGHT, "w")
    other = WEIGHT.copy()
    other[1, 0] = 0.5
    unused = numpy_helper.from_array(WEIGHT, "unused")
    onnx.save(model(weight, unused, typed(WEIGHT, "w")), folder / "equal.onnx")
    onnx.save(
        model(weight, unused, numpy_helper.from_array(other, "w")),
        folder / "values.onnx",
    )
    onnx.save(
        model(weight, weight, numpy_helper.from_array(WEIGHT.T.copy(), "w")),
        folder / "shapes.onnx",
    )
    # A type that mpc does not read, and a tensor of many values.
    text = helper.make_tensor("text", TensorProto.STRING, [1], [b"a"])
    onnx.save(model(weight, text, text), folder / "text.onnx")
    many = [numpy_helper.from_array(WEIGHT + i, "w") for i in range(100)]
    onnx.save(model(*many), folder / "many.onnx")


main()
