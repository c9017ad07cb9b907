"""Makes training graphs like those of a compiler for microcontrollers: ONNX
Runtime's training artifacts, edited for hardware without its operators.

One graph holds the forward pass, loss, backward pass and accumulation, and its
parameters are inputs. A second graph has an SGD node for each parameter.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
BUFFER = "_grad.accumulation.buffer"
RATE = 0.125
EPSILON = 1e-5


# --- Graphs ------------------------------------------------------------------


class Network:
    """Adds the nodes of layers, each with the operands that its gradient needs."""

    def __init__(self, seed, **inputs):
        self.random = np.random.RandomState(seed)
        self.nodes, self.backward, self.steps = [], [], []
        self.inputs = inputs
        self.parameters, self.frozen, self.constants = {}, {}, {}
        self.gradients = {}
        self.shapes = dict(inputs)
        self.count = 0

    def parameter(self, name, *shape, near=0.0, trained=True, spread=None):
        spread = spread or 1 / math.sqrt(max(1, int(np.prod(shape[1:]))))
        drawn = near + spread * self.random.standard_normal(shape)
        values = drawn.astype(np.float32)
        (self.parameters if trained else self.frozen)[name] = values
        return name

    def constant(self, values):
        name = f"shape_{len(self.constants)}"
        self.constants[name] = np.array(values, np.int64)
        return name

    def node(self, op, inputs, outputs=1, domain="", back=False, **attributes):
        """Returns the name of the only output, or the names of several."""
        self.count += 1
        label = f"node_{self.count}_{op}" + ("_backward" if back else "")
        if isinstance(outputs, int):
            names = [f"{label}_{i}" for i in range(outputs)]
        else:
            names = outputs
        made = helper.make_node(
            op, inputs, names, label, domain=domain, **attributes
        )
        (self.backward if back else self.nodes).append(made)
        return names[0] if len(names) == 1 else names

    def back(self, op, inputs, outputs=1, domain="", **attributes):
        return self.node(op, inputs, outputs, domain, back=True, **attributes)

    def microsoft(self, op, inputs, outputs=1, **attributes):
        return self.back(op, inputs, outputs, MICROSOFT, **attributes)

    def send(self, value, gradient):
        """Adds `gradient` to the gradients of `value`."""
        if value in self.gradients:
            gradient = self.back("Add", [self.gradients[value], gradient])
        self.gradients[value] = gradient

    def layer(self, output, step):
        """Registers `step`, which propagates the gradient of `output`."""
        self.steps.append((output, step))
        return output

    def is_trained(self, *names):
        return any(name in self.parameters for name in names)

    def finish_backward(self):
        for output, step in reversed(self.steps):
            if output in self.gradients:
                step(self.gradients[output])

    # Layers

    def linear(self, x, name, k, n, trained=True):
        """Adds a linear layer for rows. Weights have PyTorch's layout."""
        w = self.parameter(f"{name}_weight", n, k, trained=trained)
        b = self.parameter(f"{name}_bias", n, spread=0.1, trained=trained)
        y = self.node("Gemm", [x, w, b], transB=1)

        def step(dy):
            if trained:
                self.send(w, self.back("Gemm", [dy, x], transA=1))
                self.send(b, self.back("ReduceSum", [dy], axes=[0], keepdims=0))
            self.send(x, self.back("Gemm", [dy, w], beta=0.0))

        return self.layer(y, step)

    def product(self, x, name, k, n, bias=True, trained=True):
        """Adds a linear layer of [batch, tokens, k]: the edited form of MatMul
        and Add."""
        w = self.parameter(f"{name}_weight", k, n, trained=trained)
        operands = [x, w]
        if bias:
            operands += [
                self.parameter(f"{name}_bias", n, spread=0.1, trained=trained)
            ]
            y = self.node("Gemm", operands)
        else:
            y = self.node("MatMul", operands)

        def step(dy):
            if trained:
                rows = [
                    self.back("Reshape", [value, self.constant([-1, width])])
                    for value, width in ((x, k), (dy, n))
                ]
                self.send(w, self.back("Gemm", rows, transA=1))
                if bias:
                    self.send(
                        operands[2],
                        self.back("ReduceSum", [dy], axes=[0, 1], keepdims=0),
                    )
            self.send(x, self.back("Gemm", [dy, w], transB=1, beta=0.0))

        return self.layer(y, step)

    def matmul(self, a, b, alpha=1.0, transposed=False):
        """Multiplies stacks of matrices. If `transposed`, transposes `b` first. A
        Gemm replaces a FusedMatMul."""
        if transposed or alpha != 1.0:
            y = self.node("Gemm", [a, b], alpha=alpha, transB=int(transposed))
        else:
            y = self.node("MatMul", [a, b])

        def step(dy):
            of = {"alpha": alpha, "beta": 0.0}
            da = self.back("Gemm", [dy, b], transB=int(not transposed), **of)
            pair = [dy, a] if transposed else [a, dy]
            self.send(a, da)
            self.send(b, self.back("Gemm", pair, transA=1, **of))

        return self.layer(y, step)

    def relu(self, x):
        y = self.node("Relu", [x])
        return self.layer(
            y, lambda dy: self.send(x, self.microsoft("ReluGrad", [dy, y]))
        )

    def gelu(self, x):
        y = self.node("Gelu", [x])
        return self.layer(
            y, lambda dy: self.send(x, self.back("GeluGrad", [dy, x]))
        )

    def add(self, a, b):
        y = self.node("Add", [a, b])

        def step(dy):
            self.send(a, dy)
            self.send(b, dy)

        return self.layer(y, step)

    def positions(self, x, *shape):
        """Adds a parameter that all samples share."""
        p = self.parameter("positions", *shape, spread=0.2)
        y = self.node("Add", [x, p])

        def step(dy):
            self.send(x, dy)
            self.send(p, self.back("ReduceSum", [dy], axes=[0], keepdims=1))

        return self.layer(y, step)

    def reshape(self, x, before, after):
        y = self.node("Reshape", [x, self.constant(after)])

        def step(dy):
            self.send(x, self.back("Reshape", [dy, self.constant(before)]))

        return self.layer(y, step)

    def transpose(self, x, perm):
        y = self.node("Transpose", [x], perm=perm)
        inverse = [int(axis) for axis in np.argsort(perm)]
        return self.layer(
            y,
            lambda dy: self.send(x, self.back("Transpose", [dy], perm=inverse)),
        )

    def softmax(self, x):
        y = self.node("Softmax", [x], axis=-1)
        return self.layer(
            y,
            lambda dy: self.send(
                x, self.microsoft("SoftmaxGrad", [dy, y], axis=-1)
            ),
        )

    def norm(self, x, name, width, trained=False):
        scale = self.parameter(
            f"{name}_weight", width, near=1.0, spread=0.1, trained=trained
        )
        bias = self.parameter(
            f"{name}_bias", width, spread=0.1, trained=trained
        )
        operands = [x, scale, bias]
        outputs = self.node(
            "LayerNormalization",
            operands,
            3 if trained else 1,
            axis=-1,
            epsilon=EPSILON,
        )

        def step(dy):
            if not trained:
                dx = self.microsoft(
                    "LayerNormalizationGrad",
                    [dy, *operands],
                    axis=-1,
                    epsilon=EPSILON,
                )
            else:
                dx, dscale, dbias = self.microsoft(
                    "LayerNormalizationGrad",
                    [dy, x, scale, *outputs[1:]],
                    3,
                    axis=-1,
                )
                self.send(scale, dscale)
                self.send(bias, dbias)
            self.send(x, dx)

        return self.layer(outputs[0] if trained else outputs, step)

    def conv(self, x, name, channels, maps, kernel, group=1, stride=1, **of):
        w = self.parameter(
            f"{name}_weight", maps, channels // group, kernel, kernel, **of
        )
        b = self.parameter(f"{name}_bias", maps, spread=0.1, **of)
        pad = kernel // 2 if stride == 1 else 0
        window = {
            "kernel_shape": [kernel] * 2,
            "strides": [stride] * 2,
            "pads": [pad] * 4,
            "dilations": [1, 1],
            "group": group,
        }
        y = self.node("Conv", [x, w, b], **window)

        def step(dy):
            # An input of the graph needs no gradient.
            first = "" if x in self.inputs else f"{y}_dx"
            made = [first, f"{w}_grad", f"{b}_grad"]
            self.microsoft("ConvGrad", [dy, x, w], made, **window)
            self.send(w, made[1])
            self.send(b, made[2])
            if first:
                self.send(x, first)

        return self.layer(y, step)

    def max_pool(self, x):
        window = {"kernel_shape": [2, 2], "strides": [2, 2]}
        y, indices = self.node("MaxPool", [x], 2, **window)
        return self.layer(
            y,
            lambda dy: self.send(
                x, self.back("MaxPoolGrad", [dy, indices], **window)
            ),
        )

    def mean_pool(self, x, kernel):
        y = self.node("GlobalAveragePool", [x])

        def step(dy):
            made = self.back("GlobalAveragePoolGrad", [dy], kernel_shape=kernel)
            self.send(x, made)

        return self.layer(y, step)

    def first_token(self, x, shape):
        index, whole = self.constant(0), self.constant(shape)
        y = self.node("Gather", [x, index], axis=1)
        return self.layer(
            y,
            lambda dy: self.send(
                x, self.microsoft("GatherGrad", [whole, index, dy], axis=1)
            ),
        )

    # Losses

    def cross_entropy(self, scores):
        """Adds a loss whose only output is the log-probabilities, and the
        gradient that reads them."""
        made = self.node(
            "SoftmaxCrossEntropyLoss", [scores, "labels"], reduction="mean"
        )
        self.gradients[scores] = self.microsoft(
            "SoftmaxCrossEntropyLossGrad", [made, "labels"], reduction="mean"
        )

    def square_error(self, prediction):
        self.node("MSELoss", [prediction, "target"], ["loss"])
        self.gradients[prediction] = self.back(
            "MSELossGrad", [prediction, "target"]
        )


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


@dataclasses.dataclass
class Embedded:
    """Holds the files of one training, and its initial values."""

    training: object
    optimizer: object
    forward: object
    parameters: dict
    frozen: dict
    inputs: dict
    gradients: dict
    scores: str


def finish(network, scores, opsets=(17, 17)):
    """Makes the files. The forward model's output is `scores`."""
    network.finish_backward()
    flag = "lazy_reset_grad"
    trained, nodes = network.parameters, [*network.nodes, *network.backward]
    for node in network.backward:
        node.attribute.append(
            helper.make_attribute("description", "[Backward pass]")
        )
    for p in trained:
        nodes.append(
            helper.make_node(
                "InPlaceAccumulatorV2",
                [p + BUFFER, network.gradients[p], flag],
                [p + "_grad.accumulation.out"],
                f"GradientAccumulator_{p}",
                domain=MICROSOFT,
            )
        )
    # The edits turned untrained values into constants and left the originals.
    nodes += [
        helper.make_node(
            "Constant",
            [],
            [name],
            f"Constant_{name}",
            value=numpy_helper.from_array(array),
        )
        for name, array in network.frozen.items()
    ]
    data = [
        value(
            name,
            TensorProto.INT64 if name == "labels" else TensorProto.FLOAT,
            shape,
        )
        for name, shape in network.inputs.items()
    ]
    state = [value(p, TensorProto.FLOAT, a.shape) for p, a in trained.items()]
    buffers = [
        value(p + BUFFER, TensorProto.FLOAT, a.shape)
        for p, a in trained.items()
    ]
    accumulated = [
        value(p + "_grad.accumulation.out", TensorProto.BOOL, [1])
        for p in trained
    ]
    has_loss = any(n.op_type == "MSELoss" for n in nodes)
    losses = [value("loss", TensorProto.FLOAT, [])] if has_loss else []
    constants = [
        numpy_helper.from_array(array, name)
        for name, array in network.constants.items()
    ]
    graph = helper.make_graph(
        nodes,
        "training",
        [*data, *state, *buffers, value(flag, TensorProto.BOOL, [1])],
        [*losses, *accumulated],
        constants,
    )
    imports = [helper.make_opsetid("", version) for version in opsets]
    imports.append(helper.make_opsetid(MICROSOFT, 1))
    training = helper.make_model(graph, ir_version=8, opset_imports=imports)
    weights = [
        numpy_helper.from_array(array, name)
        for name, array in {**trained, **network.frozen}.items()
    ]
    forward = helper.make_graph(
        [n for n in network.nodes if not n.op_type.endswith("Loss")],
        "forward",
        [v for v in data if v.name not in ("labels", "target")],
        [helper.make_empty_tensor_value_info(scores)],
        [*constants, *weights],
    )
    forward.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    updates = helper.make_graph(
        [
            helper.make_node(
                "SGD", [p, p + BUFFER], [p + "_updated"], f"sgd_{p}", lr=RATE
            )
            for p in trained
        ],
        "optimizer",
        [v for pair in zip(state, buffers) for v in pair],
        [
            value(p + "_updated", TensorProto.FLOAT, a.shape)
            for p, a in trained.items()
        ],
    )
    return Embedded(
        training,
        helper.make_model(
            updates, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
        ),
        helper.make_model(forward, ir_version=8, opset_imports=imports),
        dict(trained),
        dict(network.frozen),
        dict(network.inputs),
        {p: network.gradients[p] for p in trained},
        scores,
    )


# --- Families ----------------------------------------------------------------

BATCH, CLASSES = 4, 5


def mlp():
    net = Network(1, x=[BATCH, 12], labels=[BATCH])
    hidden = net.relu(net.linear("x", "fc1", 12, 10))
    scores = net.linear(hidden, "fc2", 10, CLASSES)
    net.cross_entropy(scores)
    return finish(net, scores)


def autoencoder():
    net = Network(2, x=[BATCH, 12], target=[BATCH, 12])
    hidden = net.relu(net.linear("x", "encoder", 12, 6))
    prediction = net.linear(hidden, "decoder", 6, 12)
    net.square_error(prediction)
    return finish(net, prediction)


def resnet():
    net = Network(3, x=[BATCH, 2, 6, 6], labels=[BATCH])
    y = net.relu(net.conv("x", "stem", 2, 4, 3))
    inner = net.conv(net.relu(net.conv(y, "conv1", 4, 4, 3)), "conv2", 4, 4, 3)
    y = net.mean_pool(net.relu(net.add(y, inner)), [6, 6])
    rows = net.reshape(y, [BATCH, 4, 1, 1], [BATCH, 4])
    scores = net.linear(rows, "fc", 4, CLASSES)
    net.cross_entropy(scores)
    return finish(net, scores)


def depthwise_cnn():
    net = Network(4, x=[BATCH, 2, 8, 8], labels=[BATCH])
    y = net.max_pool(net.relu(net.conv("x", "stem", 2, 4, 3)))
    y = net.relu(net.conv(y, "depthwise", 4, 4, 3, group=4))
    y = net.relu(net.conv(y, "pointwise", 4, 6, 1))
    rows = net.reshape(y, [BATCH, 6, 4, 4], [BATCH, 96])
    scores = net.linear(rows, "fc", 96, CLASSES)
    net.cross_entropy(scores)
    return finish(net, scores)


def project(net, x, name, width, trained, rank):
    """Adds a product, and a low-rank product beside it if `rank` is set."""
    y = net.product(x, name, width, width, bias=rank == 0, trained=trained)
    if rank:
        down = net.product(x, f"{name}_lora_a", width, rank, bias=False)
        y = net.add(y, net.product(down, f"{name}_lora_b", rank, width, False))
    return y


def block(net, x, tokens, width, heads, trained=True, rank=0, norms=False):
    """Adds attention and a two-layer network, each behind a norm."""
    split, size = [BATCH, tokens, heads, width // heads], width // heads
    y = net.norm(x, "norm1", width, trained=norms)
    parts = []
    for name in "qkv":
        part = project(net, y, f"attn_{name}", width, trained, rank)
        part = net.reshape(part, [BATCH, tokens, width], split)
        parts.append(net.transpose(part, [0, 2, 1, 3]))
    q, k, v = parts
    scores = net.matmul(q, k, alpha=1 / math.sqrt(size), transposed=True)
    y = net.transpose(net.matmul(net.softmax(scores), v), [0, 2, 1, 3])
    y = net.reshape(y, split, [BATCH, tokens, width])
    x = net.add(x, project(net, y, "attn_out", width, trained, rank))
    y = net.norm(x, "norm2", width, trained=norms)
    y = net.gelu(net.product(y, "mlp1", width, 2 * width, trained=trained))
    return net.add(
        x, net.product(y, "mlp2", 2 * width, width, trained=trained)
    )


def transformer(trained=True, rank=0, opsets=(18, 12)):
    tokens, width = 4, 8
    net = Network(5 + rank, x=[BATCH, tokens, width], labels=[BATCH])
    y = block(net, "x", tokens, width, 2, trained, rank)
    rows = net.reshape(y, [BATCH, tokens, width], [BATCH, tokens * width])
    scores = net.linear(rows, "head", tokens * width, CLASSES)
    net.cross_entropy(scores)
    return finish(net, scores, opsets)


def lora():
    return transformer(trained=False, rank=2)


def vision_transformer():
    tokens, width = 4, 8
    net = Network(9, x=[BATCH, 2, 6, 6], labels=[BATCH])
    y = net.conv("x", "patches", 2, width, 3, stride=3)
    y = net.reshape(y, [BATCH, width, 2, 2], [BATCH, width, tokens])
    y = net.positions(net.transpose(y, [0, 2, 1]), 1, tokens, width)
    y = block(net, y, tokens, width, 2, norms=True)
    row = net.first_token(y, [BATCH, tokens, width])
    scores = net.linear(row, "head", width, CLASSES)
    net.cross_entropy(scores)
    return finish(net, scores)


FAMILIES = {
    make.__name__: make
    for make in (
        mlp,
        autoencoder,
        resnet,
        depthwise_cnn,
        transformer,
        lora,
        vision_transformer,
    )
}


def make_data(made, batches, seed=0):
    random = np.random.RandomState(seed)
    data = {}
    for name, shape in made.inputs.items():
        shape = [batches * shape[0], *shape[1:]]
        if name == "labels":
            data[name] = random.randint(0, CLASSES, shape)
        else:
            data[name] = random.standard_normal(shape).astype(np.float32)
    return data
