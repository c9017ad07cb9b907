"""Makes a model with the metadata of PyTorch's exporter.

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
FOLDED = "pkg.onnxscript.optimizer.folded_from"

CALL = "pkg.torch.onnx.fx_node"
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"

# Each initializer with its recorded sources. val_3 is an offset made of
# constants, val_4 a reshaped parameter, and val_5 zeros whose number is another
# value's columns. tmp is a parameter times 1, and tmp_1 times 2. Scalars: val_6
# is made of constants, val_7 is a reshaped parameter, and val_8 to val_11 are
# made of constants for a BatchNormalization of one channel.
INITIALIZERS = {
    "scale": (np.ones(2), {KIND: "PARAMETER"}),
    "temperature": (np.ones(()), {KIND: "PARAMETER"}),
    "frequencies": (np.eye(2), {KIND: "BUFFER"}),
    "w": (np.eye(2), {}),
    "val_3": (np.zeros(2), {FOLDED: "['val_1', 'val_2']"}),
    "val_4": (np.zeros(2), {FOLDED: "['bias', 'val_1']"}),
    "val_5": (np.zeros(2), {FOLDED: "['product', 'val_1']"}),
    "val_6": (np.ones(1) * 4, {FOLDED: "['product', 'val_1']"}),
    "val_7": (np.ones(1) * 5, {FOLDED: "['gate', 'val_1']"}),
    "column": (np.ones((2, 1)), {KIND: "PARAMETER"}),
    **{f"val_{i}": (np.ones(1) * i, {FOLDED: "['val_1']"}) for i in range(8, 12)},
    "offset": (np.ones(1) * 6, {KIND: "BUFFER"}),
    "tmp": (np.ones(2) * 3, {FOLDED: "['alpha', 'value', 'value_cast']"}),
    "tmp_1": (np.ones(2) * 3, {FOLDED: "['alpha', 'value_1', 'value_cast_1']"}),
}

NODES = [
    ("Mul", ["x", "scale"], "scaled"),
    ("Mul", ["scaled", "temperature"], "cooled"),
    ("MatMul", ["cooled", "frequencies"], "waves"),
    ("MatMul", ["waves", "w"], "product"),
    ("Add", ["product", "val_3"], "shifted"),
    ("Add", ["shifted", "val_4"], "biased"),
    ("Add", ["biased", "val_5"], "same"),
    ("Mul", ["tmp", "same"], "tmp_0"),
    ("Mul", ["tmp_1", "tmp_0"], "tmp_2"),
    ("Mul", ["tmp_2", "val_6"], "scaled_6"),
    ("Mul", ["scaled_6", "val_7"], "gated"),
    ("MatMul", ["x", "column"], "one"),
    ("BatchNormalization", ["one", *(f"val_{i}" for i in range(8, 12))], "norm"),
    ("Add", ["gated", "norm"], "both"),
    ("Add", ["both", "offset"], "y"),
]
ADDCMUL = (
    "%addcmul : [num_users=1] = call_function["
    "target=torch.ops.aten.addcmul.default](args = (%b, %p_alpha, %x), kwargs = {"
)
CALLS = {"tmp_0": ADDCMUL + "})", "tmp_2": ADDCMUL + "value: 2})"}


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
    nodes = [helper.make_node(op, ins, [out]) for op, ins, out in NODES]
    for node in nodes:
        if node.output[0] in CALLS:
            node.metadata_props.add(key=CALL, value=CALLS[node.output[0]])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2])],
        tensors,
        value_info=infos,
    )
    signature = (
        "p_alpha: PARAMETER target='alpha'\np_gate: PARAMETER target='gate'\n"
        "x: USER_INPUT"
    )
    graph.metadata_props.add(key=SIGNATURE, value=signature)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    onnx.save(model, sys.argv[1])


if __name__ == "__main__":
    main()
