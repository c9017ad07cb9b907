"""Writes the files that weights.test passes to --weights.

SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import struct
import sys
import zipfile

import numpy as np
import onnx
from onnx import numpy_helper


def write_safetensors(path, arrays):
    """`arrays` maps names to (dtype's name, array of 16-bit patterns)."""
    header, data = {}, b""
    for name, (dtype, bits) in arrays.items():
        header[name] = {
            "dtype": dtype,
            "shape": list(bits.shape),
            "data_offsets": [len(data), len(data) + bits.nbytes],
        }
        data += bits.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    model, folder = onnx.load(sys.argv[1]), pathlib.Path(sys.argv[2])
    weights = {
        t.name: numpy_helper.to_array(t) for t in model.graph.initializer
    }
    first, second = weights["fc1.bias"], weights["fc2.bias"]
    np.savez(
        folder / "two.npz",
        **{"fc1.bias": np.full_like(first, 1.5), "fc2.bias": second},
    )
    half = np.full(first.shape, 2.5, np.float16).view(np.uint16)
    # The upper half of a float32's bits.
    bfloat = np.full(second.shape, -0.125, np.float32).view(np.uint32) >> 16
    write_safetensors(
        folder / "half.safetensors",
        {
            "fc1.bias": ("F16", half),
            "fc2.bias": ("BF16", bfloat.astype(np.uint16)),
            "other": ("F16", half),
        },
    )
    # Like torch.save: a zip archive with a pickle and raw data.
    with zipfile.ZipFile(folder / "saved.pt", "w") as archive:
        archive.writestr("saved/data.pkl", b"\x80\x02}q\x00.")
        archive.writestr("saved/data/0", first.tobytes())
    (folder / "old.pt").write_bytes(b"\x80\x02}q\x00.")
    with zipfile.ZipFile(folder / "empty.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    within = {"module.model.fc1.bias": np.full_like(first, 1.5)}
    within["module.model.fc2.bias"] = second
    np.savez(folder / "within.npz", **within)
    np.savez(
        folder / "names.npz", **{"model.fc1.bias": first, "fc9.bias": first}
    )
    # The same model as a part of another.
    names = [t.name for t in model.graph.initializer if "." in t.name]
    for tensor in model.graph.initializer:
        tensor.name = "net." + tensor.name if tensor.name in names else tensor.name
    for node in model.graph.node:
        node.input[:] = ["net." + i if i in names else i for i in node.input]
    onnx.save(model, folder / "within.onnx")
    np.savez(folder / "shape.npz", **{"fc1.bias": first[:3]})
    np.savez(folder / "type.npz", **{"fc1.bias": first.astype(np.int64)})


if __name__ == "__main__":
    main()
