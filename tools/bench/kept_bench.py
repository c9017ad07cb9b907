"""Prints the memory of training steps, from their plans.

    kept_bench.py [--mpc PATH] [--models NAME,...] [-- OPTION...]

Compiles each model up to `--emit=plan`, once by default and once with
`--no-recompute`. Prints in KiB for the step: the arena; its part that is
written before the loss and read after it (kept for backward); and all loads and
stores of kernels and contractions. Needs numpy and onnx
(test/requirements.txt). Options after `--` go to `mpc compile`.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from onnx import numpy_helper, save

from deep_bench import Graph
from plans import ROOT, bytes_of

OPTIONS = "--loss softmax_cross_entropy --optimizer adamw"
OPTIONS += " --precision bf16-mixed --target x86-64-v3"
TOKENS, WIDTH, HEADS = 128, 256, 4


def constant(g, values, dtype=np.float32):
    name = f"w{len(g.weights)}"
    array = np.array(values, dtype)
    g.weights.append(numpy_helper.from_array(array, name))
    return name


def mean(g, x, axis, keepdims=1):
    axes = constant(g, [axis], np.int64)
    return g.add("ReduceMean", x, axes, keepdims=keepdims)


def gelu_op(g, x):
    return g.add("Gelu", x)


def gelu_erf(g, x):
    """Written as by PyTorch's exporter below opset 20."""
    root, one, half = (constant(g, v) for v in (2**0.5, 1, 0.5))
    erf = g.add("Erf", g.add("Div", x, root))
    return g.add("Mul", g.add("Mul", x, g.add("Add", erf, one)), half)


def gelu_tanh(g, x):
    """Written as in GPT-2."""
    one, half, cubic = (constant(g, v) for v in (1, 0.5, 0.044715))
    root = constant(g, (2 / np.pi) ** 0.5)
    cube = g.add("Mul", g.add("Mul", x, x), x)
    sum = g.add("Add", x, g.add("Mul", cube, cubic))
    tanh = g.add("Tanh", g.add("Mul", sum, root))
    return g.add("Mul", g.add("Mul", x, half), g.add("Add", tanh, one))


def swish(g, x):
    return g.add("Mul", x, g.add("Sigmoid", x))


def layer_norm(g, x):
    """Written in primitive ops, as by exporters before opset 17."""
    two, tiny = constant(g, 2), constant(g, 1e-5)
    centred = g.add("Sub", x, mean(g, x, -1))
    variance = mean(g, g.add("Pow", centred, two), -1)
    deviation = g.add("Sqrt", g.add("Add", variance, tiny))
    unit = g.add("Div", centred, deviation)
    scaled = g.add("Mul", unit, g.weight(WIDTH, value=1))
    return g.add("Add", scaled, g.weight(WIDTH))


def dense(g, x, inputs, outputs):
    product = g.add("MatMul", x, g.weight(inputs, outputs))
    return g.add("Add", product, g.weight(outputs))


def attention(g, x):
    depth = WIDTH // HEADS

    def heads(perm):
        shape = constant(g, [0, 0, HEADS, depth], np.int64)
        y = g.add("Reshape", dense(g, x, WIDTH, WIDTH), shape)
        return g.add("Transpose", y, perm=perm)

    query, value = heads([0, 2, 1, 3]), heads([0, 2, 1, 3])
    scores = g.add("MatMul", query, heads([0, 2, 3, 1]))
    scores = g.add("Div", scores, constant(g, depth**0.5))
    mixed = g.add("MatMul", g.add("Softmax", scores, axis=-1), value)
    mixed = g.add("Transpose", mixed, perm=[0, 2, 1, 3])
    shape = constant(g, [0, 0, WIDTH], np.int64)
    return dense(g, g.add("Reshape", mixed, shape), WIDTH, WIDTH)


def perceptron(activation):
    def make():
        g = Graph(TOKENS, WIDTH)
        x = activation(g, dense(g, "x", WIDTH, 4 * WIDTH))
        x = activation(g, dense(g, x, 4 * WIDTH, WIDTH))
        return g.model(mean(g, x, 1, 0), WIDTH)

    return make


def norm():
    g = Graph(TOKENS, WIDTH)
    x = layer_norm(g, dense(g, "x", WIDTH, WIDTH))
    x = g.add("Relu", dense(g, x, WIDTH, WIDTH))
    return g.model(mean(g, x, 1, 0), WIDTH)


def transformer():
    """Two blocks, with norms before attention and before the layers."""
    g = Graph(TOKENS, WIDTH)
    x = dense(g, "x", WIDTH, WIDTH)
    for _ in range(2):
        x = g.add("Add", x, attention(g, layer_norm(g, x)))
        y = gelu_erf(g, dense(g, layer_norm(g, x), WIDTH, 4 * WIDTH))
        x = g.add("Add", x, dense(g, y, 4 * WIDTH, WIDTH))
    x = layer_norm(g, x)
    return g.model(mean(g, x, 1, 0), WIDTH)


def batch_norm(g, x, channels):
    values = [g.weight(channels, value=v) for v in (1, 0, 0, 1)]
    return g.add("BatchNormalization", x, *values)


def bottleneck():
    """Two blocks of ResNet-50, 64 channels at 28 x 28."""
    g = Graph(256, 28, 28)
    x = "x"
    for _ in range(2):
        y = x
        for inputs, outputs, size in (256, 64, 1), (64, 64, 3), (64, 256, 1):
            pads = [size // 2] * 4
            weight = g.weight(outputs, inputs, size, size)
            y = batch_norm(g, g.add("Conv", y, weight, pads=pads), outputs)
            y = g.add("Relu", y) if outputs == 64 else y
        x = g.add("Relu", g.add("Add", y, x))
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(x, 256)


MODELS = {
    "gelu (op)": perceptron(gelu_op),
    "gelu (erf)": perceptron(gelu_erf),
    "gelu (tanh)": perceptron(gelu_tanh),
    "swish": perceptron(swish),
    "layer_norm": norm,
    "transformer": transformer,
    "bottleneck": bottleneck,
    "digits-cnn": ROOT / "test" / "data" / "models" / "digits-cnn.onnx",
}

class Step:
    """The steps of @step, and the arena's buffers that each step touches."""

    def __init__(self, text):
        begin = text.index("plan.program @step")
        lines = text[begin:].split("plan.program @")[1].splitlines()
        self.arena = int(re.search(r"arena_bytes = (\d+)", lines[0])[1])
        self.steps, self.size, alias = [], {}, {}
        for line in lines[1:]:
            # Drop the node's name.
            line = line.split(" loc(")[0]
            name = re.match(r" *(%\d+) =", line)
            place = re.search(r"plan.arena .*memref<(.*)>", line)
            view = re.search(r"plan.view (%\d+)", line)
            if place:
                self.size[name[1]] = bytes_of(place[1])
            elif view:
                alias[name[1]] = alias.get(view[1], view[1])
            elif "plan.input" not in line and "plan.state" not in line:
                buffers = re.findall(r"%\d+", line)
                self.steps.append((line, [alias.get(b, b) for b in buffers]))

    def kept(self):
        loss = next(i for i, (line, _) in enumerate(self.steps) if "loss" in line)
        touched = lambda steps: {b for _, buffers in steps for b in buffers}
        both = touched(self.steps[:loss]) & touched(self.steps[loss:])
        return sum(self.size.get(b, 0) for b in both)

    def traffic(self):
        return sum(self.size.get(b, 0) for _, used in self.steps for b in used)


def measure(mpc, model, options):
    command = [mpc, "compile", model, "--emit=plan", "-o", "-", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{model.name}: mpc compile failed")
    step = Step(done.stdout)
    return step.arena, step.kept(), step.traffic()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpc", default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("options", nargs="*", default=OPTIONS.split())
    given = parser.parse_args()
    print("| model | arena | kept for backward | loads and stores |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for model in given.models.split(","):
            path, options = MODELS[model], given.options
            if not callable(path):
                options = [*options, "--batch-size", "32"]
            else:
                path = pathlib.Path(name) / "model.onnx"
                made = MODELS[model]()
                made.ir_version, made.opset_import[0].version = 10, 20
                save(made, path)
            rows = [
                measure(given.mpc, path, options + more)
                for more in (["--no-recompute"], [])
            ]
            cells = [
                f"{before / 1024:.0f} → {after / 1024:.0f}"
                for before, after in zip(*rows)
            ]
            print(f"| {model} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
