"""Writes the models of tools/models/kinds.py with both exporters of PyTorch,
and the losses of PyTorch's own training, as make_families.py does for the
families.

    make_kinds.py [NAME...]    (needs tools/models/requirements.txt)

Makes all kinds, or only the named ones.

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
sys.path.append(str(HERE.parent / "families"))
from export import export, make_inputs, make_labels  # noqa: E402
from kinds import KINDS  # noqa: E402
from make_families import KEPT_METADATA, RATE, STEPS, take, train  # noqa: E402

EXPORTS = (("torchscript", 17), ("dynamo", 18))
CALL = "pkg.torch.onnx.fx_node"


def strip(path):
    """Removes all metadata except the marks of parameters and of gradient
    stops."""
    model = onnx.load(path)
    for thing in (model, model.graph, *model.graph.node, *model.graph.value_info):
        thing.doc_string = ""
        kept = [
            each
            for each in thing.metadata_props
            if each.key == KEPT_METADATA
            or (each.key == CALL and "aten.detach." in each.value)
        ]
        del thing.metadata_props[:]
        thing.metadata_props.extend(kept)
    onnx.save(model, path)


def main():
    results = json.loads((HERE / "losses.json").read_text())
    for name in sys.argv[1:] or KINDS:
        kind = KINDS[name]
        torch.manual_seed(0)
        module = kind.make().train()
        random = np.random.RandomState(1)
        count = STEPS * kind.batch
        inputs = make_inputs(kind, count, random)
        labels = make_labels(kind, count, random) if kind.labels else None
        arrays = {} if labels is None else {"target": labels}
        np.savez_compressed(HERE / f"{name}.npz", **inputs, **arrays)
        for exporter, opset in EXPORTS:
            if kind.stops and exporter == "torchscript":
                continue
            path = HERE / f"{name}-{exporter}-{opset}.onnx"
            first = take(kind, inputs)
            export(copy.deepcopy(module), first, path, exporter, opset)
            strip(path)
        results[name] = {
            "loss": "output:scores" if labels is None else kind.loss,
            "batch_size": kind.batch,
            "lr": RATE,
            "batch_axes": {},
            "float32": train(kind, copy.deepcopy(module), inputs, labels),
            "float64": train(kind, copy.deepcopy(module).double(), inputs, labels),
        }
    text = json.dumps(results, indent=1)
    (HERE / "losses.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
