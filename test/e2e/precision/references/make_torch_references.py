"""Makes the reference losses of test_references.py with PyTorch.

    pip install torch onnx numpy && python make_torch_references.py

Each case trains one of test/data/models on the digits in file order. It records
the loss of every step before its update, in float32 and in float64. The models
are executed node by node, so that the ONNX file is the only definition.

SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib

import numpy as np
import onnx
import torch
import torch.nn.functional as functional
from onnx import numpy_helper

HERE = pathlib.Path(__file__).parent
DATA = HERE.parent.parent / "data"

CASES = {
    "mlp-sgd": {"model": "mlp", "optimizer": "sgd", "lr": 0.05, "steps": 50},
    "cnn-sgd": {
        "model": "digits-cnn",
        "optimizer": "sgd",
        "lr": 0.05,
        "steps": 50,
    },
    "resnet-sgd": {
        "model": "resnet",
        "optimizer": "sgd",
        "lr": 0.05,
        "steps": 50,
    },
    "mlp-adamw": {
        "model": "mlp",
        "optimizer": "adamw",
        "lr": 0.001,
        "steps": 50,
    },
}
BATCH_SIZE = 32
OPTIMIZERS = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}


def run_node(node, x):
    """Executes one ONNX node on torch tensors. Supports only the ops of the
    models."""
    attributes = {
        a.name: onnx.helper.get_attribute_value(a) for a in node.attribute
    }
    if node.op_type == "Add":
        return x[0] + x[1]
    if node.op_type == "BatchNormalization":
        return functional.batch_norm(
            x[0],
            None,
            None,
            x[1],
            x[2],
            training=True,
            eps=np.float32(attributes["epsilon"]).item(),
        )
    if node.op_type == "Conv":
        return functional.conv2d(
            *x, stride=attributes["strides"], padding=attributes["pads"][:2]
        )
    if node.op_type == "Div":
        return x[0] / x[1]
    if node.op_type == "Flatten":
        return x[0].flatten(1)
    if node.op_type == "Gemm":
        return functional.linear(*x)
    if node.op_type == "GlobalAveragePool":
        return x[0].mean((2, 3), keepdim=True)
    if node.op_type == "MaxPool":
        return functional.max_pool2d(
            x[0], attributes["kernel_shape"], attributes["strides"]
        )
    if node.op_type == "Relu":
        return x[0].relu()
    raise NotImplementedError(node.op_type)


def is_trainable(name):
    return name.endswith((".weight", ".bias"))


def train(case, dtype):
    """Returns the loss of every step."""
    graph = onnx.load(DATA / "models" / f"{case['model']}.onnx").graph
    values = {
        init.name: torch.tensor(numpy_helper.to_array(init)).to(dtype)
        for init in graph.initializer
    }
    parameters = [
        v.requires_grad_() for name, v in values.items() if is_trainable(name)
    ]
    optimizer = OPTIMIZERS[case["optimizer"]](parameters, lr=case["lr"])
    digits = np.load(DATA / "digits" / "digits-train.npz")
    images = torch.tensor(digits["image"]).to(dtype)
    targets = torch.tensor(digits["target"].astype(np.int64))
    batches = len(targets) // BATCH_SIZE
    losses = []
    for step in range(case["steps"]):
        first = step % batches * BATCH_SIZE
        rows = slice(first, first + BATCH_SIZE)
        scope = dict(values, image=images[rows])
        for node in graph.node:
            scope[node.output[0]] = run_node(
                node, [scope[i] for i in node.input]
            )
        loss = functional.cross_entropy(scope["logits"], targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.set_num_threads(1)
    for name, case in CASES.items():
        reference = dict(
            case,
            batch_size=BATCH_SIZE,
            torch=torch.__version__,
            loss_float32=train(case, torch.float32),
            loss_float64=train(case, torch.float64),
        )
        text = json.dumps(reference, indent=1)
        (HERE / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
