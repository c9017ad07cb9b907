"""Makes graphs that are a training step of a small network of digits, with the
new parameters as outputs, and trains them for tests.

SPDX-License-Identifier: Apache-2.0
"""

import copy

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

BATCH, PIXELS, HIDDEN, CLASSES = 32, 64, 24, 10
RATE = 0.2
STEPS = 12
PARAMETERS = {
    "w1": (PIXELS, HIDDEN),
    "b1": (HIDDEN,),
    "w2": (HIDDEN, CLASSES),
    "b2": (CLASSES,),
}
MICROSOFT = "com.microsoft"
PREVIEW = "ai.onnx.preview.training"


def node(op, inputs, outputs, domain=None, **attributes):
    return helper.make_node(
        op, inputs, outputs, f"{op}_{outputs[0]}", domain=domain, **attributes
    )


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def initial_parameters():
    random = np.random.RandomState(11)
    return {
        name: (random.standard_normal(shape) / 8).astype(np.float32)
        for name, shape in PARAMETERS.items()
    }


FORWARD = [
    node("MatMul", ["x", "w1"], ["p1"]),
    node("Add", ["p1", "b1"], ["h"]),
    node("Relu", ["h"], ["a"]),
    node("MatMul", ["a", "w2"], ["p2"]),
    node("Add", ["p2", "b2"], ["logits"]),
]
LOSS = node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss", "log_prob"])
# The backward pass as ONNX Runtime's gradient builder writes it, approximately.
BACKWARD = [
    node(
        "SoftmaxCrossEntropyLossGrad",
        ["loss_grad", "log_prob", "labels"],
        ["logits_grad"],
        MICROSOFT,
    ),
    node("Gemm", ["a", "logits_grad"], ["w2_grad"], transA=1),
    node("ReduceSum", ["logits_grad", "axis"], ["b2_grad"], keepdims=0),
    node("Gemm", ["logits_grad", "w2"], ["a_grad"], transB=1),
    node("ReluGrad", ["a_grad", "a"], ["h_grad"], MICROSOFT),
    node("Gemm", ["x", "h_grad"], ["w1_grad"], transA=1),
    node("ReduceSum", ["h_grad", "axis"], ["b1_grad"], keepdims=0),
]
# The same backward pass without a loss gradient node: log_prob is
# differentiated.
SPELT_LOSS_GRAD = [
    node("Exp", ["log_prob"], ["prob"]),
    node("OneHot", ["labels", "depth", "on_off"], ["one_hot"]),
    node("Sub", ["prob", "one_hot"], ["difference"]),
    node("Div", ["difference", "batch"], ["logits_grad"]),
] + BACKWARD[1:]
# Some tools write these nodes without domains.
NO_DOMAINS = [copy.deepcopy(n) for n in BACKWARD]
for n in NO_DOMAINS:
    n.ClearField("domain")
GRADIENT = [
    node(
        "Gradient",
        list(PARAMETERS) + ["x", "labels"],
        [p + "_grad" for p in PARAMETERS],
        PREVIEW,
        xs=list(PARAMETERS),
        zs=["x", "labels"],
        y="loss",
    )
]


def spelt_sgd(p):
    return [
        node("Mul", ["lr", p + "_grad"], [p + "_move"]),
        node("Sub", [p, p + "_move"], [p + "_new"]),
    ]


def spelt_sgd_as_sum(p):
    return [
        node("Mul", ["lr", p + "_grad"], [p + "_move"]),
        node("Neg", [p + "_move"], [p + "_back"]),
        node("Add", [p, p + "_back"], [p + "_new"]),
    ]


def spelt_momentum(p):
    return [
        node("Mul", [p + "_v", "mu"], [p + "_kept"]),
        node("Add", [p + "_kept", p + "_grad"], [p + "_v_new"]),
        node("Mul", ["lr", p + "_v_new"], [p + "_move"]),
        node("Sub", [p, p + "_move"], [p + "_new"]),
    ]


def spelt_adam(p):
    """Adam without bias correction, whose count would need a power."""
    return [
        node("Mul", [p + "_m", "beta1"], [p + "_mb"]),
        node("Mul", [p + "_grad", "rest1"], [p + "_mg"]),
        node("Add", [p + "_mb", p + "_mg"], [p + "_m_new"]),
        node("Mul", [p + "_grad", p + "_grad"], [p + "_square"]),
        node("Mul", [p + "_v", "beta2"], [p + "_vb"]),
        node("Mul", [p + "_square", "rest2"], [p + "_vg"]),
        node("Add", [p + "_vb", p + "_vg"], [p + "_v_new"]),
        node("Sqrt", [p + "_v_new"], [p + "_root"]),
        node("Add", [p + "_root", "eps"], [p + "_den"]),
        node("Div", [p + "_m_new", p + "_den"], [p + "_ratio"]),
        node("Mul", ["lr", p + "_ratio"], [p + "_move"]),
        node("Sub", [p, p + "_move"], [p + "_new"]),
    ]


def plain_sgd(p):
    return [node("SGD", [p, p + "_grad"], [p + "_new"], lr=RATE)]


def microsoft_sgd(p):
    return [node("SGDOptimizer", ["lr", p, p + "_grad"], [p + "_new"], MICROSOFT)]


def microsoft_adam(p):
    return [
        node(
            "AdamOptimizer",
            ["lr", p + "_t", p, p + "_grad", p + "_m", p + "_v"],
            [p + s for s in ("_t_new", "_m_new", "_v_new", "_new")],
            MICROSOFT,
        )
    ]


def zeros(*suffixes):
    return {
        p + suffix: np.zeros(shape, np.float32)
        for p, shape in PARAMETERS.items()
        for suffix in suffixes
    }


def each(build):
    return [made for p in PARAMETERS for made in build(p)]


PREVIEW_MOMENTUM = node(
    "Momentum",
    ["lr", "t"]
    + list(PARAMETERS)
    + [p + "_grad" for p in PARAMETERS]
    + [p + "_v" for p in PARAMETERS],
    [p + "_new" for p in PARAMETERS] + [p + "_v_new" for p in PARAMETERS],
    PREVIEW,
    alpha=0.9,
    beta=1.0,
    norm_coefficient=0.0,
    mode="standard",
)
ADAM_STATE = {
    **{p + "_t": np.array([1], np.int64) for p in PARAMETERS},
    **zeros("_m", "_v"),
}
SGD = ("--optimizer", "sgd")
MOMENTUM = ("--optimizer", "momentum")
# For each name: the backward pass, the update, the update's state, and the
# flags of mpc's equal optimizer. The rate is an input, except with an SGD node.
STEP_GRAPHS = {
    "spelt_sgd": (BACKWARD, each(spelt_sgd), {}, SGD),
    "spelt_sgd_as_sum": (BACKWARD, each(spelt_sgd_as_sum), {}, SGD),
    "spelt_loss_grad": (SPELT_LOSS_GRAD, each(spelt_sgd), {}, SGD),
    "spelt_momentum": (BACKWARD, each(spelt_momentum), zeros("_v"), MOMENTUM),
    "plain_sgd": (BACKWARD, each(plain_sgd), {}, SGD),
    "no_domains": (NO_DOMAINS, each(plain_sgd), {}, SGD),
    "microsoft_sgd": (BACKWARD, each(microsoft_sgd), {}, SGD),
    "microsoft_adam": (
        BACKWARD,
        each(microsoft_adam),
        ADAM_STATE,
        ("--optimizer", "adam"),
    ),
    "gradient_and_momentum": (
        GRADIENT,
        [PREVIEW_MOMENTUM],
        {**zeros("_v")},
        MOMENTUM,
    ),
}
CONSTANTS = {
    "loss_grad": np.float32(1),
    "axis": np.array([0], np.int64),
    "mu": np.float32(0.9),
    "beta1": np.float32(0.9),
    "rest1": np.float32(0.1),
    "beta2": np.float32(0.999),
    "rest2": np.float32(0.001),
    "eps": np.float32(1e-8),
    "depth": np.int64(CLASSES),
    "on_off": np.array([0, 1], np.float32),
    "batch": np.float32(BATCH),
    "least": np.float32(0.5),
    "smooth": np.array([0.1, 0.9], np.float32),
}


def make_model(nodes, inputs, outputs, tensors):
    read = {name for n in nodes for name in n.input}
    graph = helper.make_graph(
        nodes,
        "step",
        [value("x", TensorProto.FLOAT, [BATCH, PIXELS])] + inputs,
        outputs,
        [
            numpy_helper.from_array(np.asarray(v), k)
            for k, v in tensors.items()
            if k in read
        ],
    )
    return helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[
            helper.make_opsetid("", 17),
            helper.make_opsetid(MICROSOFT, 1),
            helper.make_opsetid(PREVIEW, 1),
        ],
    )


def make_step_graph(backward, update, state, rename=None):
    """`rename` maps the name of an output, such as w1_new, to another."""
    inputs = [value("labels", TensorProto.INT64, [BATCH])]
    names = {name for n in update for name in n.input}
    if "lr" in names:
        inputs.append(value("lr", TensorProto.FLOAT, []))
    if "t" in names:
        inputs.append(value("t", TensorProto.INT64, []))
    tensors = {**initial_parameters(), **CONSTANTS, **state}
    outputs = [value("loss", TensorProto.FLOAT, [])]
    for name in list(PARAMETERS) + list(state):
        tensor = tensors[name]
        kind = helper.np_dtype_to_tensor_dtype(tensor.dtype)
        outputs.append(value(name + "_new", kind, tensor.shape))
    model = make_model(
        FORWARD + [LOSS] + backward + update, inputs, outputs, tensors
    )
    if rename:
        for n in model.graph.node:
            n.input[:] = [rename(i) for i in n.input]
            n.output[:] = [rename(o) for o in n.output]
        for output in model.graph.output:
            output.name = rename(output.name)
    return model


def make_forward_model():
    return make_model(
        FORWARD,
        [],
        [value("logits", TensorProto.FLOAT, [BATCH, CLASSES])],
        initial_parameters(),
    )


@pytest.fixture(name="digits", scope="module")
def fixture_digits():
    arrays = np.load(mpctest.DIGITS / "digits-train.npz")
    count = BATCH * STEPS
    return {
        "x": arrays["image"][:count].reshape(count, PIXELS).astype("f4") / 16,
        "labels": arrays["target"][:count].astype(np.int64),
    }


def train(model, data, folder, *flags, precision="32-true", rate=RATE):
    """Trains `model`. A model with an SGD node or a decomposed update with a
    fixed rate takes no --lr: pass `rate=None`, or have the node."""
    has_rate = any(n.op_type == "SGD" for n in model.graph.node)
    metrics, weights = mpctest.train(
        model,
        data,
        folder,
        *("--batch-size", BATCH, "--max-steps", STEPS),
        *(() if has_rate or rate is None else ("--lr", rate)),
        *("--precision", precision, *flags),
    )
    return np.array(mpctest.losses(metrics)), weights


def train_forward(digits, folder, *flags, **options):
    data = {"x": digits["x"], "target": digits["labels"]}
    loss = ("--loss", "softmax_cross_entropy")
    return train(
        make_forward_model(), data, folder, *loss, *flags, **options
    )
