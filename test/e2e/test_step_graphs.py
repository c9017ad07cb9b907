"""Graphs that are a training step, with the new parameters as outputs, follow
the losses of the forward model that mpc differentiates and updates itself.

SPDX-License-Identifier: Apache-2.0
"""

import copy

import numpy as np
import onnx
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
# What ONNX Runtime's gradient builder makes of it, by and large.
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
# The same without a node of its own: log_prob itself is what is differentiated.
SPELT_LOSS_GRAD = [
    node("Exp", ["log_prob"], ["prob"]),
    node("OneHot", ["labels", "depth", "on_off"], ["one_hot"]),
    node("Sub", ["prob", "one_hot"], ["difference"]),
    node("Div", ["difference", "batch"], ["logits_grad"]),
] + BACKWARD[1:]
# As tools write it that leave domains out.
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
    """Without bias correction, whose count would be a power."""
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
# By name: the backward pass, the update, its state, and what mpc's own
# optimizer is called. The rate is an input, but where SGD has it.
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
    """`rename` gives outputs another name, such as w1_new."""
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
    metrics, weights = mpctest.train(
        model,
        data,
        folder,
        *("--batch-size", BATCH, "--max-steps", STEPS, "--lr", rate),
        *("--precision", precision, *flags),
    )
    return np.array(mpctest.losses(metrics)), weights


def train_forward(digits, folder, *flags, **options):
    data = {"x": digits["x"], "target": digits["labels"]}
    loss = ("--loss", "softmax_cross_entropy")
    return train(
        make_forward_model(), data, folder, *loss, *flags, **options
    )


# Numbers in the other files are of 32 bits.
@pytest.mark.parametrize(
    "name, precision, bound",
    [(name, "32-true", 2e-6) for name in STEP_GRAPHS]
    + [("spelt_sgd", "64-true", 1e-12)],
)
def test_step_graph_trains_as_the_forward_model(
    name, precision, bound, digits, tmp_path
):
    backward, update, state, optimizer = STEP_GRAPHS[name]
    how = {"precision": precision, "rate": 0.01 if "adam" in name else RATE}
    losses, weights = train(
        make_step_graph(backward, update, state),
        digits,
        tmp_path / "step",
        **how,
    )
    expected, trained = train_forward(
        digits, tmp_path / "forward", *optimizer, **how
    )
    np.testing.assert_allclose(losses, expected, rtol=bound)
    assert losses[-1] < losses[0] - 0.2
    for parameter in PARAMETERS:
        np.testing.assert_allclose(
            weights[parameter], trained[parameter], rtol=1e-4, atol=1e-6
        )


def test_spelt_adam_trains_as_its_equations(digits, tmp_path):
    losses, _ = train(
        make_step_graph(BACKWARD, each(spelt_adam), zeros("_m", "_v")),
        digits,
        tmp_path,
        rate=0.002,
    )
    p = {k: v.astype(np.float64) for k, v in initial_parameters().items()}
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(v) for k, v in p.items()}
    expected = []
    for rows in range(0, BATCH * STEPS, BATCH):
        x = digits["x"][rows : rows + BATCH].astype(np.float64)
        labels = digits["labels"][rows : rows + BATCH]
        a = np.maximum(x @ p["w1"] + p["b1"], 0)
        logits = a @ p["w2"] + p["b2"]
        log_prob = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        expected.append(-log_prob[np.arange(BATCH), labels].mean())
        d = (np.exp(log_prob) - np.eye(CLASSES)[labels]) / BATCH
        d_h = d @ p["w2"].T * (a > 0)
        gradients = {
            "w1": x.T @ d_h,
            "b1": d_h.sum(0),
            "w2": a.T @ d,
            "b2": d.sum(0),
        }
        for k, g in gradients.items():
            m[k] = 0.9 * m[k] + 0.1 * g
            v[k] = 0.999 * v[k] + 0.001 * g * g
            p[k] = p[k] - 0.002 * m[k] / (np.sqrt(v[k]) + 1e-8)
    np.testing.assert_allclose(losses, expected, rtol=2e-4)


def test_what_updates_what_is_found_without_names(digits, tmp_path):
    """Each new value is an output `out_...` whose name says nothing."""
    backward, update, state, optimizer = STEP_GRAPHS["spelt_momentum"]
    names = {}

    def rename(name):
        if not name.endswith("_new"):
            return name
        return names.setdefault(name, f"out_{len(names)}")

    losses, _ = train(
        make_step_graph(backward, update, state, rename),
        digits,
        tmp_path / "step",
    )
    expected, _ = train_forward(digits, tmp_path / "forward", *optimizer)
    np.testing.assert_allclose(losses, expected, rtol=2e-6)


def test_a_scaled_loss_trains_as_an_unscaled_one(digits, tmp_path):
    backward, update, state, _ = STEP_GRAPHS["spelt_sgd"]
    model = make_step_graph(backward, update, state)
    losses, _ = train(model, digits, tmp_path / "mixed", precision="16-mixed")
    expected, _ = train(model, digits, tmp_path / "full")
    np.testing.assert_allclose(losses, expected, rtol=1e-2)


def test_a_backward_pass_without_a_start_takes_no_loss_scale(digits, tmp_path):
    backward, update, state, _ = STEP_GRAPHS["spelt_loss_grad"]
    np.savez(tmp_path / "data.npz", **digits)
    onnx.save(make_step_graph(backward, update, state), tmp_path / "model.onnx")
    found = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *("--precision", "16-mixed"),
    )
    assert found.returncode == 4
    assert (
        "the model's own backward pass has no start that a loss scale could be "
        "given to; use --precision bf16-mixed, or --loss-scale none"
        in found.stderr
    )


def test_parameters_may_be_inputs_with_values(digits, tmp_path):
    backward, update, state, _ = STEP_GRAPHS["microsoft_sgd"]
    model = make_step_graph(backward, update, state)
    expected, _ = train(model, digits, tmp_path / "initializers")
    np.savez(tmp_path / "weights.npz", **initial_parameters())
    for parameter, shape in PARAMETERS.items():
        model.graph.input.append(value(parameter, TensorProto.FLOAT, shape))
    kept = [t for t in model.graph.initializer if t.name not in PARAMETERS]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    forward = tmp_path / "forward.onnx"
    onnx.save(make_forward_model(), forward)
    losses, _ = train(
        model,
        digits,
        tmp_path / "inputs",
        *("--weights", tmp_path / "weights.npz", "--export-model", forward),
    )
    np.testing.assert_array_equal(losses, expected)


def test_an_update_that_may_be_of_two_states_is_refused(tmp_path):
    """Both sums are of both states, and no name tells which is which."""
    update = each(spelt_sgd) + [
        node("Add", ["ema_a", "ema_b"], ["sum"]),
        node("Mul", ["sum", "mu"], ["out_0"]),
        node("Mul", ["sum", "rest1"], ["out_1"]),
    ]
    state = {n: np.ones((HIDDEN,), np.float32) for n in ("ema_a", "ema_b")}
    names = {"ema_a_new": "out_0", "ema_b_new": "out_1"}
    model = make_step_graph(
        BACKWARD, update, state, lambda name: names.get(name, name)
    )
    onnx.save(model, tmp_path / "model.onnx")
    found = mpctest.mpc("compile", tmp_path / "model.onnx", "-o", tmp_path / "a")
    assert found.returncode == 4
    assert (
        "output 'out_0' may be the next value of 'ema_a' or 'ema_b'; call it "
        "'ema_a_new' where it is that of 'ema_a'" in found.stderr
    )


def test_what_was_recognised_is_said_and_can_be_declined(digits, tmp_path):
    backward, update, state, _ = STEP_GRAPHS["microsoft_sgd"]
    model = make_step_graph(backward, update, state)
    onnx.save(model, tmp_path / "model.onnx")
    found = mpctest.mpc_ok(
        "compile", tmp_path / "model.onnx", "-o", tmp_path / "artifact"
    )
    assert (
        "note: " + str(tmp_path / "model.onnx") + ": taken as a training step "
        "with an optimizer of its own (by its optimizer nodes); it trains w1 <- w1_new, b1 <- b1_new, "
        "w2 <- w2_new, b2 <- b2_new; --as-exported takes the graph as it is"
        in found.stderr
    )
    batch = {k: v[:BATCH] for k, v in digits.items()}
    outputs = mpctest.run(
        model, {**batch, "lr": np.float32(RATE)}, tmp_path, "--as-exported"
    )
    assert set(outputs) == {"loss"} | {p + "_new" for p in PARAMETERS}
    assert not np.array_equal(outputs["w1_new"], initial_parameters()["w1"])


#===-----------------------------------------------------------------------===#
# Nothing but standard ops
#===-----------------------------------------------------------------------===#

FILTERS = {"c1": (6, 1, 3, 3), "c2": (8, 6, 3, 3), "fc": (8, CLASSES)}
SPELT_CONVOLUTIONS = [
    node("Conv", ["image", "c1"], ["h1"], pads=[1, 1, 1, 1]),
    node("Relu", ["h1"], ["a1"]),
    node("Conv", ["a1", "c2"], ["h2"], pads=[1, 1, 1, 1]),
    node("Relu", ["h2"], ["a2"]),
    node("GlobalAveragePool", ["a2"], ["pooled"]),
    node("Flatten", ["pooled"], ["flat"]),
    node("MatMul", ["flat", "fc"], ["logits"]),
]


def relu_mask(a, gradient, result):
    return [
        node("Greater", [a, "zero"], [a + "_positive"]),
        node("Cast", [a + "_positive"], [a + "_mask"], to=TensorProto.FLOAT),
        node("Mul", [gradient, a + "_mask"], [result]),
    ]


def filter_gradient(x, dy, w):
    """A product with the windows of x, which two Gathers take."""
    return [
        node("Pad", [x, "pads"], [w + "_padded"]),
        node("Gather", [w + "_padded", "taps"], [w + "_rows"], axis=2),
        node("Gather", [w + "_rows", "taps"], [w + "_all"], axis=4),
        node(
            "Transpose", [w + "_all"], [w + "_turned"], perm=[1, 2, 4, 0, 3, 5]
        ),
        node("Reshape", [w + "_turned", w + "_windows"], [w + "_columns"]),
        node("Transpose", [dy], [w + "_last"], perm=[0, 2, 3, 1]),
        node("Reshape", [w + "_last", w + "_outputs"], [w + "_dy"]),
        node("MatMul", [w + "_columns", w + "_dy"], [w + "_product"]),
        node("Transpose", [w + "_product"], [w + "_first"], perm=[1, 0]),
        node("Reshape", [w + "_first", w + "_shape"], [w + "_grad"]),
    ]


SPELT_CONVOLUTION_GRADIENTS = (
    SPELT_LOSS_GRAD[:4]
    + [
        node("Transpose", ["flat"], ["flat_t"], perm=[1, 0]),
        node("MatMul", ["flat_t", "logits_grad"], ["fc_grad"]),
        node("Transpose", ["fc"], ["fc_t"], perm=[1, 0]),
        node("MatMul", ["logits_grad", "fc_t"], ["flat_grad"]),
        node("Div", ["flat_grad", "pixels"], ["pixel_grad"]),
        node("Unsqueeze", ["pixel_grad", "spatial"], ["pooled_grad"]),
        node("Expand", ["pooled_grad", "image_shape"], ["a2_grad"]),
    ]
    + relu_mask("a2", "a2_grad", "h2_grad")
    + filter_gradient("a1", "h2_grad", "c2")
    + [node("ConvTranspose", ["h2_grad", "c2"], ["a1_grad"], pads=[1, 1, 1, 1])]
    + relu_mask("a1", "a1_grad", "h1_grad")
    + filter_gradient("image", "h1_grad", "c1")
)


def spelt_optimizer_end(p):
    return [
        node("Mul", ["rate", p + "_grad"], [p + "_optimizer_move"]),
        node("Sub", [p, p + "_optimizer_move"], [p + "_optimizer_end"]),
    ]


def test_convolutions_of_standard_ops_train_as_the_forward_model(tmp_path):
    arrays = np.load(mpctest.DIGITS / "digits-train.npz")
    count = BATCH * STEPS
    image = arrays["image"][:count].astype(np.float32) / 16
    labels = arrays["target"][:count].astype(np.int64)
    random = np.random.RandomState(13)
    filters = {
        k: (random.standard_normal(shape) / 3).astype(np.float32)
        for k, shape in FILTERS.items()
    }
    integers = {
        "pads": [0, 0, 1, 1, 0, 0, 1, 1],
        "taps": np.arange(3)[:, None] + np.arange(8),
        "spatial": [2, 3],
        "image_shape": [BATCH, 8, 8, 8],
    }
    for name, (outputs, inputs, *window) in list(FILTERS.items())[:2]:
        integers[name + "_windows"] = [inputs * 9, BATCH * 64]
        integers[name + "_outputs"] = [BATCH * 64, outputs]
        integers[name + "_shape"] = [outputs, inputs, *window]
    tensors = {
        **{k: np.array(v, np.int64) for k, v in integers.items()},
        **{k: CONSTANTS[k] for k in ("depth", "on_off", "batch")},
        **{"zero": np.float32(0), "pixels": np.float32(64)},
        **{"rate": np.float32(RATE)},
        **filters,
    }
    update = [n for p in FILTERS for n in spelt_optimizer_end(p)]
    inputs = {"image": (np.float32, [BATCH, 1, 8, 8])}
    model = mpctest.make_model(
        SPELT_CONVOLUTIONS + [LOSS] + SPELT_CONVOLUTION_GRADIENTS + update,
        {**inputs, "labels": (np.int64, [BATCH])},
        {
            "loss": (np.float32, []),
            **{p + "_optimizer_end": (np.float32, FILTERS[p]) for p in FILTERS},
        },
        tensors,
    )
    forward = mpctest.make_model(
        SPELT_CONVOLUTIONS,
        inputs,
        {"logits": (np.float32, [BATCH, CLASSES])},
        filters,
    )
    losses, weights = train(
        model, {"image": image, "labels": labels}, tmp_path / "step"
    )
    expected, trained = train(
        forward,
        {"image": image, "target": labels},
        tmp_path / "forward",
        *("--loss", "softmax_cross_entropy", *SGD),
    )
    np.testing.assert_allclose(losses, expected, rtol=5e-6)
    for name, start in filters.items():
        assert np.abs(weights[name] - start).max() > 1e-3
        np.testing.assert_allclose(
            weights[name], trained[name], rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize(
    "flags",
    [
        ("--freeze", "w1"),
        ("--gradient-clip-val", "1"),
        ("--accumulate-grad-batches", "2"),
    ],
    ids=lambda flags: flags[0],
)
def test_flags_that_say_nothing_to_the_graphs_optimizer_are_refused(
    flags, digits, tmp_path
):
    backward, update, state, _ = STEP_GRAPHS["microsoft_sgd"]
    onnx.save(make_step_graph(backward, update, state), tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **digits)
    found = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *flags,
    )
    assert found.returncode == 2
    assert (
        f"{flags[0]}: the model is a training graph with an optimizer of its own"
        in found.stderr
    )


#===-----------------------------------------------------------------------===#
# Gradients as outputs
#===-----------------------------------------------------------------------===#


def make_gradient_graph():
    """What ONNX Runtime's gradient graphs are: the loss and gradients of
    parameters that are inputs."""
    nodes = FORWARD + [LOSS] + BACKWARD
    inputs = [value("labels", TensorProto.INT64, [BATCH])] + [
        value(p, TensorProto.FLOAT, shape) for p, shape in PARAMETERS.items()
    ]
    outputs = [
        value("logits", TensorProto.FLOAT, [BATCH, CLASSES]),
        value("loss", TensorProto.FLOAT, []),
    ] + [
        value(p + "_grad", TensorProto.FLOAT, shape)
        for p, shape in PARAMETERS.items()
    ]
    return make_model(nodes, inputs, outputs, CONSTANTS)


@pytest.fixture(name="weights", scope="module")
def fixture_weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    np.savez(folder / "weights.npz", **initial_parameters())
    onnx.save(make_forward_model(), folder / "forward.onnx")
    return (
        *("--weights", folder / "weights.npz"),
        *("--export-model", folder / "forward.onnx"),
    )


@pytest.mark.parametrize(
    "flags",
    [
        ("--optimizer", "adam", "--beta1", "0.8"),
        ("--optimizer", "momentum", "--freeze", "^w1$"),
        ("--optimizer", "sgd", "--gradient-clip-val", "0.5"),
        ("--optimizer", "adamw", "--accumulate-grad-batches", "2"),
    ],
    ids=lambda flags: flags[1],
)
def test_gradient_graph_trains_as_the_forward_model(
    flags, digits, weights, tmp_path
):
    rate = 0.01 if "adam" in flags[1] else RATE
    steps = {k: v.repeat(2, axis=0) for k, v in digits.items()}
    losses, trained = train(
        make_gradient_graph(),
        steps,
        tmp_path / "step",
        *flags,
        *weights,
        rate=rate,
    )
    expected, own = train_forward(
        steps, tmp_path / "forward", *flags, rate=rate
    )
    np.testing.assert_allclose(losses, expected, rtol=2e-6)
    assert losses[-1] < losses[0] - 0.1
    for parameter in PARAMETERS:
        np.testing.assert_allclose(
            trained[parameter], own[parameter], rtol=1e-4, atol=1e-6
        )
    frozen = np.array_equal(trained["w1"], initial_parameters()["w1"])
    assert frozen == ("--freeze" in flags)


def test_gradients_of_the_graph_are_what_trains(digits, weights, tmp_path):
    """A graph whose gradients are doubled moves twice as far; asked for a loss,
    mpc derives its own."""
    model = make_gradient_graph()
    for n in model.graph.node:
        n.output[:] = [o.replace("w2_grad", "half") for o in n.output]
    model.graph.node.append(node("Add", ["half", "half"], ["w2_grad"]))
    start = initial_parameters()["w2"]
    moves = {}
    for name, flags in {
        "given": (),
        "derived": ("--loss", "output:loss"),
    }.items():
        metrics, trained = mpctest.train(
            model,
            digits,
            tmp_path / name,
            *("--max-steps", "1", "--lr", RATE, *flags, *weights),
        )
        moves[name] = trained["w2"] - start
    np.testing.assert_allclose(
        moves["given"], 2 * moves["derived"], rtol=1e-3, atol=1e-6
    )


def test_gradients_of_inputs_without_values_are_said(tmp_path):
    onnx.save(make_gradient_graph(), tmp_path / "model.onnx")
    found = mpctest.mpc_ok("check", tmp_path / "model.onnx")
    assert (
        "the graph has gradients of w1, b1, w2, b2, inputs without a value; it "
        "trains them where --weights gives their values" in found.stdout + found.stderr
    )


def test_a_gradient_graph_takes_a_loss_scale(digits, weights, tmp_path):
    model = make_gradient_graph()
    losses, _ = train(
        model, digits, tmp_path / "mixed", *weights, precision="16-mixed"
    )
    expected, _ = train(model, digits, tmp_path / "full", *weights)
    np.testing.assert_allclose(losses, expected, rtol=1e-2)


def make_optimizer_graph(build, state, inputs):
    """A graph beside the gradient graph, with its names for parameters and
    gradients; state are inputs without a value."""
    nodes = each(build)
    values = inputs + [
        value(p + suffix, TensorProto.FLOAT, shape)
        for p, shape in PARAMETERS.items()
        for suffix in ("", "_grad", *state)
    ]
    outputs = [
        value(p + suffix + "_new", TensorProto.FLOAT, shape)
        for p, shape in PARAMETERS.items()
        for suffix in ("", *state)
    ]
    graph = helper.make_graph(nodes, "optimizer", values, outputs)
    return helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[
            helper.make_opsetid("", 17),
            helper.make_opsetid(MICROSOFT, 1),
        ],
    )


def shared_count_adam(p):
    [node] = microsoft_adam(p)
    node.input[1] = "t"
    node.output[0] = p + "_t_new"
    return [node]


RATE_INPUT = value("lr", TensorProto.FLOAT, [1])
OPTIMIZER_GRAPHS = {
    "adam": (
        shared_count_adam,
        ("_m", "_v"),
        [RATE_INPUT, value("t", TensorProto.INT64, [1])],
    ),
    "sgd": (microsoft_sgd, (), [RATE_INPUT]),
}


@pytest.mark.parametrize("name", OPTIMIZER_GRAPHS)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_gradient_graph_trains_with_an_optimizer_graph(
    name, accumulate, digits, weights, tmp_path
):
    onnx.save(
        make_optimizer_graph(*OPTIMIZER_GRAPHS[name]), tmp_path / "optimizer.onnx"
    )
    rate = 0.01 if name == "adam" else RATE
    steps = {k: v.repeat(2, axis=0) for k, v in digits.items()}
    flags = ("--accumulate-grad-batches", accumulate)
    losses, trained = train(
        make_gradient_graph(),
        steps,
        tmp_path / "step",
        *("--optimizer-model", tmp_path / "optimizer.onnx"),
        *flags,
        *weights,
        rate=rate,
    )
    # Gradients are summed, as in ONNX Runtime.
    expected, own = train_forward(
        steps,
        tmp_path / "forward",
        *("--optimizer", name, "--accumulate-reduction", "sum"),
        *flags,
        rate=rate,
    )
    np.testing.assert_allclose(losses, expected, rtol=2e-6)
    assert losses[-1] < losses[0] - 0.1
    for parameter in PARAMETERS:
        np.testing.assert_allclose(
            trained[parameter], own[parameter], rtol=1e-4, atol=1e-6
        )


def change_parameter(model):
    model.graph.node[0].input[1] = "w1_grad"


def drop_parameter(model):
    model.graph.node.pop()
    model.graph.output.pop()


def add_input(model):
    model.graph.input.append(value("other", TensorProto.FLOAT, []))


@pytest.mark.parametrize(
    "change, message",
    [
        (
            change_parameter,
            "'w1_grad' is no parameter that the training graph has a gradient of",
        ),
        (add_input, "input 'other' is neither a parameter, nor a gradient"),
        (drop_parameter, "parameter 'b2' is not updated"),
    ],
    ids=["parameter", "input", "missing"],
)
def test_an_optimizer_graph_that_does_not_fit_is_refused(
    change, message, weights, tmp_path
):
    model = make_optimizer_graph(*OPTIMIZER_GRAPHS["sgd"])
    change(model)
    onnx.save(model, tmp_path / "optimizer.onnx")
    onnx.save(make_gradient_graph(), tmp_path / "model.onnx")
    found = mpctest.mpc(
        *("compile", tmp_path / "model.onnx", *weights[:2]),
        *("--optimizer-model", tmp_path / "optimizer.onnx"),
        *("-o", tmp_path / "artifact"),
    )
    assert found.returncode in (3, 4)
    assert message in found.stderr


def test_an_optimizer_graph_goes_with_gradients(digits, tmp_path):
    backward, update, state, _ = STEP_GRAPHS["microsoft_sgd"]
    onnx.save(make_step_graph(backward, update, state), tmp_path / "model.onnx")
    found = mpctest.mpc(
        *("compile", tmp_path / "model.onnx", "-o", tmp_path / "artifact"),
        *("--optimizer-model", tmp_path / "model.onnx"),
    )
    assert found.returncode == 2
    assert "or one with gradients as outputs, and this is none" in found.stderr
