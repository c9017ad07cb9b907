"""Nodes that compute gradients, as ONNX Runtime's gradient builder writes them,
match mpc's own gradients of their forward ops, in float64.

Every model has the forward op, `Gradient` of sum(y * dy) with respect to its
inputs, and the node, with `dy` as the gradient of y. test_gradients.py compares
mpc's own gradients with finite differences, so agreement proves the node right.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from gradient_node_case import node, normal
from gradient_node_cases import CASES

import mpctest

PREVIEW = "ai.onnx.preview.training"


def run(case, nodes, inputs, outputs, folder):
    model = mpctest.make_model(
        nodes,
        {k: (v.dtype, v.shape) for k, v in inputs.items()},
        {name: (np.float64, None) for name in outputs},
        case.constants,
        case.opset,
    )
    return mpctest.run(model, inputs, folder, "--as-exported")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gradient_node_is_the_gradient_of_its_forward_op(case, tmp_path):
    # The model does not give the shape of y. The first run finds it.
    y = run(case, case.forward, case.arguments, ["y"], tmp_path)["y"]
    dy = 0.5 + np.asarray(normal(*y.shape, seed=9))
    inputs = {**case.arguments, "dy": dy}
    own = ["own_" + name for name in case.wrt]
    nodes = (
        case.forward
        + [
            node("Mul", ["y", "dy"], ["terms"]),
            node("ReduceSum", ["terms"], ["sum"], keepdims=0),
            node(
                "Gradient", case.wrt, own, PREVIEW, xs=case.wrt, y="sum"
            ),
        ]
        + case.backward
    )
    given = ["d_" + name for name in case.wrt]
    found = run(case, nodes, inputs, own + given, tmp_path)
    for name in case.wrt:
        expected = found["own_" + name]
        assert expected.shape == case.arguments[name].shape
        assert np.abs(expected).max() > 1e-3, "the case tests nothing"
        np.testing.assert_allclose(
            found["d_" + name], expected, rtol=0, atol=case.tolerance
        )
