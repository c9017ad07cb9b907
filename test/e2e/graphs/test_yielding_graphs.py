"""Graphs of ONNX Runtime's ORTModule train like the forward model. Their
forward part yields values to the surrounding program, and their outputs are
gradients.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mpctest
from step_graphs import (
    BACKWARD,
    BATCH,
    CONSTANTS,
    FORWARD,
    LOSS,
    MICROSOFT,
    PARAMETERS,
    fixture_digits,  # noqa: F401: pytest finds it here
    initial_parameters,
    make_model,
    node,
    train,
    train_forward,
    value,
)

SGD = ("--optimizer", "sgd")


def make(nodes, labels):
    """Returns a graph whose backward pass starts from a value of the
    surrounding program."""
    constants = {k: v for k, v in CONSTANTS.items() if k != "loss_grad"}
    return make_model(
        nodes,
        [value("labels", TensorProto.INT64, [BATCH])] if labels else [],
        [
            value(p + "_grad", TensorProto.FLOAT, shape)
            for p, shape in PARAMETERS.items()
        ],
        {**initial_parameters(), **constants},
    )


def yields(name, **attributes):
    return node(
        "YieldOp", [name], [name + "_grad"], MICROSOFT, **attributes
    )


WITH_LOSS = [*FORWARD, LOSS, yields("loss", full_shape_outputs=[0]), *BACKWARD]
WITHOUT_LOSS = [*FORWARD, yields("logits"), *BACKWARD[1:]]


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
def test_the_gradients_of_a_loss_train(precision, digits, tmp_path):
    losses, weights = train(
        make(WITH_LOSS, True), digits, tmp_path / "yielding", *SGD,
        precision=precision,
    )
    expected, trained = train_forward(digits, tmp_path / "forward", *SGD)
    bound = 2e-6 if precision == "32-true" else 1e-2
    np.testing.assert_allclose(losses, expected, rtol=bound)
    if precision == "32-true":
        for p in PARAMETERS:
            np.testing.assert_allclose(
                weights[p], trained[p], rtol=1e-4, atol=1e-6
            )


def test_the_forward_part_takes_a_loss(digits, tmp_path):
    data = {"x": digits["x"], "target": digits["labels"]}
    loss = ("--loss", "softmax_cross_entropy")
    losses, _ = train(
        make(WITHOUT_LOSS, False), data, tmp_path / "yielding", *loss, *SGD
    )
    expected, _ = train_forward(digits, tmp_path / "forward", *SGD)
    np.testing.assert_allclose(losses, expected, rtol=2e-6)


def test_a_gradient_from_outside_is_refused(digits, tmp_path):
    onnx.save(make(WITHOUT_LOSS, False), tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", x=digits["x"])
    process = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *SGD,
    )
    assert process.returncode == 4, process.stderr
    assert (
        "the gradient of 'logits' comes from outside of the graph; choose a "
        "loss of it, such as --loss mse@logits" in process.stderr
    )
