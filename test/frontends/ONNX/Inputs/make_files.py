"""Writes broken and unusual model files into a folder.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(tensor):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [tensor],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


def weight():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    return numpy_helper.from_array(values, "w")


def external(**keys):
    tensor = weight()
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in keys.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return model(tensor)


def main():
    folder = pathlib.Path(sys.argv[1])
    good = model(weight())
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "lfs.onnx").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    )
    (folder / "page.onnx").write_text("<!DOCTYPE html><html></html>\n")
    (folder / "truncated.onnx").write_bytes(good[:-30])
    os.mkfifo(folder / "pipe.onnx")
    short = weight()
    short.raw_data = short.raw_data[:20]
    (folder / "short.onnx").write_bytes(model(short))
    broken = weight()
    values = numpy_helper.to_array(broken).copy()
    values[1, 2] = np.nan
    (folder / "nan.onnx").write_bytes(
        model(numpy_helper.from_array(values, "w"))
    )
    # The same bytes also occur in a safetensors file at that position.
    braces = onnx.ModelProto.FromString(good)
    braces.producer_name = "tool{1}"
    (folder / "braces.onnx").write_bytes(braces.SerializeToString())
    named = onnx.ModelProto.FromString(good)
    named.graph.node[0].input[1] = named.graph.initializer[0].name = "weight"
    (folder / "name.onnx").write_bytes(
        named.SerializeToString().replace(b"weight", b"we\xffght")
    )
    infinite = onnx.ModelProto.FromString(good)
    infinite.graph.node[0].op_type = "Gemm"
    infinite.graph.node[0].attribute.append(
        helper.make_attribute("alpha", float("inf"))
    )
    (folder / "infinite.onnx").write_bytes(infinite.SerializeToString())
    half = onnx.ModelProto.FromString(
        model(numpy_helper.from_array(np.ones((2, 3), np.float16), "w"))
    )
    for value in (half.graph.input[0], half.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    (folder / "half.onnx").write_bytes(half.SerializeToString())
    overflow = weight()
    overflow.dims[:] = [1 << 40, 1 << 40]
    (folder / "overflow.onnx").write_bytes(model(overflow))

    data = b"\0" * 8 + weight().raw_data
    beside = folder / "external"
    beside.mkdir()
    (beside / "w.bin").write_bytes(data)
    (folder / "outside.bin").write_bytes(data)
    (beside / "link.bin").symlink_to("../outside.bin")
    for name, keys in {
        "beside": {"location": "w.bin", "offset": "8", "length": "24"},
        "parent": {"location": "../outside.bin"},
        "absolute": {"location": str(folder / "outside.bin")},
        "link": {"location": "link.bin"},
        "end": {"location": "w.bin", "offset": "16"},
        "number": {"location": "w.bin", "offset": "1e1"},
    }.items():
        (beside / f"{name}.onnx").write_bytes(external(**keys))

    snapshot, blobs = folder / "cache" / "snapshot", folder / "cache" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "1").write_bytes(external(location="data", offset="8"))
    (blobs / "2").write_bytes(data)
    (snapshot / "model.onnx").symlink_to("../blobs/1")
    (snapshot / "data").symlink_to("../blobs/2")


if __name__ == "__main__":
    main()
