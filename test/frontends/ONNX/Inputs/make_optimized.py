"""Makes a model as the optimizer of PyTorch's exporter leaves it.

The modules argv[2] and argv[3] read one scale. With a fourth argument "kept",
the exporter has optimized nothing. With "repeated", the file describes each
value twice.

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDED = "pkg.onnxscript.optimizer.folded_from"
SCOPES = "pkg.torch.onnx.name_scopes"

# Each initializer with its sources: a transposed weight, and a weight whose
# logarithm the program trains.
INITIALIZERS = {
    "first.scale": (np.ones(2), None),
    "val_1": (np.eye(2) + 1, "['first.weight', 'val_0']"),
    "exp": (np.eye(2) + 2, "['second.log_weight', 'exp_0']"),
}


def main():
    path, first, second = sys.argv[1:4]
    optimized = sys.argv[4:] != ["kept"]
    repeats = 2 if sys.argv[4:] == ["repeated"] else 1
    nodes = [
        ("LayerNormalization", ["x", "first.scale"], "a", first),
        ("MatMul", ["a", "val_1"], "b", first),
        ("LayerNormalization", ["b", "first.scale"], "c", second),
        ("MatMul", ["c", "exp"], "y", second),
    ]
    made = []
    for op, inputs, output, scope in nodes:
        made.append(helper.make_node(op, inputs, [output]))
        made[-1].metadata_props.add(key=SCOPES, value=f"['', '{scope}', '{output}']")
    tensors, infos = [], []
    for name, (value, source) in INITIALIZERS.items():
        tensors.append(numpy_helper.from_array(np.float32(value), name))
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
        if source and optimized:
            info.metadata_props.add(key=FOLDED, value=source)
        infos.append(info)
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])],
        tensors,
        value_info=infos * repeats,
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


if __name__ == "__main__":
    main()
