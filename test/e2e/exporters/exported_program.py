"""Writes models as PyTorch's exporter does, with the metadata of a program.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
from onnx import helper

import mpctest

WIDTH, SAMPLES = 4, 32
FLAGS = ("--loss", "mse", "--optimizer", "sgd", "--lr", "0.1", "--batch-size", "8")
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
ORIGINAL = "pkg.torch.onnx.original_node_name"
FOLDED = "pkg.onnxscript.optimizer.folded_from"


def node(call, op, inputs, output, **attributes):
    """Returns a node that comes from a call such as "linear.default(%x, %p_w)"."""
    made = helper.make_node(op, inputs, [output], **attributes)
    target, arguments = call.rstrip(")").split("(", 1)
    text = f"%{output} : [num_users=1] = call_function[target=torch.ops.aten.{target}]"
    text += f"(args = ({arguments}), kwargs = {{}})"
    made.metadata_props.add(key="pkg.torch.onnx.fx_node", value=text)
    return made


def make_model(nodes, weights, parameters=(), folded=None):
    """`parameters` are the program's. `folded` maps a folded value to its
    sources."""
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", WIDTH])},
        {"y": (np.float32, ["N", None])},
        {k: np.asarray(v, np.float32) for k, v in weights.items()},
        18,
    )
    lines = ["", "# inputs"]
    for name in parameters:
        source = "p_" + name.replace(".", "_")
        lines.append(f"{source}: PARAMETER target='{name}'")
        if name in weights:
            info = model.graph.value_info.add(name=name)
            info.metadata_props.add(key=KIND, value="PARAMETER")
            info.metadata_props.add(key=ORIGINAL, value=source)
    for name, sources in (folded or {}).items():
        info = model.graph.value_info.add(name=name)
        info.metadata_props.add(key=FOLDED, value=str(sources))
    model.graph.metadata_props.add(
        key="pkg.torch.export.ExportedProgram.graph_signature",
        value="\n".join([*lines, "x: USER_INPUT", "", "# outputs", "y: USER_OUTPUT"]),
    )
    return model


def train(model, folder, width=1):
    """Returns the losses of the steps, and the written values by name."""
    random = np.random.default_rng(1)
    x = random.normal(0.5, 2, size=(SAMPLES, WIDTH)).astype(np.float32)
    target = np.stack([np.abs(x).sum(1) - i for i in range(width)], 1)
    events, values = mpctest.train(
        model, {"x": x, "target": target}, folder, *FLAGS, "--precision", "64-true"
    )
    onnx.checker.check_model(onnx.load(folder / "trained.onnx"), full_check=True)
    return mpctest.losses(events), values


def assert_trains_alike(tmp_path, optimized, apart, width=1):
    """Compares the training of both models and returns the values of
    `optimized`."""
    losses, values = train(optimized, tmp_path / "optimized", width)
    expected, _ = train(apart, tmp_path / "apart", width)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    return values


def matrix(rows, columns, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(0, 0.5, size=(rows, columns)).astype(np.float32)
