"""Sequences of tensors are supported: import replaces them by tensors.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import TensorProto, helper

import mpctest

X = np.arange(12, dtype=np.float32).reshape(3, 4)
NUMBERS = {name: np.array(n) for name, n in (("one", 1), ("last", -1), ("three", 3))}


def model(nodes, outputs):
    nodes = [
        helper.make_node(op, inputs, [output], **attributes)
        for op, inputs, output, attributes in nodes
    ]
    outputs = {name: (np.float32, shape) for name, shape in outputs.items()}
    inputs = {"x": (np.float32, X.shape)}
    return mpctest.make_model(nodes, inputs, outputs, NUMBERS)


def test_tensors_are_taken_put_in_and_left_out(tmp_path):
    nodes = [
        ("SplitToSequence", ["x"], "columns", {"axis": 1}),
        ("SequenceAt", ["columns", "one"], "column", {}),
        ("SequenceErase", ["columns", "one"], "rest", {}),
        ("SequenceInsert", ["rest", "column"], "turned", {}),
        ("ConcatFromSequence", ["turned"], "y", {"axis": 1}),
    ]
    y = mpctest.run(model(nodes, {"y": (3, 4)}), {"x": X}, tmp_path)["y"]
    np.testing.assert_array_equal(y, X[:, [0, 2, 3, 1]])


def test_rows_become_an_axis(tmp_path):
    nodes = [
        ("SplitToSequence", ["x"], "rows", {"keepdims": 0}),
        ("ConcatFromSequence", ["rows"], "y", {"axis": -1, "new_axis": 1}),
    ]
    y = mpctest.run(model(nodes, {"y": (4, 3)}), {"x": X}, tmp_path)["y"]
    np.testing.assert_array_equal(y, X.T)


def test_the_last_of_a_new_sequence(tmp_path):
    nodes = [
        ("Neg", ["x"], "negative", {}),
        ("SequenceConstruct", ["x", "negative"], "both", {}),
        ("SequenceAt", ["both", "last"], "y", {}),
    ]
    y = mpctest.run(model(nodes, {"y": (3, 4)}), {"x": X}, tmp_path)["y"]
    np.testing.assert_array_equal(y, -X)


def test_a_loop_makes_a_sequence(tmp_path):
    """PyTorch's exporter writes EmbeddingBag this way: one row for each
    iteration."""
    make_node = helper.make_node
    body = helper.make_graph(
        [
            make_node("Gather", ["x", "number"], ["row"]),
            make_node("SequenceInsert", ["rows", "row"], ["more"]),
            make_node("Identity", ["condition"], ["goes_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info(
                "rows", TensorProto.FLOAT, None
            ),
        ],
        [
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info(
                "more", TensorProto.FLOAT, None
            ),
        ],
    )
    nodes = [
        ("SequenceEmpty", [], "none", {}),
        ("Loop", ["three", "", "none"], "all", {"body": body}),
        ("ConcatFromSequence", ["all"], "y", {"axis": 0}),
    ]
    y = mpctest.run(model(nodes, {"y": (12,)}), {"x": X}, tmp_path)["y"]
    np.testing.assert_array_equal(y, X.ravel())


@pytest.mark.parametrize(
    "nodes, message",
    [
        (
            [
                ("SequenceEmpty", [], "none", {}),
                ("SequenceAt", ["none", "one"], "y", {}),
            ],
            "position 1 is outside a sequence of 0",
        ),
        (
            [
                ("SequenceEmpty", [], "none", {}),
                ("ConcatFromSequence", ["none"], "y", {"axis": 0}),
            ],
            "expected a sequence of at least one tensor",
        ),
        (
            [
                ("SequenceConstruct", ["x"], "one_tensor", {}),
                ("Relu", ["one_tensor"], "y", {}),
            ],
            "value 'one_tensor' is a sequence of tensors, which Relu cannot",
        ),
        (
            [("SequenceAt", ["x", "one"], "y", {})],
            "input 'x' is no sequence whose tensors are known at import",
        ),
    ],
)
def test_what_cannot_be_is_said(nodes, message, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes, {"y": (3, 4)}).SerializeToString())
    process = mpctest.mpc("check", path)
    assert process.returncode == 1
    assert message in process.stdout
