"""Writes optimizer graphs over sequences of tensors.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

from onnx import TensorProto, helper


def save(path, nodes):
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    sequence = helper.make_sequence_type_proto(tensor)
    graph = helper.make_graph(
        nodes,
        "optimizer",
        [
            helper.make_tensor_value_info(
                "learning_rate", TensorProto.FLOAT, [1]
            ),
            helper.make_value_info("params", sequence),
            helper.make_value_info("gradients", sequence),
        ],
        [helper.make_tensor_value_info("flag", TensorProto.BOOL, [1])],
    )
    model = helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[
            helper.make_opsetid("", 15),
            helper.make_opsetid("com.microsoft", 1),
        ],
    )
    path.write_bytes(model.SerializeToString())


def main():
    folder = pathlib.Path(sys.argv[1])
    clip = helper.make_node(
        "InplaceClipGradNorm",
        ["gradients"],
        ["clipped"],
        "clip",
        domain="com.microsoft",
        max_norm=0.5,
    )
    sgd = helper.make_node(
        "SGDOptimizerV2",
        ["learning_rate", "params", "clipped"],
        ["flag"],
        "sgd",
        domain="com.microsoft",
    )
    save(folder / "clip_sgd.onnx", [clip, sgd])
    lamb = helper.make_node(
        "LambOptimizer",
        ["learning_rate", "params", "gradients"],
        ["flag"],
        "lamb",
        domain="com.microsoft",
    )
    save(folder / "lamb.onnx", [lamb])


if __name__ == "__main__":
    main()
