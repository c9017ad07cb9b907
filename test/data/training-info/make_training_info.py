"""Makes models with their own training step (ModelProto.training_info), and the
expected losses.

    pip install onnx numpy && python make_training_info.py

A two-layer perceptron with SoftmaxCrossEntropyLoss, Gradient and one optimizer
of ai.onnx.preview.training each: adam.onnx, momentum.onnx (standard and, as
nesterov.onnx, Nesterov) and adagrad.onnx. State starts at initializers; in
adagrad.onnx an `initialization` graph sets the accumulators. The reference is
NumPy in float64, from the equations of the specification.

SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
DIGITS = HERE.parent / "digits" / "digits-train.npz"
BATCH_SIZE = 32
STEPS = 12
HIDDEN = 32
ADAGRAD_START = 0.1

PARAMETERS = {
    "fc1.weight": (HIDDEN, 64),
    "fc1.bias": (HIDDEN,),
    "fc2.weight": (10, HIDDEN),
    "fc2.bias": (10,),
}
OPTIMIZERS = {
    "adam": {
        "op": "Adam",
        "lr": 0.002,
        "states": 2,
        "attributes": {
            "alpha": 0.9,
            "beta": 0.99,
            "epsilon": 1e-5,
            "norm_coefficient": 0.01,
            "norm_coefficient_post": 0.001,
        },
    },
    "momentum": {
        "op": "Momentum",
        "lr": 0.05,
        "states": 1,
        "attributes": {
            "alpha": 0.9,
            "beta": 0.7,
            "norm_coefficient": 0.01,
            "mode": "standard",
        },
    },
    "nesterov": {
        "op": "Momentum",
        "lr": 0.05,
        "states": 1,
        "attributes": {
            "alpha": 0.9,
            "beta": 0.7,
            "norm_coefficient": 0.0,
            "mode": "nesterov",
        },
    },
    "adagrad": {
        "op": "Adagrad",
        "lr": 0.05,
        "states": 1,
        "attributes": {
            "epsilon": 1e-5,
            "decay_factor": 0.1,
            "norm_coefficient": 0.01,
        },
    },
}


def initial_parameters():
    random = np.random.RandomState(5)
    result = {}
    for name, shape in PARAMETERS.items():
        bound = 1 / np.sqrt(64 if name.startswith("fc1") else HIDDEN)
        result[name] = random.uniform(-bound, bound, shape).astype(np.float32)
    return result


def state_names(states):
    return [f"{p}.state{i}" for i in range(states) for p in PARAMETERS]


def make_inference_graph():
    nodes = [
        helper.make_node("Div", ["image", "pixel_max"], ["scaled"], "scale"),
        helper.make_node("Flatten", ["scaled"], ["flat"], "flatten"),
        helper.make_node(
            "Gemm", ["flat", "fc1.weight", "fc1.bias"], ["h"], "fc1", transB=1
        ),
        helper.make_node("Relu", ["h"], ["a"], "relu"),
        helper.make_node(
            "Gemm", ["a", "fc2.weight", "fc2.bias"], ["logits"], "fc2", transB=1
        ),
    ]
    tensors = dict(initial_parameters(), pixel_max=np.float32(16))
    return helper.make_graph(
        nodes,
        "perceptron",
        [
            helper.make_tensor_value_info(
                "image", TensorProto.FLOAT, ["N", 1, 8, 8]
            )
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(v, k) for k, v in tensors.items()],
    )


def make_algorithm(optimizer):
    parameters, states = list(PARAMETERS), state_names(optimizer["states"])
    gradients = [p + ".grad" for p in parameters]
    updated = [name + ".new" for name in parameters + states]
    nodes = [
        helper.make_node(
            "SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "loss"
        ),
        helper.make_node(
            "Gradient",
            parameters + ["image", "labels"],
            gradients,
            "gradient",
            domain="ai.onnx.preview.training",
            xs=parameters,
            zs=["image", "labels"],
            y="loss",
        ),
        helper.make_node(
            optimizer["op"],
            ["lr", "step"] + parameters + gradients + states,
            updated,
            "optimizer",
            domain="ai.onnx.preview.training",
            **optimizer["attributes"],
        ),
        helper.make_node("Add", ["step", "one"], ["step.new"], "count"),
    ]
    shapes = list(PARAMETERS.values()) * (1 + optimizer["states"])
    outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
    outputs += [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(updated, shapes)
    ]
    outputs.append(
        helper.make_tensor_value_info("step.new", TensorProto.INT64, [])
    )
    tensors = {
        "lr": np.float32(optimizer["lr"]),
        "step": np.int64(0),
        "one": np.int64(1),
    }
    for name, shape in zip(states, list(PARAMETERS.values()) * 2):
        tensors[name] = np.zeros(shape, np.float32)
    graph = helper.make_graph(
        nodes,
        "step",
        [helper.make_tensor_value_info("labels", TensorProto.INT64, ["N"])],
        outputs,
        [numpy_helper.from_array(v, k) for k, v in tensors.items()],
    )
    bindings = [(name, name + ".new") for name in parameters + states]
    return graph, bindings + [("step", "step.new")]


def make_initialization(optimizer):
    """Returns accumulators that start above zero, as Adagrad's may."""
    states = state_names(optimizer["states"])
    nodes, outputs = [], []
    for name, shape in zip(states, PARAMETERS.values()):
        value = numpy_helper.from_array(
            np.full(shape, ADAGRAD_START, np.float32)
        )
        output = name + ".initial"
        nodes.append(
            helper.make_node("Constant", [], [output], name, value=value)
        )
        outputs.append(
            helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        )
    graph = helper.make_graph(nodes, "initialization", [], outputs)
    return graph, [(name, name + ".initial") for name in states]


def make_model(optimizer):
    model = helper.make_model(
        make_inference_graph(),
        producer_name="make_training_info",
        ir_version=8,
        opset_imports=[
            helper.make_opsetid("", 17),
            helper.make_opsetid("ai.onnx.preview.training", 1),
        ],
    )
    onnx.checker.check_model(model, full_check=True)
    initialization = initialization_bindings = None
    if optimizer["op"] == "Adagrad":
        initialization, initialization_bindings = make_initialization(optimizer)
    model.training_info.append(
        helper.make_training_info(
            *make_algorithm(optimizer), initialization, initialization_bindings
        )
    )
    return model


def loss_and_gradients(p, image, labels):
    x = image.reshape(len(image), -1) / 16
    h = x @ p["fc1.weight"].T + p["fc1.bias"]
    a = np.maximum(h, 0)
    logits = a @ p["fc2.weight"].T + p["fc2.bias"]
    shifted = logits - logits.max(1, keepdims=True)
    log_prob = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    rows = np.arange(len(labels))
    d_logits = np.exp(log_prob)
    d_logits[rows, labels] -= 1
    d_logits /= len(labels)
    d_h = d_logits @ p["fc2.weight"] * (h > 0)
    return -log_prob[rows, labels].mean(), {
        "fc1.weight": d_h.T @ x,
        "fc1.bias": d_h.sum(0),
        "fc2.weight": d_logits.T @ a,
        "fc2.bias": d_logits.sum(0),
    }


def update(optimizer, t, x, gradient, state):
    """Returns the new parameter and states, by the specification's equations."""
    op, r = optimizer["op"], np.float64(np.float32(optimizer["lr"]))
    # Attributes of ONNX are float32.
    attributes = {
        k: v if isinstance(v, str) else np.float64(np.float32(v))
        for k, v in optimizer["attributes"].items()
    }
    g = attributes["norm_coefficient"] * x + gradient
    if op == "Adagrad":
        r /= 1 + t * attributes["decay_factor"]
        h = state[0] + g * g
        return x - r * g / (np.sqrt(h) + attributes["epsilon"]), [h]
    alpha, beta = attributes["alpha"], attributes["beta"]
    if op == "Momentum":
        v = alpha * state[0] + (beta if t > 0 else 1) * g
        if attributes["mode"] == "nesterov":
            return x - r * (g + alpha * v), [v]
        return x - r * v, [v]
    v = alpha * state[0] + (1 - alpha) * g
    h = beta * state[1] + (1 - beta) * g * g
    if t > 0:
        r *= np.sqrt(1 - beta**t) / (1 - alpha**t)
    x = x - r * v / (np.sqrt(h) + attributes["epsilon"])
    return (1 - attributes["norm_coefficient_post"]) * x, [v, h]


def reference_losses(optimizer):
    digits = np.load(DIGITS)
    start = ADAGRAD_START if optimizer["op"] == "Adagrad" else 0.0
    start = np.float64(np.float32(start))
    p = {k: v.astype(np.float64) for k, v in initial_parameters().items()}
    states = {
        k: [np.full(v.shape, start) for _ in range(optimizer["states"])]
        for k, v in p.items()
    }
    losses = []
    for t in range(STEPS):
        rows = slice(t * BATCH_SIZE, (t + 1) * BATCH_SIZE)
        image = digits["image"][rows].astype(np.float64)
        labels = digits["target"][rows].astype(np.int64)
        loss, gradients = loss_and_gradients(p, image, labels)
        losses.append(float(loss))
        for name in p:
            p[name], states[name] = update(
                optimizer, t, p[name], gradients[name], states[name]
            )
    return losses


def main():
    reference = {"batch_size": BATCH_SIZE, "steps": STEPS, "losses": {}}
    for name, optimizer in OPTIMIZERS.items():
        onnx.save(make_model(optimizer), HERE / f"{name}.onnx")
        reference["losses"][name] = reference_losses(optimizer)
    text = json.dumps(reference, indent=1)
    (HERE / "losses.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
