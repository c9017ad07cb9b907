"""Makes a model with tensors stored in every form, and new values for them.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save_values(path, **values):
    tensors = [numpy_helper.from_array(v, k) for k, v in values.items()]
    graph = helper.make_graph([], "values", [], [], tensors)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, path)


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "out").mkdir()
    moved = numpy_helper.from_array(np.zeros(4, np.float32), "moved")
    kept = numpy_helper.from_array(np.arange(4, dtype=np.float32), "kept")
    data = b""
    for tensor in (moved, kept):
        raw = tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        keys = {"location": "w.bin", "offset": len(data), "length": len(raw)}
        for key, value in keys.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        data += raw
    (folder / "w.bin").write_bytes(data)
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [2], [1.0, 2.0])
    half = numpy_helper.from_array(np.zeros(2, np.float16), "half")
    constant = helper.make_tensor("c", TensorProto.FLOAT, [2], [5.0, 6.0])
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["constant"], value=constant)],
        "g",
        [],
        [helper.make_tensor_value_info("constant", TensorProto.FLOAT, [2])],
        [moved, kept, typed, half],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10
    )
    # A field that mpc's schema does not know.
    model.graph.metadata_props.add(key="author", value="somebody")
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    save_values(
        folder / "values.onnx",
        moved=np.full(4, 7, np.float32),
        typed=np.float32([3, 4]),
        half=np.float32([1 / 3, 60001]),
        constant=np.float32([8, 9]),
    )
    save_values(folder / "unknown.onnx", nobody=np.zeros(2, np.float32))
    save_values(folder / "shape.onnx", half=np.zeros(3, np.float32))


if __name__ == "__main__":
    main()
