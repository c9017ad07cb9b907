"""Helpers that the Python suites share: calling mpc, and small ONNX models.

MPC_BUILD_DIR names the build to test (default: build/ of this tree),
MPC_TEST_TARGET the --target to compile for (default: this machine), and
MPC_TEST_DEVICE the --device to run models on (default: the CPU), such as cuda.

SPDX-License-Identifier: Apache-2.0
"""

import atexit
import json
import os
import pathlib
import struct
import subprocess
import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

import forkserver

ROOT = pathlib.Path(__file__).parent.parent
DATA = ROOT / "test" / "data"
DIGITS = DATA / "digits"
MODELS = DATA / "models"
BUILD = pathlib.Path(os.environ.get("MPC_BUILD_DIR", ROOT / "build"))
MPC = BUILD / "bin" / "mpc"

# Keep all caches inside the tree.
os.environ.setdefault("MPC_KERNEL_CACHE", str(BUILD / "kernel-cache"))

TARGET = []
if "MPC_TEST_TARGET" in os.environ:
    TARGET += ["--target", os.environ["MPC_TEST_TARGET"]]
if "MPC_TEST_DEVICE" in os.environ:
    TARGET += ["--device", os.environ["MPC_TEST_DEVICE"]]

# Seconds after which a command counts as hanging.
TIMEOUT = 300


# The fork server if this process has started one, and a flag that sends calls
# there.
server = None
forks = False


def use_fork_server(item):
    """Forks mpc from a loaded server, if one is built, instead of loading it
    for each call. A suite's conftest.py calls this before each test. A test
    marked starts_mpc starts mpc anew."""
    global server, forks
    library = BUILD / "test" / "forkserver" / "mpc_fork_server.so"
    if server is None and library.exists():
        server = forkserver.ForkServer(MPC, library)
        atexit.register(server.close)
    forks = server is not None and not item.get_closest_marker("starts_mpc")


def mpc(*arguments, **options):
    """Runs mpc. Returns the finished process with its output as text."""
    if forks and server.fits(options):
        return server.run([*map(str, arguments)], TIMEOUT, **options)
    return subprocess.run(
        [MPC, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        **options,
    )


def mpc_ok(*arguments, **options):
    """Like `mpc`, but fails if mpc does."""
    process = mpc(*arguments, **options)
    command = " ".join(map(str, arguments))
    assert (
        process.returncode == 0
    ), f"mpc {command}: exit code {process.returncode}\n{process.stderr}"
    return process


def run(model, inputs, folder, *flags):
    """Runs `mpc run` on named arrays. Returns the outputs by name."""
    folder = pathlib.Path(folder)
    path = folder / "model.onnx"
    onnx.save(model, path)
    arguments = []
    for i, (name, array) in enumerate(inputs.items()):
        np.save(folder / f"input{i}.npy", np.asarray(array, order="C"))
        arguments += ["--input", f"{name}=@{folder}/input{i}.npy"]
    output = folder / "outputs.npz"
    mpc_ok("run", path, *arguments, "--output", output, *TARGET, *flags)
    with np.load(output) as arrays:
        return dict(arrays)


def train(model, data, folder, *flags, **options):
    """Runs `mpc train` in file order. Returns the events of its metrics and the
    trained weights by name.

    `model` is a path or a ModelProto, `data` a path or named arrays.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model, onnx.ModelProto):
        onnx.save(model, folder / "model.onnx")
        model = folder / "model.onnx"
    if isinstance(data, dict):
        np.savez(folder / "data.npz", **data)
        data = folder / "data.npz"
    metrics, output = folder / "metrics.jsonl", folder / "trained.onnx"
    mpc_ok(
        *("train", model, "--data", data, "--no-shuffle"),
        *("--metrics", metrics, "--output", output, "--overwrite-metrics"),
        *TARGET,
        *flags,
        **options,
    )
    return read_metrics(metrics), read_weights(output)


def read_metrics(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses(metrics):
    """Returns the loss of every optimizer step."""
    return [float(m["loss"]) for m in metrics if m["event"] == "train"]


def read_weights(path):
    return {
        init.name: numpy_helper.to_array(init)
        for init in onnx.load(path).graph.initializer
    }


def drop_record(model):
    """Removes the record of its training from a model."""
    for entry in [p for p in model.metadata_props if p.key.startswith("mpc.")]:
        model.metadata_props.remove(entry)


def save_png(path, pixels, palette=False):
    """Writes a PNG file of u8 [H,W,3], of grey [H,W], or of indices into a
    palette."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = pixels.shape[:2]
    kind = 3 if palette else 2 if pixels.ndim == 3 else 0

    def chunk(name, data):
        check = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + check

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
        + (chunk(b"PLTE", bytes(768)) if palette else b"")
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def make_model(nodes, inputs, outputs, initializers, opset=17):
    """Returns a ModelProto. `inputs` and `outputs` map names to (dtype, shape),
    `initializers` names to arrays."""

    def infos(values):
        return [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
            )
            for name, (dtype, shape) in values.items()
        ]

    graph = helper.make_graph(
        nodes,
        "test",
        infos(inputs),
        infos(outputs),
        [numpy_helper.from_array(v, k) for k, v in initializers.items()],
    )
    imports = {"": opset, **{node.domain: 1 for node in nodes if node.domain}}
    return helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[helper.make_opsetid(*item) for item in imports.items()],
    )
