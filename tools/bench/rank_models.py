"""Writes the models that tools/bench/ranks trains, with random weights.

They have the layers and sizes of tools/models, but need no PyTorch.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import typing

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
# ResNet-50's stages: (channels inside a block, number of blocks).
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


class Graph:
    """Collects nodes and weights. Methods return the name of their result."""

    def __init__(self):
        self.nodes, self.weights = [], []
        self.random = np.random.default_rng(0)

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, name, *shape, std):
        array = self.random.standard_normal(shape, np.float32) * np.float32(std)
        return self.weight(name, array)

    def full(self, name, size, value):
        return self.weight(name, np.full(size, value, np.float32))

    def add(self, op, *inputs, **attributes):
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op, inputs, [name], name=name, **attributes)
        )
        return name

    def integers(self, *values):
        name = "shape_" + "_".join(map(str, values)).replace("-", "m")
        if name not in {weight.name for weight in self.weights}:
            self.weight(name, np.array(values, np.int64))
        return name

    def linear(self, name, x, inputs, outputs):
        w = self.normal(f"{name}.weight", inputs, outputs, std=inputs**-0.5)
        product = self.add("MatMul", x, w)
        return self.add("Add", product, self.full(f"{name}.bias", outputs, 0))

    def layer_norm(self, name, x, width):
        scale = self.full(f"{name}.scale", width, 1)
        bias = self.full(f"{name}.bias", width, 0)
        return self.add("LayerNormalization", x, scale, bias, axis=-1)

    def dropout(self, x):
        if "ratio" not in {weight.name for weight in self.weights}:
            self.weight("ratio", np.array(0.1, np.float32))
            self.weight("training", np.array(True))
        return self.add("Dropout", x, "ratio", "training", seed=len(self.nodes))

    def model(self, inputs, scores, classes):
        self.nodes[-1].output[0] = "scores"
        assert self.nodes[-1].name == scores
        graph = helper.make_graph(
            self.nodes,
            "model",
            [helper.make_tensor_value_info(*value) for value in inputs],
            [
                helper.make_tensor_value_info(
                    "scores", TensorProto.FLOAT, ["batch", classes]
                )
            ],
            self.weights,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
        )


def resnet50(size, classes):
    graph = Graph()

    def convolve(name, x, inputs, outputs, kernel, stride=1):
        w = graph.normal(
            f"{name}.weight",
            *(outputs, inputs, kernel, kernel),
            std=(2 / (outputs * kernel * kernel)) ** 0.5,
        )
        pads = [kernel // 2] * 4
        x = graph.add("Conv", x, w, pads=pads, strides=[stride, stride])
        values = {"scale": 1, "bias": 0, "mean": 0, "var": 1}
        return graph.add(
            "BatchNormalization",
            *(x, *(graph.full(f"{name}.{n}", outputs, v) for n, v in values.items())),
        )

    x = graph.add("Relu", convolve("stem", "image", 3, 64, 7, 2))
    x = graph.add(
        "MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]
    )
    inputs = 64
    for stage, (width, blocks) in enumerate(STAGES):
        for block in range(blocks):
            name = f"layer{stage + 1}.{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            y = graph.add("Relu", convolve(f"{name}.1", x, inputs, width, 1))
            y = convolve(f"{name}.2", y, width, width, 3, stride)
            y = convolve(f"{name}.3", graph.add("Relu", y), width, 4 * width, 1)
            if block == 0:
                x = convolve(f"{name}.0", x, inputs, 4 * width, 1, stride)
            x = graph.add("Relu", graph.add("Add", x, y))
            inputs = 4 * width
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x), axis=1)
    scores = graph.linear("classifier", x, inputs, classes)
    image = ("image", TensorProto.FLOAT, ["batch", 3, size, size])
    return graph.model([image], scores, classes)


def bert(tokens, vocabulary, width, heads, layers, classes=2):
    graph = Graph()
    head = width // heads

    def attend(name, x):
        parts = []
        for part, order in (("q", 0), ("k", 1), ("v", 0)):
            y = graph.linear(f"{name}.{part}", x, width, width)
            y = graph.add("Reshape", y, graph.integers(0, tokens, heads, head))
            perm = [0, 2, 3, 1] if order else [0, 2, 1, 3]
            parts.append(graph.add("Transpose", y, perm=perm))
        query, key, value = parts
        scale = graph.weight(f"{name}.scale", np.array(head**-0.5, np.float32))
        scores = graph.add("Mul", graph.add("MatMul", query, key), scale)
        weights = graph.dropout(graph.add("Softmax", scores, axis=-1))
        mixed = graph.add("MatMul", weights, value)
        mixed = graph.add("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = graph.add("Reshape", mixed, graph.integers(0, tokens, width))
        return graph.linear(f"{name}.out", mixed, width, width)

    def gelu(name, x):
        root = graph.weight(f"{name}.root", np.array(2**0.5, np.float32))
        one = graph.weight(f"{name}.one", np.array(1, np.float32))
        half = graph.weight(f"{name}.half", np.array(0.5, np.float32))
        y = graph.add("Add", graph.add("Erf", graph.add("Div", x, root)), one)
        return graph.add("Mul", graph.add("Mul", x, y), half)

    words = graph.normal("words", vocabulary, width, std=0.02)
    places = graph.normal("positions", tokens, width, std=0.02)
    x = graph.add("Add", graph.add("Gather", words, "ids"), places)
    x = graph.dropout(graph.layer_norm("norm", x, width))
    for layer in range(layers):
        name = f"layer{layer}"
        y = graph.dropout(attend(f"{name}.attention", x))
        x = graph.layer_norm(f"{name}.norm1", graph.add("Add", x, y), width)
        y = gelu(f"{name}.gelu", graph.linear(f"{name}.up", x, width, 4 * width))
        y = graph.dropout(graph.linear(f"{name}.down", y, 4 * width, width))
        x = graph.layer_norm(f"{name}.norm2", graph.add("Add", x, y), width)
    first = graph.weight("first", np.array(0, np.int64))
    x = graph.add("Gather", x, first, axis=1)
    x = graph.add("Tanh", graph.linear("pooler", x, width, width))
    scores = graph.linear("classifier", x, width, classes)
    ids = ("ids", TensorProto.INT64, ["batch", tokens])
    return graph.model([ids], scores, classes)


@dataclasses.dataclass
class Model:
    title: str
    batch: int  # of each rank
    make: typing.Callable
    optimizer: tuple
    # Returns an array of `count` samples by the name of the input.
    inputs: typing.Callable
    classes: int

    def write(self, model, data, count, random):
        onnx.save(self.make(), model)
        labels = random.integers(0, self.classes, count)
        np.savez(data, target=labels, **self.inputs(count, random))


def images(size):
    return lambda count, random: {
        "image": random.standard_normal((count, 3, size, size), np.float32)
    }


def sentences(tokens, vocabulary):
    return lambda count, random: {
        "ids": random.integers(0, vocabulary, (count, tokens))
    }


MOMENTUM = ("--optimizer", "momentum", "--lr", "1e-3")
ADAMW = ("--optimizer", "adamw", "--lr", "1e-4")
MODELS = {
    "resnet50": Model(
        "ResNet-50, 224 x 224",
        *(16, lambda: resnet50(224, 1000), MOMENTUM, images(224), 1000),
    ),
    # The size "small" of tools/models.
    "bert": Model(
        "BERT small, 4 layers of 128, 64 tokens",
        *(16, lambda: bert(64, 1000, 128, 4, 4), ADAMW, sentences(64, 1000), 2),
    ),
    # The BERT-Small that Google has published.
    "bert_512": Model(
        "BERT-Small, 4 layers of 512, 128 tokens",
        *(8, lambda: bert(128, 30522, 512, 8, 4), ADAMW),
        *(sentences(128, 30522), 2),
    ),
    # For tests of the benchmark.
    "resnet50_32": Model(
        "ResNet-50, 32 x 32",
        *(4, lambda: resnet50(32, 10), MOMENTUM, images(32), 10),
    ),
    "bert_tiny": Model(
        "BERT, a layer of 16",
        *(4, lambda: bert(8, 29, 16, 2, 1), ADAMW, sentences(8, 29), 2),
    ),
}
