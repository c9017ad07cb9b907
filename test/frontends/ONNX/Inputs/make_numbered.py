"""Writes a model as PyTorch's older exporter leaves it: linear weights are
transposed in advance and numbered, and nodes have their modules' names.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The program: layers.0 = {attn: {query: Linear, key: Linear without bias}, ff:
# Sequential(Linear without bias)}, mha.in_proj_weight, out = Linear without
# bias, and `kernel`, which belongs to no linear layer.
NODES = [
    ("MatMul", "/layers.0/query/MatMul", ["x", "onnx::MatMul_1"], "q"),
    ("Add", "/layers.0/query/Add", ["layers.0.attn.query.bias", "q"], "qb"),
    ("MatMul", "/layers.0/key/MatMul", ["x", "onnx::MatMul_2"], "k"),
    ("Mul", "/layers.0/Mul", ["qb", "k"], "a"),
    ("MatMul", "/layers.0/ff/ff.0/MatMul", ["a", "onnx::MatMul_3"], "f"),
    ("Relu", "/layers.0/ff/ff.1/Relu", ["f"], "r"),
    ("MatMul", "/mha/MatMul", ["r", "onnx::MatMul_4"], "m"),
    ("Add", "/mha/Add", ["mha.in_proj_bias", "m"], "mb"),
    ("Softmax", "/mha/Softmax", ["mb"], "s"),
    ("MatMul", "/mix/MatMul", ["s", "onnx::MatMul_5"], "c"),
    ("Tanh", "/mix/Tanh", ["c"], "t"),
    ("MatMul", "/out/MatMul", ["t", "onnx::MatMul_6"], "y"),
]
SHAPES = {1: (4, 4), 2: (4, 4), 3: (4, 5), 4: (5, 6), 5: (6, 4), 6: (4, 3)}
BIASES = {"layers.0.attn.query.bias": 4, "mha.in_proj_bias": 6}


def main():
    random = np.random.RandomState(0)
    values = {f"onnx::MatMul_{i}": random.rand(*s) for i, s in SHAPES.items()}
    values |= {name: random.rand(size) for name, size in BIASES.items()}
    # A second argument renames the last layer's module.
    scopes = {"/out/": f"/{sys.argv[2]}/"} if len(sys.argv) > 2 else {}
    nodes = []
    for op, name, inputs, y in NODES:
        for scope, other in scopes.items():
            name = name.replace(scope, other)
        nodes.append(helper.make_node(op, inputs, [y], name))
    graph = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [
            numpy_helper.from_array(value.astype(np.float32), name)
            for name, value in values.items()
        ],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    model.producer_name = "pytorch"
    folder = pathlib.Path(sys.argv[1])
    onnx.save(model, folder / "model.onnx")
    # The same program's values under the file's name, and under the program's.
    last = np.full((4, 3), 2, np.float32)
    last[1] = 3
    np.savez(folder / "file.npz", **{"onnx::MatMul_6": last})
    np.savez(folder / "program.npz", **{"out.weight": last.T})


main()
