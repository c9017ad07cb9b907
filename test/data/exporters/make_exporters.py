"""Runs the snippets of docs/exporting.md to make files of other exporters. Also
makes files of PyTorch's exporters with default settings, which lose data that
training needs.

    pip install torch onnxscript && python make_exporters.py pytorch
    pip install tensorflow-cpu tf2onnx && python make_exporters.py keras
    pip install scikit-learn skl2onnx && python make_exporters.py scikit-learn

The metadata of keras.onnx and sklearn.onnx has the digest of their snippet.

SPDX-License-Identifier: Apache-2.0
"""

import hashlib
import os
import pathlib
import re
import sys
import tempfile

import onnx

HERE = pathlib.Path(__file__).parent
DOCUMENT = HERE.parents[2] / "docs" / "exporting.md"


def read_section(title):
    """Returns the snippets of a section of the document; without a title, those
    before all sections."""
    sections = re.split(r"^## (.*)\n", DOCUMENT.read_text(), flags=re.M)
    found = dict(zip(["", *sections[1::2]], sections[0::2]))
    return re.findall(r"```python\n(.*?)```", found[title], re.S)


def digest(title):
    return hashlib.sha256("".join(read_section(title)).encode()).hexdigest()


def save(model, name, **metadata):
    # Traces contain the folders of the person who made the file.
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if "stack_trace" not in p.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, HERE / name)


def make_by_snippets(title, name):
    here, names = os.getcwd(), {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for snippet in read_section(title):
            exec(compile(snippet, str(DOCUMENT), "exec"), names)
        os.chdir(here)
        save(onnx.load(f"{folder}/{name}"), name, snippet=digest(title))


def make_pytorch():
    import torch

    names = {"torch": torch}
    exec(read_section("")[0], names)
    model, image = names["model"], (names["image"],)
    kinds = {
        "folded": (model.train, {"dynamo": True}),
        "folded-eval": (model.eval, {"dynamo": True}),
        "kept-eval": (model.eval, {"dynamo": True, "optimize": False}),
        "older-eval": (model.eval, {"dynamo": False, "opset_version": 17}),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (mode, options) in kinds.items():
            mode()
            torch.onnx.export(model, image, f"{folder}/{name}.onnx", **options)
            save(onnx.load(f"{folder}/{name}.onnx"), f"{name}.onnx")
        make_smoothed(f"{folder}/smoothed.onnx")


def make_smoothed(path):
    """Makes a model with its loss, whose label smoothing the exporter drops."""
    import torch

    class Smoothed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)
            self.loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

        def forward(self, x, target):
            return self.loss(self.linear(x), target)

    inputs = (torch.randn(8, 4), torch.randint(0, 3, (8,)))
    torch.onnx.export(Smoothed(), inputs, path, dynamo=True, optimize=False)
    save(onnx.load(path), "smoothed.onnx")


def make_keras_folded():
    """Returns a model with BatchNormalization, which tf2onnx folds."""
    import keras
    import tensorflow
    import tf2onnx

    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.Conv2D(2, 3),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(3, bias_initializer="random_normal"),
        ]
    )
    model, _ = tf2onnx.convert.from_function(
        tensorflow.function(lambda image: network(image, training=False)),
        input_signature=[tensorflow.TensorSpec((None, 8, 8, 1), name="image")],
        opset=17,
    )
    save(model, "keras-folded.onnx")


def main():
    kind = sys.argv[1]
    if kind == "pytorch":
        make_pytorch()
    elif kind == "keras":
        make_by_snippets("Keras", "keras.onnx")
        make_keras_folded()
    elif kind == "scikit-learn":
        make_by_snippets("scikit-learn", "sklearn.onnx")


if __name__ == "__main__":
    main()
