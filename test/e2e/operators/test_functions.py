"""Calls of a model's own functions compute what ONNX Runtime computes, and
training keeps the functions in the file.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

DOMAIN = "test.functions"
X = np.random.RandomState(0).standard_normal([4, 6]).astype(np.float32)


def node(op, inputs, outputs, domain=None, **attributes):
    return helper.make_node(op, inputs, outputs, domain=domain, **attributes)


def call(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, DOMAIN, **attributes)


def refer(made, **names):
    """Makes attributes of a node refer to the function's attributes."""
    for name, (reference, kind) in names.items():
        attribute = made.attribute.add()
        attribute.name, attribute.ref_attr_name = name, reference
        attribute.type = kind
    return made


def constant(name, number):
    tensor = numpy_helper.from_array(np.float32(number))
    return node("Constant", [], [name], value=tensor)


def function(name, inputs, outputs, nodes, opset=17, attributes=(), defaults=()):
    return helper.make_function(
        DOMAIN,
        name,
        inputs,
        outputs,
        nodes,
        [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)],
        list(attributes),
        list(defaults),
    )


def model(nodes, functions, initializers=None, opset=17):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(v, k)
            for k, v in (initializers or {}).items()
        ],
    )
    return helper.make_model(
        graph,
        ir_version=9,
        functions=functions,
        opset_imports=[
            helper.make_opsetid("", opset),
            helper.make_opsetid(DOMAIN, 1),
        ],
    )


def compare(made, folder):
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = session.run(["y"], {"x": X})
    found = mpctest.run(made, {"x": X}, folder)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# Names in a body are local: both calls and the caller have a `half`.
HALVED = function(
    "Halved", ["v"], ["r"], [constant("half", 0.5), node("Mul", ["v", "half"], ["r"])]
)


def test_calls_keep_their_names_apart(tmp_path):
    nodes = [
        constant("half", 3),
        call("Halved", ["x"], ["a"]),
        call("Halved", ["a"], ["b"]),
        node("Add", ["b", "half"], ["y"]),
    ]
    compare(model(nodes, [HALVED]), tmp_path)


def test_a_function_may_call_another(tmp_path):
    quarter = function(
        "Quarter",
        ["v"],
        ["r"],
        [call("Halved", ["v"], ["t"]), call("Halved", ["t"], ["r"])],
    )
    compare(model([call("Quarter", ["x"], ["y"])], [quarter, HALVED]), tmp_path)


LEAKY = function(
    "Leaky",
    ["v"],
    ["r"],
    [refer(node("LeakyRelu", ["v"], ["r"]), alpha=("slope", 1))],
    attributes=["slope"],
)
SCALED = function(
    "Scaled",
    ["v"],
    ["r"],
    [refer(node("LeakyRelu", ["v"], ["r"]), alpha=("slope", 1))],
    defaults=[helper.make_attribute("slope", 0.25)],
)


@pytest.mark.parametrize(
    "op, attributes",
    [("Leaky", {"slope": 0.5}), ("Scaled", {}), ("Scaled", {"slope": 2.0})],
)
def test_attributes_are_the_calls_or_their_defaults(op, attributes, tmp_path):
    nodes = [call(op, ["x"], ["y"], **attributes)]
    compare(model(nodes, [LEAKY, SCALED]), tmp_path)


def test_an_attribute_without_a_value_is_absent(tmp_path):
    """LeakyRelu's own default applies."""
    made = model([call("Leaky", ["x"], ["y"])], [LEAKY])
    found = mpctest.run(made, {"x": X}, tmp_path)["y"]
    np.testing.assert_allclose(found, np.where(X > 0, X, 0.01 * X), rtol=1e-6)


def test_attributes_reach_bodies_in_a_body(tmp_path):
    then = helper.make_graph(
        [refer(node("LeakyRelu", ["v"], ["t"]), alpha=("slope", 1))],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
    )
    otherwise = helper.make_graph(
        [node("Neg", ["v"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
    )
    either = function(
        "Either",
        ["v", "c"],
        ["r"],
        [node("If", ["c"], ["r"], then_branch=then, else_branch=otherwise)],
        attributes=["slope"],
    )
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        constant("zero", 0),
        node("Less", ["s", "zero"], ["low"]),
        node("Not", ["low"], ["high"]),
        call("Either", ["x", "low"], ["a"], slope=0.5),
        call("Either", ["a", "high"], ["y"], slope=4.0),
    ]
    compare(model(nodes, [either]), tmp_path)


def test_a_function_keeps_its_own_opset(tmp_path):
    """Before opset 13, softmax covers its axis and all later axes."""
    old = function(
        "Old",
        ["v"],
        ["r"],
        [
            node("Unsqueeze", ["v"], ["u"], axes=[2]),
            node("Softmax", ["u"], ["s"], axis=1),
            node("Squeeze", ["s"], ["r"], axes=[2]),
        ],
        opset=11,
    )
    made = model([call("Old", ["x"], ["y"])], [old])
    found = mpctest.run(made, {"x": X}, tmp_path)["y"]
    e = np.exp(X - X.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_inputs_and_outputs_may_be_absent(tmp_path):
    clipped = function(
        "Clipped",
        ["v", "low", "high"],
        ["r", "n"],
        [node("Clip", ["v", "low", "high"], ["r"]), node("Neg", ["r"], ["n"])],
    )
    nodes = [
        constant("most", 0.5),
        call("Clipped", ["x", "", "most"], ["a"]),
        call("Clipped", ["a"], ["", "y"]),
    ]
    made = model(nodes, [clipped])
    found = mpctest.run(made, {"x": X}, tmp_path)["y"]
    np.testing.assert_array_equal(found, -np.minimum(X, np.float32(0.5)))


def test_an_input_may_be_an_output(tmp_path):
    both = function(
        "Both", ["v"], ["v", "n"], [node("Neg", ["v"], ["n"])]
    )
    nodes = [call("Both", ["x"], ["a", "b"]), node("Sub", ["a", "b"], ["y"])]
    made = model(nodes, [both])
    found = mpctest.run(made, {"x": X}, tmp_path)["y"]
    np.testing.assert_allclose(found, 2 * X, rtol=1e-6)


def test_a_function_goes_before_an_op_of_its_name(tmp_path):
    gelu = helper.make_function(
        "com.microsoft",
        "Gelu",
        ["v"],
        ["r"],
        [node("Neg", ["v"], ["r"])],
        [helper.make_opsetid("", 17)],
    )
    made = model([node("Gelu", ["x"], ["y"], "com.microsoft")], [gelu])
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = mpctest.run(made, {"x": X}, tmp_path)["y"]
    np.testing.assert_array_equal(found, -X)


def test_training_keeps_the_functions_of_the_file(tmp_path):
    dense = function(
        "Dense",
        ["v", "w"],
        ["r"],
        [
            node("MatMul", ["v", "w"], ["p"]),
            call("Halved", ["p"], ["h"]),
            node("Tanh", ["h"], ["r"]),
        ],
    )
    weights = np.eye(6, 3, dtype=np.float32)
    nodes = [call("Dense", ["x", "w"], ["y"])]
    made = model(nodes, [dense, HALVED], {"w": weights})
    target = np.ones([4, 3], np.float32)
    _, trained = mpctest.train(
        made,
        {"x": X, "target": target},
        tmp_path,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", 0.5),
        *("--batch-size", 4, "--max-steps", 1),
    )
    y = np.tanh(X.astype(np.float64) @ weights / 2)
    d = 2 * (y - target) / y.size * (1 - y * y) / 2
    np.testing.assert_allclose(
        trained["w"], weights - 0.5 * X.T @ d, rtol=1e-5, atol=1e-6
    )
    written = onnx.load(tmp_path / "trained.onnx")
    assert written.functions == made.functions
    assert written.graph.node == made.graph.node


SELF = function("Self", ["v"], ["r"], [call("Self", ["v"], ["r"])])
PING = function("Ping", ["v"], ["r"], [call("Pong", ["v"], ["r"])])
PONG = function("Pong", ["v"], ["r"], [call("Ping", ["v"], ["r"])])
DOUBLING = [HALVED] + [
    function(
        f"F{i}",
        ["v"],
        ["r"],
        [
            call(f"F{i - 1}" if i else "Halved", ["v"], ["t"]),
            call(f"F{i - 1}" if i else "Halved", ["t"], ["r"]),
        ],
    )
    for i in range(30)
]
DEEP = [HALVED] + [
    function(
        f"F{i}",
        ["v"],
        ["r"],
        [call(f"F{i - 1}" if i else "Halved", ["v"], ["r"])],
    )
    for i in range(100)
]


@pytest.mark.parametrize(
    "functions, made, code, message",
    [
        ([SELF], call("Self", ["x"], ["y"]), 3, "calls itself"),
        ([PING, PONG], call("Ping", ["x"], ["y"]), 3, "calls itself"),
        ([HALVED, HALVED], call("Halved", ["x"], ["y"]), 3, "the file defines function"),
        (
            [HALVED],
            call("Halved", ["x", "x"], ["y"]),
            3,
            "has 1 inputs and 1 outputs, but the call has 2 inputs",
        ),
        (
            [HALVED],
            call("Halved", ["x"], ["y"], slope=1.0),
            3,
            "has no attribute 'slope'",
        ),
        (DOUBLING, call("F29", ["x"], ["y"]), 4, "more than 300000 nodes"),
        (DEEP, call("F99", ["x"], ["y"]), 4, "more than 64 deep"),
        (
            [function("Ancient", ["v"], ["r"], [node("Neg", ["v"], ["r"])], 5)],
            call("Ancient", ["x"], ["y"]),
            4,
            "function 'test.functions.Ancient': expected opset 6 to 28, found 5",
        ),
    ],
)
def test_what_cannot_be_inlined_is_said(
    functions, made, code, message, tmp_path
):
    onnx.save(model([made], functions), tmp_path / "model.onnx")
    process = mpctest.mpc("compile", tmp_path / "model.onnx", "--emit=import")
    assert process.returncode == code, process.stderr
    assert message in process.stderr


def test_a_passed_graph_cannot_refer_to_itself(tmp_path):
    """A graph that the call passes has no parameters of the function."""

    def branch(name, nodes):
        value = helper.make_tensor_value_info("t", TensorProto.FLOAT, None)
        return helper.make_graph(nodes, name, [], [value])

    negated = branch("negated", [node("Neg", ["x"], ["t"])])
    inner = refer(node("If", ["low"], ["t"], else_branch=negated), then_branch=("body", 5))
    chosen = refer(node("If", ["c"], ["r"], else_branch=negated), then_branch=("body", 5))
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        constant("zero", 0),
        node("Less", ["s", "zero"], ["low"]),
        call("Chosen", ["low", "x"], ["y"], body=branch("itself", [inner])),
    ]
    made = model(nodes, [function("Chosen", ["c", "x"], ["r"], [chosen], attributes=["body"])])
    onnx.save(made, tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1, process.stderr
    assert "then_branch" in process.stdout
