"""Shared models and data of the journeys. Each journey plays a user who tries
mpc for the first time.

A journey calls mpc command after command and checks what the user must see at
every stop. Other tests cover every case of a stop. Journeys show that the whole
path works.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
from onnx import helper

import mpctest

USAGE, INVALID, UNSUPPORTED, NUMERIC, CHECKPOINT = 2, 3, 4, 7, 8

TRAIN = mpctest.DIGITS / "digits-train.npz"
TEST = mpctest.DIGITS / "digits-test.npz"
MLP = mpctest.MODELS / "mlp.onnx"

# Flags for digits classified by their labels.
CLASSES = ["--loss", "softmax_cross_entropy"]


def refused(code, *arguments):
    """Returns mpc's message when it must end with `code`."""
    process = mpctest.mpc(*arguments)
    command = " ".join(map(str, arguments))
    assert process.returncode == code, f"mpc {command}\n{process.stderr}"
    return process.stdout + process.stderr


def linear(name, x, y):
    """Returns PyTorch's Linear."""
    inputs = [x, name + ".weight", name + ".bias"]
    return helper.make_node("Gemm", inputs, [y], name, transB=1)


def parameters(random, **shapes):
    """Returns initial values by name. `fc1=(8, 4)` is a layer of 4 inputs and 8
    outputs."""
    values = {}
    for name, (outputs, inputs) in shapes.items():
        bound = inputs**-0.5
        values[name + ".weight"] = random.uniform(-bound, bound, (outputs, inputs))
        values[name + ".bias"] = random.uniform(-bound, bound, outputs)
    return {name: value.astype(np.float32) for name, value in values.items()}


def perceptron(inputs=4, hidden=8, outputs=3, batch="N", seed=0, last=None):
    """Returns x -> fc1 -> Relu -> fc2 [-> last] -> y."""
    nodes = [
        linear("fc1", "x", "h"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        linear("fc2", "r", "s" if last else "y"),
    ]
    if last:
        nodes.append(helper.make_node(last, ["s"], ["y"], last.lower()))
    random = np.random.default_rng(seed)
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, [batch, inputs])},
        {"y": (np.float32, [batch, outputs])},
        parameters(random, fc1=(hidden, inputs), fc2=(outputs, hidden)),
    )


def save(model, path):
    onnx.save(model, path)
    return path


def save_arrays(path, **arrays):
    np.savez(path, **arrays)
    return path


def accuracy(scores, labels):
    return float(np.mean(np.argmax(scores, axis=1) == labels))
