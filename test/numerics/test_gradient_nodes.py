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


WINDOW = {"strides": [2, 2], "kernel_shape": [3, 3]}
SPLIT = {
    "ConvGradX": (["dy", "w"], [1, 2, 8, 7]),
    "ConvGradW": (["dy", "x"], [4, 2, 3, 3]),
}


@pytest.mark.parametrize("op", SPLIT)
def test_shape_of_a_split_gradient_is_declared_or_asked_for(op, tmp_path):
    """Heights of 7 and of 8 give the same windows of stride 2."""
    inputs = {
        "dy": normal(1, 4, 3, 3, seed=1),
        "x": normal(1, 2, 8, 7, seed=2),
        "w": normal(4, 2, 3, 3, seed=3),
    }
    names, shape = SPLIT[op]
    given = {name: inputs[name] for name in names}
    for declared, code in ((shape, 0), (None, 1)):
        model = mpctest.make_model(
            [node(op, names, ["d"], **WINDOW), node("Neg", ["d"], ["y"])],
            {k: (v.dtype, v.shape) for k, v in given.items()},
            {"y": (np.float64, None)},
            {},
        )
        if declared:
            shape_of_d = mpctest.onnx.helper.make_tensor_value_info(
                "d", mpctest.onnx.TensorProto.DOUBLE, declared
            )
            model.graph.value_info.append(shape_of_d)
        path = tmp_path / "model.onnx"
        mpctest.onnx.save(model, path)
        process = mpctest.mpc("check", path, "--as-exported")
        assert process.returncode == code, process.stderr
        if declared:
            y = mpctest.run(model, given, tmp_path, "--as-exported")["y"]
            assert list(y.shape) == shape
        else:
            assert f"({op}): cannot tell the shape" in process.stdout
            assert "declare output 'd'" in process.stdout
