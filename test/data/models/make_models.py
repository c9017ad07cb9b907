"""Makes the forward models that the tests, the demo and the benchmarks train.

    python make_models.py [FOLDER]

Every model takes `image` (float, N x channels x height x width, raw pixels) and
gives `logits` (N x 10). Weights are drawn from a fixed seed like PyTorch's:
uniform in +-1/sqrt(fan in).

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class GraphBuilder:
    """Appends layers to one chain of values. Every layer returns its value."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.nodes = []
        self.initializers = []

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def uniform(self, name, shape, fan_in):
        bound = 1 / np.sqrt(fan_in)
        values = self.random.uniform(-bound, bound, shape)
        return self.constant(name, values.astype(np.float32))

    def node(self, op, name, inputs, **attributes):
        self.nodes.append(
            helper.make_node(op, inputs, [name + "_out"], name, **attributes)
        )
        return name + "_out"

    def scale_pixels(self, x, largest=16):
        largest = self.constant("pixel_max", np.float32(largest))
        return self.node("Div", "scale", [x, largest])

    def conv(
        self, name, x, channels, filters, kernel, bias=True, stride=1, pad=0
    ):
        fan_in = channels * kernel * kernel
        shape = (filters, channels, kernel, kernel)
        inputs = [x, self.uniform(name + ".weight", shape, fan_in)]
        if bias:
            inputs.append(self.uniform(name + ".bias", (filters,), fan_in))
        return self.node(
            "Conv",
            name,
            inputs,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
        )

    def batch_norm(self, name, x, channels):
        ones, zeros = np.ones(channels, np.float32), np.zeros(
            channels, np.float32
        )
        inputs = [
            x,
            self.constant(name + ".weight", ones),
            self.constant(name + ".bias", zeros),
            self.constant(name + ".running_mean", zeros),
            self.constant(name + ".running_var", ones),
        ]
        return self.node("BatchNormalization", name, inputs, epsilon=1e-5)

    def relu(self, name, x):
        return self.node("Relu", name, [x])

    def max_pool(self, name, x):
        return self.node(
            "MaxPool", name, [x], kernel_shape=[2, 2], strides=[2, 2]
        )

    def flatten(self, x):
        return self.node("Flatten", "flatten", [x])

    def linear(self, name, x, inputs, outputs):
        weight = self.uniform(name + ".weight", (outputs, inputs), inputs)
        bias = self.uniform(name + ".bias", (outputs,), inputs)
        return self.node("Gemm", name, [x, weight, bias], transB=1)

    def model(self, name, logits, image_shape, opset):
        self.nodes[-1].output[0] = "logits"
        assert logits == self.nodes[-1].name + "_out"
        graph = helper.make_graph(
            self.nodes,
            name,
            [
                helper.make_tensor_value_info(
                    "image", TensorProto.FLOAT, ["N", *image_shape]
                )
            ],
            [
                helper.make_tensor_value_info(
                    "logits", TensorProto.FLOAT, ["N", 10]
                )
            ],
            self.initializers,
        )
        model = helper.make_model(
            graph,
            producer_name="make_models",
            ir_version=8,
            opset_imports=[helper.make_opsetid("", opset)],
        )
        onnx.checker.check_model(model, full_check=True)
        return model


def digits_cnn():
    """Returns two convolutions with BatchNormalization and two linear layers,
    on the 8x8 digits: the demo's model."""
    b = GraphBuilder(seed=1)
    x = b.scale_pixels("image")
    for i, (channels, filters) in enumerate(((1, 32), (32, 64)), start=1):
        x = b.conv(f"conv{i}", x, channels, filters, 3, bias=False, pad=1)
        x = b.relu(f"relu{i}", b.batch_norm(f"bn{i}", x, filters))
        x = b.max_pool(f"pool{i}", x)
    x = b.relu("relu3", b.linear("fc1", b.flatten(x), 256, 64))
    return b.model("digits_cnn", b.linear("fc2", x, 64, 10), [1, 8, 8], 17)


def fashion_cnn():
    """Returns two convolutions with BatchNormalization and a linear layer, on
    28x28 images of bytes; 50,282 parameters. The model of the demo's
    Fashion-MNIST."""
    b = GraphBuilder(seed=5)
    x = b.scale_pixels("image", largest=255)
    for i, (channels, filters) in enumerate(((1, 32), (32, 64)), start=1):
        x = b.conv(f"conv{i}", x, channels, filters, 3, bias=False, pad=1)
        x = b.relu(f"relu{i}", b.batch_norm(f"bn{i}", x, filters))
        x = b.max_pool(f"pool{i}", x)
    logits = b.linear("fc", b.flatten(x), 64 * 7 * 7, 10)
    return b.model("fashion_cnn", logits, [1, 28, 28], 17)


def mlp(widths=(64, 128, 64), image_shape=(1, 8, 8), seed=2):
    """Returns linear layers with Relu between them. `widths` are the input
    sizes of the hidden layers."""
    b = GraphBuilder(seed)
    x = b.flatten(b.scale_pixels("image"))
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:]), start=1):
        x = b.relu(f"relu{i}", b.linear(f"fc{i}", x, inputs, outputs))
    logits = b.linear(f"fc{len(widths)}", x, widths[-1], 10)
    return b.model("mlp", logits, image_shape, 13)


def lenet():
    """Returns LeNet-5 with max pooling and Relu; 32x32 images, 61,706
    parameters."""
    b = GraphBuilder(seed=3)
    x = b.scale_pixels("image")
    x = b.max_pool("pool1", b.relu("relu1", b.conv("conv1", x, 1, 6, 5)))
    x = b.max_pool("pool2", b.relu("relu2", b.conv("conv2", x, 6, 16, 5)))
    x = b.relu("relu3", b.linear("fc1", b.flatten(x), 400, 120))
    x = b.relu("relu4", b.linear("fc2", x, 120, 84))
    return b.model("lenet", b.linear("fc3", x, 84, 10), [1, 32, 32], 15)


def resnet():
    """Returns a stem and two residual blocks with BatchNormalization on 8x8
    digits. The second block halves the image and projects its shortcut."""
    b = GraphBuilder(seed=4)

    def conv_bn(name, x, channels, filters, kernel=3, stride=1):
        x = b.conv(
            name + ".conv",
            x,
            channels,
            filters,
            kernel,
            bias=False,
            stride=stride,
            pad=kernel // 2,
        )
        return b.batch_norm(name + ".bn", x, filters)

    def block(name, x, channels, filters, stride):
        y = b.relu(
            name + ".relu1",
            conv_bn(name + ".1", x, channels, filters, stride=stride),
        )
        y = conv_bn(name + ".2", y, filters, filters)
        if stride != 1:
            x = conv_bn(name + ".shortcut", x, channels, filters, 1, stride)
        return b.relu(name + ".relu2", b.node("Add", name + ".add", [y, x]))

    x = b.relu("stem.relu", conv_bn("stem", b.scale_pixels("image"), 1, 16))
    x = block("block1", x, 16, 16, 1)
    x = block("block2", x, 16, 32, 2)
    x = b.flatten(b.node("GlobalAveragePool", "pool", [x]))
    return b.model("resnet", b.linear("fc", x, 32, 10), [1, 8, 8], 17)


MODELS = {
    "digits-cnn": digits_cnn,
    "fashion-cnn": fashion_cnn,
    "mlp": mlp,
    "lenet": lenet,
    "resnet": resnet,
}


def main():
    here = pathlib.Path(__file__).parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    for name, make in MODELS.items():
        onnx.save(make(), folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
