"""A model with the metadata that PyTorch's exporter writes.

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
FOLDED = "pkg.onnxscript.optimizer.folded_from"

# Each initializer with what the exporter says of it. val_3 is an offset that it
# made of constants, val_4 a parameter that it reshaped.
INITIALIZERS = {
    "scale": (np.ones(2), {KIND: "PARAMETER"}),
    "temperature": (np.ones(()), {KIND: "PARAMETER"}),
    "frequencies": (np.eye(2), {KIND: "BUFFER"}),
    "w": (np.eye(2), {}),
    "val_3": (np.zeros(2), {FOLDED: "['val_1', 'val_2']"}),
    "val_4": (np.zeros(2), {FOLDED: "['bias', 'val_1']"}),
}

NODES = [
    ("Mul", ["x", "scale"], "scaled"),
    ("Mul", ["scaled", "temperature"], "cooled"),
    ("MatMul", ["cooled", "frequencies"], "waves"),
    ("MatMul", ["waves", "w"], "product"),
    ("Add", ["product", "val_3"], "shifted"),
    ("Add", ["shifted", "val_4"], "y"),
]


def main():
    tensors, infos = [], []
    for name, (value, metadata) in INITIALIZERS.items():
        tensors.append(numpy_helper.from_array(np.float32(value), name))
        info = helper.make_tensor_value_info(
            name, TensorProto.FLOAT, value.shape
        )
        for key, text in metadata.items():
            info.metadata_props.add(key=key, value=text)
        infos.append(info)
    graph = helper.make_graph(
        [helper.make_node(op, ins, [out]) for op, ins, out in NODES],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])],
        tensors,
        value_info=infos,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    onnx.save(model, sys.argv[1])


if __name__ == "__main__":
    main()
