"""Gathers and scatters at their edges: no elements, indices that are computed,
sums in 16 bits.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest


def one_node(op, inputs, output, **attributes):
    """A model of one node on inputs of these types and shapes."""
    node = helper.make_node(op, list(inputs), ["y"], "node", **attributes)
    return mpctest.make_model([node], inputs, {"y": output}, {}, opset=18)


@pytest.mark.parametrize(
    "shape, axis, result",
    [((7, 17, 0), 2, (7, 17, 0)), ((0, 4), 0, (0, 4)), ((3, 0), 0, (0, 0))],
)
def test_gathers_nothing(shape, axis, result, tmp_path):
    model = one_node(
        "Gather",
        {"data": (np.float32, shape), "indices": (np.int64, (0,))},
        (np.float32, result),
        axis=axis,
    )
    feeds = {
        "data": np.zeros(shape, np.float32),
        "indices": np.zeros(0, np.int64),
    }
    assert mpctest.run(model, feeds, tmp_path)["y"].shape == result


def test_refuses_indices_of_an_axis_without_elements(tmp_path):
    model = one_node(
        "Gather",
        {"data": (np.float32, (0, 4)), "indices": (np.int64, (2,))},
        (np.float32, (2, 4)),
        axis=0,
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1
    assert "axis 0, which has no elements" in process.stdout + process.stderr


def test_adds_up_halves_in_single_precision(tmp_path):
    """Halves could not count beyond 2048."""
    count = 5000
    model = one_node(
        "ScatterElements",
        {
            "data": (np.float16, (4,)),
            "indices": (np.int64, (count,)),
            "updates": (np.float16, (count,)),
        },
        (np.float16, (4,)),
        reduction="add",
    )
    feeds = {
        "data": np.zeros(4, np.float16),
        "indices": np.ones(count, np.int64),
        "updates": np.ones(count, np.float16),
    }
    y = mpctest.run(model, feeds, tmp_path)["y"]
    np.testing.assert_array_equal(y, np.float16([0, count, 0, 0]))


def test_computed_indices_that_name_nothing_give_zeros(tmp_path):
    """Nothing outside of the table is read, and no other row instead."""
    nodes = [
        helper.make_node("Mul", ["indices", "three"], ["tuples"], "scale"),
        helper.make_node("GatherND", ["table", "tuples"], ["y"], "gather"),
    ]
    model = mpctest.make_model(
        nodes,
        {"indices": (np.int64, (4, 2))},
        {"y": (np.float32, (4,))},
        {
            "three": np.int64(3),
            "table": np.arange(1, 21, dtype=np.float32).reshape(4, 5),
        },
    )
    feeds = {"indices": np.array([[1, 0], [0, 2], [-1, -1], [2, 0]])}
    y = mpctest.run(model, feeds, tmp_path)["y"]
    # (3, 0), (0, 6) beyond the columns, (-3, -3), (6, 0) beyond the rows.
    np.testing.assert_array_equal(y, np.float32([16, 0, 8, 0]))


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_starts_from_what_its_updates_are_computed_from(op, tmp_path):
    """The kernel that writes takes in what computes updates, not the data."""
    indices = {"ScatterElements": (4, 5), "ScatterND": (4, 1)}[op]
    nodes = [
        helper.make_node("Abs", ["x"], ["data"], "data"),
        helper.make_node("Neg", ["data"], ["updates"], "updates"),
        helper.make_node(
            op, ["data", "indices", "updates"], ["y"], "scatter", reduction="add"
        ),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, (4, 5)), "indices": (np.int64, indices)},
        {"y": (np.float32, (4, 5))},
        {},
        opset=18,
    )
    feeds = {
        "x": np.arange(-10, 10, dtype=np.float32).reshape(4, 5),
        "indices": np.ones(indices, np.int64),
    }
    y = mpctest.run(model, feeds, tmp_path)["y"]
    expected = np.abs(feeds["x"])
    expected[1] -= expected.sum(0)
    np.testing.assert_array_equal(y, expected)


def make_columns():
    """Two columns of ids, of a table of 2 rows and of one of 50."""
    few, many = np.float32([10, 20]), np.arange(50, dtype=np.float32)
    nodes = [
        helper.make_node("Gather", ["ids", "zero"], ["i"], "first", axis=1),
        helper.make_node("Gather", ["ids", "one"], ["j"], "second", axis=1),
        helper.make_node("Gather", ["few", "i"], ["a"], "small"),
        helper.make_node("Gather", ["many", "j"], ["b"], "large"),
        helper.make_node("Add", ["a", "b"], ["y"], "sum"),
    ]
    model = mpctest.make_model(
        nodes,
        {"ids": (np.int64, (3, 2))},
        {"y": (np.float32, (3,))},
        {"few": few, "many": many, "zero": np.int64(0), "one": np.int64(1)},
    )
    return model, few, many


def test_takes_columns_of_ids_each_with_its_own_table(tmp_path):
    """A large table's ids are no ids of the small one beside them."""
    model, few, many = make_columns()
    ids = np.array([[0, 49], [1, 7], [-1, 2]])
    y = mpctest.run(model, {"ids": ids}, tmp_path)["y"]
    np.testing.assert_array_equal(y, few[ids[:, 0]] + many[ids[:, 1]])


@pytest.mark.parametrize(
    "place, index, size", [((1, 0), 2, 2), ((2, 1), 50, 50), ((0, 1), -51, 50)]
)
def test_refuses_an_id_of_a_column_that_its_table_has_not(
    place, index, size, tmp_path
):
    model, _, _ = make_columns()
    onnx.save(model, tmp_path / "model.onnx")
    ids = np.array([[0, 49], [1, 7], [-1, 2]])
    ids[place] = index
    np.save(tmp_path / "ids.npy", ids)
    process = mpctest.mpc(
        *("run", tmp_path / "model.onnx"),
        *("--input", f"ids=@{tmp_path}/ids.npy", *mpctest.TARGET),
    )
    assert process.returncode == 3
    element = place[0] * 2 + place[1]
    assert f"element {element}: index {index} is" in process.stderr
    assert f"not in [-{size}, {size})" in process.stderr
