"""Writes the tiny models of all families with both exporters of PyTorch, and
the losses of PyTorch's own training.

    make_families.py    (needs tools/models/requirements.txt)

SGD trains each model on five batches. data.npz has the samples of each family.
losses.json has the loss of each step before its update, in float32 and in
float64.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import json
import pathlib
import sys

import numpy as np
import onnx
import torch

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parents[2] / "tools" / "models"))
from export import export, make_inputs, make_labels  # noqa: E402
from families import FAMILIES  # noqa: E402

STEPS, RATE = 5, 0.05
EXPORTS = (
    ("torchscript", 14),
    ("torchscript", 17),
    ("dynamo", 18),
    ("dynamo", 23),
)
# Says if an initializer is a parameter. Other metadata tells the source lines
# of nodes.
KEPT_METADATA = "pkg.torch.export.graph_signature.InputSpec.kind"


def strip(path):
    """Removes metadata that training does not need."""
    model = onnx.load(path)
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        for node in graph.node:
            graphs += [a.g for a in node.attribute if a.HasField("g")]
        for thing in (model, graph, *graph.node, *graph.value_info):
            thing.doc_string = ""
            kept = [p for p in thing.metadata_props if p.key == KEPT_METADATA]
            del thing.metadata_props[:]
            thing.metadata_props.extend(kept)
    onnx.save(model, path)


def take(family, inputs):
    """Returns the first batch."""
    return {
        key: array.take(range(family.batch), kind.axis)
        for (key, array), kind in zip(inputs.items(), family.inputs.values())
    }


def train(family, module, inputs, labels):
    """Returns the losses of all steps, in the type of the module."""
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    dtype = next(module.parameters()).dtype
    losses = []
    for step in range(STEPS):
        batch = []
        for array, kind in zip(inputs.values(), family.inputs.values()):
            first = step * family.batch
            tensor = torch.from_numpy(array)
            tensor = tensor.narrow(kind.axis, first, family.batch)
            batch.append(tensor.to(dtype) if kind.high is None else tensor)
        target = None
        if labels is not None:
            first = step * family.batch
            target = torch.from_numpy(labels)[first : first + family.batch]
        loss = family.compute_loss(module(*batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    results = {}
    for name, sizes in FAMILIES.items():
        if "tiny" not in sizes:
            continue
        family = sizes["tiny"]()
        torch.manual_seed(0)
        module = family.make().train()
        random = np.random.RandomState(1)
        count = STEPS * family.batch
        inputs = make_inputs(family, count, random)
        labels = make_labels(family, count, random)
        if "mask" in inputs:
            inputs["mask"][:, 0] = 1  # a token that every query sees
        np.savez_compressed(HERE / f"{name}.npz", **inputs, target=labels)
        first = take(family, inputs)
        for exporter, opset in EXPORTS:
            path = HERE / f"{name}-{exporter}-{opset}.onnx"
            export(copy.deepcopy(module), first, path, exporter, opset)
            strip(path)
        results[name] = {
            "loss": family.loss,
            "batch_size": family.batch,
            "lr": RATE,
            "batch_axes": {
                key: kind.axis
                for key, kind in family.inputs.items()
                if kind.axis != 0
            },
            "float32": train(family, copy.deepcopy(module), inputs, labels),
            "float64": train(family, copy.deepcopy(module).double(), inputs, labels),
        }
    text = json.dumps(results, indent=1)
    (HERE / "losses.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
