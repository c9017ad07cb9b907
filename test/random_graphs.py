"""Makes small random models. The same seed gives the same model.

SPDX-License-Identifier: Apache-2.0
"""

import random

import numpy as np
from onnx import helper, numpy_helper

import mpctest

BATCH, CLASSES = 8, 5
FEATURES, EXTENT = 16, 6
FUNCTIONS = ["Celu", "Elu", "Erf", "HardSigmoid", "LeakyRelu", "Selu"]
FUNCTIONS += ["Softplus", "Softsign"]


class Graph:
    """Appends nodes. Each method returns the name of its result."""

    def __init__(self, seed):
        self.choices = random.Random(seed)
        self.values = np.random.RandomState(seed)
        self.nodes, self.weights = [], {}

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        array = self.values.randn(*shape) * 0.3
        self.weights[name] = array.astype(np.float32)
        return name

    def add(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op, inputs, [name], name=name, **attributes)
        )
        return name

    def pick(self, weighted):
        """Picks one of the functions by weight, and calls it."""
        functions, weights = zip(*weighted)
        return self.choices.choices(functions, weights)[0]()

    def model(self, shape, scores):
        return mpctest.make_model(
            self.nodes,
            {"x": (np.float32, [BATCH, *shape])},
            {scores: (np.float32, [BATCH, CLASSES])},
            self.weights,
            opset=13,
        )


def dense_model(seed):
    """Makes a model of matrices of one shape: products, elementwise ops,
    reductions of rows and columns, and values with several readers."""
    graph = Graph(seed)
    choices, add, weight = graph.choices, graph.add, graph.weight
    graph.weights["axis"] = np.array([0])
    full, reduced = ["x"], []

    def recent():
        return choices.choice(full[-6:] if choices.random() < 0.7 else full)

    def constant():
        value = np.full((FEATURES, FEATURES), 0.1, np.float32)
        return add("Constant", value=numpy_helper.from_array(value))

    def reduce():
        if choices.random() < 0.5:
            total = add("ReduceMean", recent(), axes=[1], keepdims=1)
        else:
            total = add("Tanh", add("ReduceSum", recent(), "axis", keepdims=1))
        reduced.append(total)
        return add(choices.choice(["Add", "Mul"]), recent(), total)

    def unary():
        ops = ["Relu", "Sigmoid", "Tanh", "Abs", "Neg"]
        return add(choices.choice(ops + FUNCTIONS), recent())

    def binary():
        op = choices.choice(["Add", "Mul", "Sub"])
        return add("Tanh", add(op, recent(), choices.choice(full + reduced)))

    square = (FEATURES, FEATURES)
    for _ in range(choices.randint(4, 30)):
        full.append(
            graph.pick(
                [
                    (unary, 5),
                    (binary, 5),
                    (reduce, 3),
                    (lambda: add("MatMul", recent(), weight(*square)), 2),
                    (
                        lambda: add(
                            "Gemm", recent(), weight(*square), weight(FEATURES)
                        ),
                        1,
                    ),
                    (lambda: add("MatMul", recent(), constant()), 1),
                    (lambda: add("Add", recent(), weight(FEATURES)), 1),
                    (lambda: add("Softmax", recent(), axis=1), 1),
                ]
            )
        )
    # Give earlier values distant readers.
    last = full[-1]
    for other in choices.sample(full, min(3, len(full))):
        last = add("Tanh", add("Add", last, other))
    return graph.model([FEATURES], add("MatMul", last, weight(FEATURES, CLASSES)))


def convolutional_model(seed):
    """Makes a model of images: convolutions, normalisation, pooling, residual
    sums."""
    graph = Graph(seed)
    choices, add, weight = graph.choices, graph.add, graph.weight
    full, channels = ["x"], {"x": 3}

    def conv(image):
        window = choices.choice([1, 3])
        outputs = choices.choice([3, 4, 8])
        inputs = [image, weight(outputs, channels[image], window, window)]
        if choices.random() < 0.5:
            inputs.append(weight(outputs))
        result = add("Conv", *inputs, pads=[window // 2] * 4)
        channels[result] = outputs
        return result

    def binary(image):
        alike = [each for each in full if channels[each] == channels[image]]
        op = choices.choice(["Add", "Mul"])
        return add("Tanh", add(op, image, choices.choice(alike)))

    def norm(image):
        count = channels[image]
        scale, bias, mean, variance = (weight(count) for _ in range(4))
        graph.weights[mean] = np.zeros(count, np.float32)
        graph.weights[variance] = np.ones(count, np.float32)
        return add("BatchNormalization", image, scale, bias, mean, variance)

    def pool(image):
        op = choices.choice(["MaxPool", "AveragePool"])
        return add(op, image, kernel_shape=[3, 3], pads=[1] * 4)

    def unary(image):
        return add(choices.choice(["Relu", "Sigmoid", "Tanh", *FUNCTIONS]), image)

    for _ in range(choices.randint(2, 12)):
        image = choices.choice(full[-3:])
        result = graph.pick(
            [
                (lambda: conv(image), 4),
                (lambda: unary(image), 2),
                (lambda: binary(image), 2),
                (lambda: norm(image), 1),
                (lambda: pool(image), 1),
            ]
        )
        channels.setdefault(result, channels[image])
        full.append(result)
    pooled = add("GlobalAveragePool", add("Tanh", full[-1]))
    inputs = [weight(channels[full[-1]], CLASSES), weight(CLASSES)]
    scores = add("Gemm", add("Flatten", pooled), *inputs)
    return graph.model([3, EXTENT, EXTENT], scores)


def data_for(model, steps):
    """Returns arrays for `steps` steps of one batch each."""
    values = np.random.RandomState(0)
    dims = model.graph.input[0].type.tensor_type.shape.dim[1:]
    shape = [dim.dim_value for dim in dims]
    count = BATCH * steps
    return {
        "x": values.randn(count, *shape).astype(np.float32),
        "target": values.randint(0, CLASSES, count),
    }
