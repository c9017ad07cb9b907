"""Makes a model whose head is tied to its embedding, as PyTorch's exporter
writes it: the one tensor has the head's name.

With "ones" the two only start equal. With "shared" the program shares them too,
and the file lacks calls. With "elsewhere" the head's module looks up the rows.

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CALL = "pkg.torch.onnx.fx_node"
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
SCOPES = "pkg.torch.onnx.name_scopes"
CALLS = {
    "rows": "embedding.default](args = (%p_embed_weight, %ids)",
    "y": "linear.default](args = (%embedding, %p_head_weight)",
}


def share(node, module):
    """Makes both nodes use the program's shared parameter."""
    (call,) = (entry for entry in node.metadata_props if entry.key == CALL)
    call.value = call.value.replace("p_embed_weight", "p_head_weight")
    call.value = call.value.replace("%embedding", "%lost")
    node.metadata_props.add(key=SCOPES, value=f"['', '{module}', 'embedding']")


def main():
    kind = sys.argv[2] if sys.argv[2:] else ""
    values = np.ones((5, 3)) if kind == "ones" else np.eye(5, 3) + 1
    nodes = [
        helper.make_node("Gather", ["head.weight", "ids"], ["rows"]),
        helper.make_node("Transpose", ["head.weight"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["rows", "turned"], ["y"]),
    ]
    for node in nodes:
        if call := CALLS.get(node.output[0]):
            text = f"%{node.output[0]} = call_function[target=torch.ops.aten.{call}"
            node.metadata_props.add(key=CALL, value=text + ", kwargs = {})")
    if kind in ("shared", "elsewhere"):
        share(nodes[0], "embed" if kind == "shared" else "head")
        share(nodes[2], "head")
    weight = helper.make_tensor_value_info("head.weight", TensorProto.FLOAT, [5, 3])
    weight.metadata_props.add(key=KIND, value="PARAMETER")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5])],
        [numpy_helper.from_array(np.float32(values), "head.weight")],
        value_info=[weight],
    )
    graph.metadata_props.add(
        key=SIGNATURE,
        value="p_embed_weight: PARAMETER target='embed.weight'\n"
        "p_head_weight: PARAMETER target='head.weight'\nids: USER_INPUT",
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=10), sys.argv[1]
    )


if __name__ == "__main__":
    main()
