"""Writes the models for the GPU stages `steps` and `kernels`.

    export_models.py FOLDER [FAMILY:SIZE...]

FOLDER gets FAMILY-SIZE.onnx, whose weights are zeros, since both contenders
draw their own. models.json has the batch, the loss, and the shapes and bounds
of inputs for each model. Needs the packages in tools/models/requirements.txt.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import onnx
import torch

sys.path.append(str(pathlib.Path(__file__).parents[1] / "models"))
import export as exporter  # noqa: E402
from families import FAMILIES  # noqa: E402

# The order of timing: a run that is cut short has the first models.
DEFAULT = [
    *("gpt2:gpu", "resnet50:gpu", "bert:gpu", "vit:gpu", "mlp:gpu"),
    *("gpt2:gpu_long", "resnet50:gpu_256", "resnet50:gpu_1280"),
]


def describe(array, batch):
    """Describes a drawn array: integers are below `high`."""
    shape = list(array.shape)
    shape.insert(array.axis, batch)
    return {"shape": shape, "high": array.high, "axis": array.axis}


def clear_weights(path, names):
    """Sets weights to zero. Constants, such as masks, keep their values."""
    model = onnx.load(path)
    for initializer in model.graph.initializer:
        if initializer.name in names:
            zeros = np.zeros(tuple(initializer.dims), np.float32)
            initializer.CopyFrom(
                onnx.numpy_helper.from_array(zeros, initializer.name)
            )
    onnx.save(model, path)


def write(name, size, folder):
    family = FAMILIES[name][size]()
    torch.manual_seed(0)
    inputs = exporter.make_inputs(family, family.batch, np.random.RandomState(0))
    path = folder / f"{name}-{size}.onnx"
    module = family.make()
    exporter.export(module, inputs, path, "dynamo", 18)
    # A table that two layers share may have either's name.
    parameters = module.named_parameters(remove_duplicate=False)
    clear_weights(path, {name for name, _ in parameters})
    arrays = {**family.inputs, "target": family.labels}
    return {
        "family": name,
        "size": size,
        "batch": family.batch,
        "loss": family.loss,
        "arrays": {k: describe(a, family.batch) for k, a in arrays.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="*", default=DEFAULT)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    models = [
        write(*model.split(":"), arguments.folder) for model in arguments.models
    ]
    text = json.dumps(models, indent=1) + "\n"
    (arguments.folder / "models.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
