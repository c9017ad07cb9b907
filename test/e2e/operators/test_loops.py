"""Bodies of loops and branches may return one value several times, and reuse
names.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, "_".join(outputs), **attributes)


def constant(name, value):
    return node("Constant", [], [name], value=numpy_helper.from_array(value))


def graph(nodes, inputs, outputs):
    info = helper.make_tensor_value_info
    types = {"i": TensorProto.INT64, "go": TensorProto.BOOL}
    return helper.make_graph(
        nodes,
        "body",
        [info(n, types.get(n, TensorProto.FLOAT), None) for n in inputs],
        [info(n, types.get(n, TensorProto.FLOAT), None) for n in outputs],
    )


def run(nodes, outputs, folder, **initializers):
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, X.shape)},
        {name: (np.float32, None) for name in outputs},
        initializers,
    )
    return mpctest.run(model, {"x": X}, folder)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_body_may_give_one_value_several_times(count, tmp_path):
    """A loop carries the value and stacks it twice."""
    body = graph([node("Neg", ["v"], ["w"])], ["i", "go", "v"], ["go", *"www"])
    found = run(
        [node("Loop", ["count", "", "x"], ["y", "s", "t"], body=body)],
        "yst",
        tmp_path,
        count=np.array(count),
    )
    signs = np.array([-1.0, 1.0, -1.0], np.float32)[:count]
    np.testing.assert_array_equal(found["y"], X * (-1) ** count)
    for name in "st":
        np.testing.assert_array_equal(found[name], signs[:, None, None] * X)


def test_a_scan_may_give_a_constant_and_its_inputs(tmp_path):
    body = graph([constant("k", X)], ["p"], ["k", "p", "p"])
    found = run(
        [node("Scan", ["x"], list("yst"), body=body, num_scan_inputs=1)],
        "yst",
        tmp_path,
    )
    np.testing.assert_array_equal(found["y"], np.stack([X, X]))
    np.testing.assert_array_equal(found["s"], X)
    np.testing.assert_array_equal(found["t"], X)


@pytest.mark.parametrize("directions", [[1, 0], [0, 1]])
def test_a_scan_may_stack_one_product_in_both_directions(directions, tmp_path):
    """The loop's product is computed for all iterations behind the loop, in one
    direction."""
    body = graph(
        [node("Tanh", ["p"], ["k"]), node("MatMul", ["k", "W"], ["w"])],
        ["p"],
        ["w", "w"],
    )
    scan = node(
        "Scan",
        ["x"],
        ["y", "s"],
        body=body,
        num_scan_inputs=1,
        scan_output_directions=directions,
    )
    # Unsqueeze makes two parts [1, 3] of [2, 3].
    rows = node("Unsqueeze", ["given", "first"], ["x"])
    weight = np.array([[1, 2], [0, 1], [3, 0]], np.float32)
    model = mpctest.make_model(
        [rows, scan],
        {"given": (np.float32, X.shape)},
        {"y": (np.float32, None), "s": (np.float32, None)},
        {"W": weight, "first": np.array([1])},
    )
    found = mpctest.run(model, {"given": X}, tmp_path)
    forwards = (np.tanh(X) @ weight)[:, None]
    for name, reverse in zip("ys", directions):
        expected = forwards[::-1] if reverse else forwards
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, err_msg=name)


def added(op, given, value):
    """Returns a node that adds a constant of its body, named k."""
    read = "v" if op == "Loop" else given
    nodes = [constant("k", value), node("Add", [read, "k"], ["w"])]
    result = [given + "1"]
    if op == "Loop":
        body = graph(nodes, ["i", "go", "v"], ["go", "w"])
        return node("Loop", ["one", "", given], result, body=body)
    branch = graph(nodes, [], ["w"])
    return node("If", ["holds"], result, then_branch=branch, else_branch=branch)


@pytest.mark.parametrize("op", ["Loop", "If"])
def test_bodies_may_call_different_constants_the_same(op, tmp_path):
    found = run(
        [added(op, "x", X), added(op, "x1", 7 * X)],
        ["x11"],
        tmp_path,
        one=np.array(1),
        holds=np.array(True),
    )
    np.testing.assert_array_equal(found["x11"], 9 * X)


def test_a_constant_of_a_body_is_no_reason_to_unroll(tmp_path):
    """4097 iterations exceed the limit for unrolling."""
    body = graph(
        [constant("k", X), node("Add", ["v", "k"], ["w"])],
        ["i", "go", "v"],
        ["go", "w"],
    )
    found = run(
        [node("Loop", ["count", "", "x"], ["y"], body=body)],
        "y",
        tmp_path,
        count=np.array(4097),
    )
    np.testing.assert_array_equal(found["y"], 4098 * X)


def test_refuses_a_loop_that_lacks_a_carried_value(tmp_path):
    body = graph([node("Neg", ["v"], ["w"])], ["i", "go", "v"], ["go", "w"])
    model = mpctest.make_model(
        [node("Loop", ["count", "", ""], ["y"], body=body)],
        {"x": (np.float32, X.shape)},
        {"y": (np.float32, None)},
        {"count": np.array(3)},
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1
    assert "node 'y' (Loop): expected the initial value" in process.stdout


def test_a_scan_of_opset_8_runs_forwards_or_backwards(tmp_path):
    """Directions are 0 and 1, as in later opsets."""
    body = graph([node("Neg", ["p"], ["k"])], ["p"], ["k"])
    model = mpctest.make_model(
        [node("Scan", ["", "x"], ["y"], body=body, num_scan_inputs=1, directions=[7])],
        {"x": (np.float32, X.shape)},
        {"y": (np.float32, None)},
        {},
        opset=8,
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("compile", tmp_path / "model.onnx", "--emit=import")
    assert process.returncode == 3
    assert "attribute 'directions' to hold only 0 and 1, found 7" in process.stderr


def test_branches_with_dropouts_of_one_name_drop_other_elements(tmp_path):
    def dropped(given, result):
        branch = graph(
            [node("Dropout", [given, "ratio", "training"], ["d"])], [], ["d"]
        )
        branches = {"then_branch": branch, "else_branch": branch}
        return node("If", ["holds"], [result], **branches)

    model = mpctest.make_model(
        [dropped("x", "y"), dropped("y", "z")],
        {"x": (np.float32, X.shape)},
        {"z": (np.float32, None)},
        {
            "holds": np.array(True),
            "ratio": np.float32(0.5),
            "training": np.array(True),
        },
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc_ok(
        *("compile", tmp_path / "model.onnx", "--emit=import", "--as-exported")
    )
    dropouts = re.findall(r"mpc\.dropout .*{id = (\d)", process.stdout)
    assert dropouts == ["0", "1"]
