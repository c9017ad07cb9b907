"""Times `mpc compile` on deep and wide models and prints a table.

    deep_bench.py [--mpc PATH] [--models NAME,...] [--sizes N,...]
                  [-- OPTION...]

Needs numpy and onnx (test/requirements.txt). Every model is compiled once in
each size, in a separate process. Options after `--` go to `mpc compile`; by
default a loss, AdamW, bf16-mixed and a target.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

ROOT = pathlib.Path(__file__).parent.parent.parent
BATCH = 8
OPTIONS = "--loss softmax_cross_entropy --optimizer adamw"
OPTIONS += " --precision bf16-mixed --target x86-64-v3 --kernel-cache none"


class Graph:
    """Appends nodes. Each method returns the name of its result."""

    def __init__(self, *shape):
        self.random = np.random.RandomState(0)
        self.shape = (BATCH, *shape)
        self.nodes, self.weights = [], []

    def weight(self, *shape, value=None):
        name = f"w{len(self.weights)}"
        array = self.random.uniform(-0.1, 0.1, shape)
        if value is not None:
            array = np.full(shape, value)
        self.weights.append(
            numpy_helper.from_array(array.astype(np.float32), name)
        )
        return name

    def add(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        node = helper.make_node(op, inputs, [name], name, **attributes)
        self.nodes.append(node)
        return name

    def linear(self, x, inputs, outputs):
        bias = self.weight(outputs)
        return self.add("Gemm", x, self.weight(inputs, outputs), bias)

    def model(self, x, inputs):
        x = self.linear(x, inputs, 10)
        self.nodes[-1].output[0] = "logits"
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "deep",
            [info("x", TensorProto.FLOAT, self.shape)],
            [info("logits", TensorProto.FLOAT, (BATCH, 10))],
            self.weights,
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, ir_version=8, opset_imports=opset)


def residual(n, channels=8):
    """N times convolution, normalisation, relu and the addition of the block's
    input."""
    g = Graph(channels, 8, 8)
    x = "x"
    for _ in range(n):
        y = g.add(
            "Conv", x, g.weight(channels, channels, 3, 3), pads=[1] * 4
        )
        scale, bias = g.weight(channels, value=1), g.weight(channels)
        mean, var = (g.weight(channels, value=v) for v in (0, 1))
        y = g.add("BatchNormalization", y, scale, bias, mean, var)
        x = g.add("Add", g.add("Relu", y), x)
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(x, channels)


def mlp(n, width=64):
    """N fully connected layers with relu."""
    g = Graph(width)
    x = "x"
    for _ in range(n):
        x = g.add("Relu", g.linear(x, width, width))
    return g.model(x, width)


def chain(n, width=64):
    """N elementwise ops, each on the last result."""
    g = Graph(width)
    x = g.linear("x", width, width)
    for i in range(n):
        x = g.add(("Relu", "Tanh", "Neg")[i % 3], x)
    return g.model(x, width)


def wide_sum(n, width=64):
    """A Sum of N branches."""
    g = Graph(width)
    x = g.linear("x", width, width)
    parts = [g.add("Mul", x, g.weight(width)) for _ in range(n)]
    return g.model(g.add("Sum", *parts), width)


def concat(n, width=16):
    """N branches of one layer each, joined by Concat."""
    g = Graph(width)
    parts = [g.add("Relu", g.linear("x", width, width)) for _ in range(n)]
    return g.model(g.add("Concat", *parts, axis=1), n * width)


def split(n, width=16):
    """One value split into N parts, with a layer for each, added up."""
    g = Graph(n * width)
    x = g.add("Relu", g.add("Mul", "x", g.weight(n * width)))
    parts = [f"part{i}" for i in range(n)]
    g.nodes.append(helper.make_node("Split", [x], parts, "split", axis=1))
    layers = [g.add("Relu", g.linear(part, width, width)) for part in parts]
    return g.model(g.add("Sum", *layers), width)


def uses(n, width=64):
    """One value that N layers read, added up one after the other."""
    g = Graph(width)
    x = g.add("Relu", g.linear("x", width, width))
    y = x
    for _ in range(n):
        y = g.add("Add", y, g.add("Tanh", g.linear(x, width, width)))
    return g.model(y, width)


MODELS = {
    make.__name__: make
    for make in (residual, mlp, chain, wide_sum, concat, split, uses)
}


def compile_model(mpc, model, options, folder):
    """Returns wall-clock seconds, processor seconds, peak memory in MiB, and
    kernels in the artifact."""
    output = folder / "out.mpc"
    command = [mpc, "compile", model, "-o", output, *options]
    start = time.monotonic()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status:
        sys.exit(f"{model.name}: mpc compile failed")
    text = output.read_bytes()
    kernels = len(set(re.findall(rb'"kernel":"([^"]*)"', text)))
    processor = usage.ru_utime + usage.ru_stime
    return seconds, processor, usage.ru_maxrss / 1024, kernels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpc", default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sizes", default="100,200,400")
    parser.add_argument("options", nargs="*", default=OPTIONS.split())
    given = parser.parse_args()
    print("| model | N | seconds | of processor | peak memory | kernels |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in given.models.split(","):
            for size in map(int, given.sizes.split(",")):
                path = folder / f"{model}{size}.onnx"
                save(MODELS[model](size), path)
                seconds, processor, memory, kernels = compile_model(
                    given.mpc, path, given.options, folder
                )
                print(
                    f"| {model} | {size} | {seconds:.2f} | {processor:.2f}"
                    f" | {memory:.0f} MiB | {kernels} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
