"""Writes a model of families.py as ONNX, ready to be trained.

    export.py FAMILY FILE.onnx [--size SIZE] [--exporter EXPORTER] [--opset N]

Needs torch, torchvision, onnx and onnxscript (requirements.txt).

SPDX-License-Identifier: Apache-2.0
"""

import argparse

import numpy as np
import torch
from families import FAMILIES

EXPORTERS = ("torchscript", "dynamo")


def make_array(array, count, random):
    """Returns `count` samples of an input or of the labels."""
    shape = list(array.shape)
    shape.insert(array.axis, count)
    if array.high is None:
        return random.standard_normal(shape).astype(np.float32)
    return random.randint(0, array.high, shape, np.int64)


def make_labels(family, count, random):
    labels = make_array(family.labels, count, random)
    if family.loss == "bce_with_logits":
        return (labels > 0).astype(np.float32)
    return labels


def make_inputs(family, count, random):
    return {
        name: make_array(array, count, random)
        for name, array in family.inputs.items()
    }


def export(module, inputs, path, exporter, opset):
    """Keeps everything that training needs: BatchNormalization and Dropout
    unchanged, and every parameter under its own name, none folded into
    another."""
    options = {
        "torchscript": {
            "dynamo": False,
            "training": torch.onnx.TrainingMode.TRAINING,
            "do_constant_folding": False,
        },
        "dynamo": {"dynamo": True, "optimize": False, "external_data": False},
    }[exporter]
    torch.onnx.export(
        module.train(),
        tuple(torch.from_numpy(array) for array in inputs.values()),
        path,
        input_names=list(inputs),
        output_names=["scores"],
        opset_version=opset,
        **options,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("file")
    parser.add_argument("--size", default="full")
    parser.add_argument("--exporter", choices=EXPORTERS, default="dynamo")
    parser.add_argument("--opset", type=int, default=18)
    arguments = parser.parse_args()
    sizes = FAMILIES[arguments.family]
    if arguments.size not in sizes:
        parser.error(f"{arguments.family} comes in {', '.join(sizes)}")
    family = sizes[arguments.size]()
    torch.manual_seed(0)
    module = family.make()
    inputs = make_inputs(family, family.batch, np.random.RandomState(0))
    export(module, inputs, arguments.file, arguments.exporter, arguments.opset)


if __name__ == "__main__":
    main()
