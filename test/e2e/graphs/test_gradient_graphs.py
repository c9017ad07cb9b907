"""Graphs with gradients as outputs train with those gradients, using the
optimizer of the flags or an optimizer graph.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mpctest
from step_graphs import (  # noqa: F401, digits is a fixture
    BACKWARD,
    BATCH,
    CLASSES,
    CONSTANTS,
    FORWARD,
    LOSS,
    MICROSOFT,
    PARAMETERS,
    RATE,
    STEP_GRAPHS,
    each,
    fixture_digits,
    initial_parameters,
    make_forward_model,
    make_model,
    make_step_graph,
    microsoft_adam,
    microsoft_sgd,
    node,
    train,
    train_forward,
    value,
)


def make_gradient_graph():
    """Returns a graph like ONNX Runtime's gradient graphs: the loss, and
    gradients of parameters that are inputs."""
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
    """A graph with doubled gradients moves weights twice as far. Given --loss,
    mpc derives its own gradients."""
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


def test_gradients_that_are_no_multiples_take_no_loss_scale(digits, weights, tmp_path):
    """A node that reads a gradient as a value is not linear in the gradient."""
    model = make_gradient_graph()
    for node in model.graph.node:
        if node.op_type == "ReluGrad":
            node.input[:] = reversed(node.input)
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **digits)
    arguments = ("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz")
    arguments += (*weights, "--batch-size", BATCH, "--max-steps", 2)
    arguments += ("--output", tmp_path / "trained.onnx", "--precision", "16-mixed")
    process = mpctest.mpc(*arguments)
    assert process.returncode == 4
    assert "own backward pass (--precision bf16-mixed and" in process.stderr
    assert "not linear in a value that carries the loss scale" in process.stderr
    mpctest.mpc_ok(*arguments, "--loss-scale", "none")


def make_optimizer_graph(build, state, inputs):
    """Returns an optimizer graph with the gradient graph's names for parameters
    and gradients. The state consists of inputs without values."""
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
            "'w1_grad' is no parameter with a gradient in the training graph",
        ),
        (add_input, "input 'other' is neither a parameter, nor a gradient"),
        (drop_parameter, "no node of the optimizer graph updates parameter 'b2'"),
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
    assert "or one with gradients as outputs, and this model is neither" in found.stderr
