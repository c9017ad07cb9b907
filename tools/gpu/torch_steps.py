"""Times training steps of an ONNX model's graph in PyTorch on a GPU.

    torch_steps.py MODEL.onnx BATCH PRECISION...

Prints a line of JSON for each precision as it is and then for each compiled: the
milliseconds of a step, or why there are none. The model is in channels_last,
autocast as PyTorch's users do it, AdamW fused; 16-mixed has a GradScaler, and
32-true computes in fp32, not in tf32.

SPDX-License-Identifier: Apache-2.0
"""

import json
import sys

import numpy as np
import onnx
import torch
from torch.nn import functional

import steps

DTYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


class Model(torch.nn.Module):
    """The graph, node by node; weights are drawn here."""

    def __init__(self, graph):
        super().__init__()
        self.nodes = list(graph.node)
        self.input, self.output = graph.input[0].name, graph.output[0].name
        self.weights = torch.nn.ParameterDict()
        self.constants = {}
        for initializer in graph.initializer:
            name, shape = initializer.name, tuple(initializer.dims)
            key = name.replace(".", "_")
            if not shape:
                self.constants[name] = float(
                    onnx.numpy_helper.to_array(initializer)
                )
            elif "running" in name:
                fill = torch.zeros if "mean" in name else torch.ones
                self.register_buffer(key, fill(shape))
            else:
                spread = 1 / max(int(np.prod(shape[1:])), 1) ** 0.5
                self.weights[key] = torch.nn.Parameter(
                    torch.empty(shape).uniform_(-spread, spread)
                )

    def value(self, values, name):
        if name in values:
            return values[name]
        if name in self.constants:
            return self.constants[name]
        key = name.replace(".", "_")
        return self.weights[key] if key in self.weights else getattr(self, key)

    def forward(self, image):
        values = {self.input: image}
        for node in self.nodes:
            inputs = [self.value(values, name) for name in node.input]
            attributes = {
                a.name: onnx.helper.get_attribute_value(a)
                for a in node.attribute
            }
            values[node.output[0]] = OPS[node.op_type](attributes, *inputs)
        return values[self.output]


def conv(attributes, x, weight, bias=None):
    return functional.conv2d(
        x, weight, bias, attributes["strides"], attributes["pads"][:2]
    )


def batch_norm(attributes, x, scale, bias, mean, variance):
    return functional.batch_norm(
        x, mean, variance, scale, bias, True, 0.1, attributes["epsilon"]
    )


OPS = {
    "Div": lambda _, x, y: x / y,
    "Add": lambda _, x, y: x + y,
    "Relu": lambda _, x: functional.relu(x),
    "Flatten": lambda _, x: x.flatten(1),
    "Gemm": lambda _, x, weight, bias: functional.linear(x, weight, bias),
    "MaxPool": lambda a, x: functional.max_pool2d(
        x, a["kernel_shape"], a["strides"]
    ),
    "GlobalAveragePool": lambda _, x: x.mean((2, 3), keepdim=True),
    "Conv": conv,
    "BatchNormalization": batch_norm,
}


def time_steps(path, batch, how, precision):
    torch.manual_seed(0)
    graph = onnx.load(path).graph
    model = Model(graph).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler(enabled=precision == "16-mixed")
    shape = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim[1:]]
    on_host = torch.rand(batch, *shape).mul(16).pin_memory()
    labels = torch.randint(10, (batch,)).pin_memory()

    def loss_of(image, target):
        with torch.autocast(
            "cuda", DTYPES.get(precision), enabled=precision in DTYPES
        ):
            return functional.cross_entropy(model(image), target)

    if how == "compiled":
        torch.compiler.reset()
        loss_of = torch.compile(loss_of)

    def step():
        """Fed from the host, its loss read, as a training loop does."""
        image = on_host.to("cuda", non_blocking=True)
        if image.dim() == 4:
            image = image.to(memory_format=torch.channels_last)
        target = labels.to("cuda", non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(image, target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss.item()

    def run(count):
        for _ in range(count):
            step()
        torch.cuda.synchronize()

    return steps.milliseconds(run)


def main():
    path, batch, *precisions = sys.argv[1:]
    torch.backends.cudnn.allow_tf32 = False
    for how in ("eager", "compiled"):
        for precision in precisions:
            try:
                result = time_steps(path, int(batch), how, precision)
            except RuntimeError as error:
                result = f"{type(error).__name__}: {str(error)[-300:]}"
            line = {"how": how, "precision": precision, "ms": result}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
