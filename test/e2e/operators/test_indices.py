"""Gathers and scatters handle edge cases: no elements, computed indices, sums
in 16 bits.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest


def one_node(op, inputs, output, **attributes):
    """Returns a model of one node, with inputs of the given types and shapes."""
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
    """A sum in float16 would stop at 2048."""
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


def fail(model, feeds, folder, *flags):
    """Returns the message of a run that finds an index out of range."""
    onnx.save(model, folder / "model.onnx")
    for name, array in feeds.items():
        np.save(folder / f"{name}.npy", array)
        flags += ("--input", f"{name}=@{folder}/{name}.npy")
    process = mpctest.mpc("run", folder / "model.onnx", *flags, *mpctest.TARGET)
    assert process.returncode == 3, process.stderr
    return process.stderr


TABLE = np.arange(1, 21, dtype=np.float32).reshape(4, 5)


def make_lookup(nodes, constants, shape):
    """Returns a model that looks up rows of TABLE by ids. `nodes` compute the
    ids from the input `i`."""
    look = helper.make_node("Gather", ["table", "ids"], ["y"], "look up")
    return mpctest.make_model(
        [*nodes, look],
        {"i": (np.int64, shape)},
        {"y": (np.float32, None)},
        {"table": TABLE, **constants},
    )


COMPUTED = {
    "sum": (
        [helper.make_node("Add", ["i", "c"], ["ids"])],
        {"c": np.int64(1)},
        ([0, 3, 1, 9], 1, 4),
    ),
    "cast": (
        [
            helper.make_node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Cast", ["f"], ["ids"], to=onnx.TensorProto.INT64),
        ],
        {},
        ([3, -4, 0, -5], 3, -5),
    ),
    "where": (
        [
            helper.make_node("Less", ["i", "c"], ["is_small"]),
            helper.make_node("Where", ["is_small", "i", "c"], ["ids"]),
        ],
        {"c": np.int64(4)},
        ([3, 1, 5, 6], 2, 4),
    ),
    "every other": (
        [helper.make_node("Slice", ["i", "from", "to", "axis", "by"], ["ids"])],
        {
            "from": np.int64([1]),
            "to": np.int64([4]),
            "axis": np.int64([0]),
            "by": np.int64([2]),
        },
        ([7, 3, 8, 5], 1, 5),
    ),
}


@pytest.mark.parametrize("case", COMPUTED)
def test_refuses_indices_that_are_computed(case, tmp_path):
    nodes, constants, (feed, element, index) = COMPUTED[case]
    model = make_lookup(nodes, constants, (4,))
    message = fail(model, {"i": np.int64(feed)}, tmp_path)
    found = f"element {element}: index {index} is not in [-4, 4)"
    assert f"'look up': {found}" in message


def test_takes_indices_that_are_computed(tmp_path):
    nodes, constants, _ = COMPUTED["sum"]
    model = make_lookup(nodes, constants, (4,))
    y = mpctest.run(model, {"i": np.int64([-5, 2, -2, -1])}, tmp_path)["y"]
    np.testing.assert_array_equal(y, TABLE[[0, 3, 3, 0]])


@pytest.mark.parametrize(
    "feed, element, index, size",
    [
        ([[1, 0], [0, 1], [-1, -1], [1, 2]], 3, 6, 5),
        ([[1, 0], [2, 1], [-1, -1], [1, 1]], 2, 6, 4),
    ],
)
def test_refuses_tuples_that_are_computed(feed, element, index, size, tmp_path):
    """Each index of a tuple is checked against its own axis."""
    nodes = [
        helper.make_node("Mul", ["indices", "three"], ["tuples"], "scale"),
        helper.make_node("GatherND", ["table", "tuples"], ["y"], "gather"),
    ]
    model = mpctest.make_model(
        nodes,
        {"indices": (np.int64, (4, 2))},
        {"y": (np.float32, (4,))},
        {"three": np.int64(3), "table": TABLE},
    )
    message = fail(model, {"indices": np.int64(feed)}, tmp_path)
    place = 2 * element + 1 if size == 5 else 2
    found = f"element {place}: index {index} is not in [-{size}, {size})"
    assert f"'gather': {found}" in message


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_refuses_computed_places_of_updates(op, tmp_path):
    shape = {"ScatterElements": (2, 5), "ScatterND": (2, 1)}[op]
    model = mpctest.make_model(
        [
            helper.make_node("Add", ["i", "one"], ["places"], "add"),
            helper.make_node(op, ["x", "places", "u"], ["y"], "put"),
        ],
        {"x": (np.float32, (4, 5)), "u": (np.float32, (2, 5)), "i": (np.int64, shape)},
        {"y": (np.float32, (4, 5))},
        {"one": np.int64(1)},
        opset=18,
    )
    places = np.zeros(shape, np.int64)
    places[1, 0] = 3
    feeds = {"x": TABLE, "u": TABLE[:2], "i": places}
    message = fail(model, feeds, tmp_path)
    assert f"'put': element {shape[1]}: index 4 is not in [-4, 4)" in message


def make_branches():
    """Returns a model that looks up `i` + 1 if the first of `i` is above 0, and
    gives zeros otherwise."""
    def info(name):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (2, 5))

    look = [
        helper.make_node("Add", ["i", "one"], ["ids"], "add"),
        helper.make_node("Gather", ["table", "ids"], ["row"], "look up"),
    ]
    then = helper.make_graph(look, "then", [], [info("row")])
    rest = helper.make_node("Identity", ["zeros"], ["none"], "rest")
    otherwise = helper.make_graph([rest], "else", [], [info("none")])
    nodes = [
        helper.make_node("Gather", ["i", "zero"], ["first"], "first"),
        helper.make_node("Greater", ["first", "zero"], ["is_any"], "any"),
        helper.make_node(
            "If", ["is_any"], ["y"], "if", then_branch=then, else_branch=otherwise
        ),
    ]
    return mpctest.make_model(
        nodes,
        {"i": (np.int64, (2,))},
        {"y": (np.float32, (2, 5))},
        {
            "zero": np.int64(0),
            "one": np.int64(1),
            "table": TABLE,
            "zeros": np.zeros((2, 5), np.float32),
        },
    )


def test_refuses_indices_of_a_branch_where_it_is_taken(tmp_path):
    message = fail(make_branches(), {"i": np.int64([1, 7])}, tmp_path)
    assert "'look up': element 1: index 8 is not in [-4, 4)" in message
    y = mpctest.run(make_branches(), {"i": np.int64([0, 7])}, tmp_path)["y"]
    np.testing.assert_array_equal(y, np.zeros((2, 5)))


@pytest.mark.parametrize("computed", [False, True])
def test_refuses_indices_of_an_iteration(computed, tmp_path):
    """The loop's indices are slices of an input, or are computed from the
    previous iteration."""

    def info(name, shape, element=onnx.TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, element, shape)

    integer = onnx.TensorProto.INT64
    body = helper.make_graph(
        [
            helper.make_node("Add", ["last", "i"], ["id"], "count"),
            helper.make_node(
                "Gather", ["table", "id" if computed else "i"], ["row"], "look up"
            ),
        ],
        "body",
        [info("last", (), integer), info("i", (), integer)],
        [info("id", (), integer), info("row", (5,))],
    )
    scan = helper.make_node(
        *("Scan", ["start", "ids"], ["end", "y"], "scan"),
        body=body,
        num_scan_inputs=1,
    )
    model = mpctest.make_model(
        [scan],
        {"start": (np.int64, ()), "ids": (np.int64, (3,))},
        {"end": (np.int64, ()), "y": (np.float32, (3, 5))},
        {"table": TABLE},
    )
    ids = np.int64([2, 0, 1])
    feeds = {"start": np.int64(0), "ids": ids}
    y = mpctest.run(model, feeds, tmp_path)["y"]
    np.testing.assert_array_equal(y, TABLE[ids.cumsum() if computed else ids])
    bad = np.int64([2, 0, 2] if computed else [2, 0, 4])
    message = fail(model, feeds | {"ids": bad}, tmp_path)
    assert (
        "'look up': element 0: index 4 is not in [-4, 4)" in message
        if computed
        else "ids.npy: ids[2]: index 4 is not in [-4,4)" in message
    )


@pytest.mark.parametrize("op", ["Add", "Reshape", None])
@pytest.mark.parametrize("label", [4, -2])
def test_refuses_labels_of_no_class(op, label, tmp_path):
    """The labels are computed, an input, or a reshaped input. The ignored label
    is valid. A negative label does not count from the end."""
    nodes = [
        helper.make_node(
            *("SoftmaxCrossEntropyLoss", ["x", "labels" if op else "l"], ["y"], "loss"),
            ignore_index=-9,
        ),
    ]
    if op:
        nodes.insert(0, helper.make_node(op, ["l", op], ["labels"], "move"))
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, (3, 4)), "l": (np.int64, (3,))},
        {"y": (np.float32, ())},
        {"Add": np.int64(1), "Reshape": np.int64([-1])},
    )
    moved = 1 if op == "Add" else 0
    feeds = {"x": np.zeros((3, 4), np.float32), "l": np.int64([3, -9, 0]) - moved}
    y = mpctest.run(model, feeds, tmp_path)["y"]
    np.testing.assert_allclose(y, np.log(4), rtol=1e-6)
    message = fail(model, feeds | {"l": np.int64([3, -9, label]) - moved}, tmp_path)
    found, ignored = f"label {label} is not in", "and not the ignored -9"
    assert (
        f"'loss': element 2: {found} [0, 4) {ignored}" in message
        if op == "Add"
        else f"l.npy: l[2]: {found} [0,4) {ignored}" in message
    )


def test_refuses_indices_that_a_step_of_training_computes(tmp_path):
    """Before the first step, mpc cannot check these ids: the step computes
    them."""
    model = mpctest.make_model(
        [
            helper.make_node("Add", ["i", "one"], ["ids"], "add"),
            helper.make_node("Gather", ["table", "ids"], ["y"], "embed"),
        ],
        {"i": (np.int64, ("N",))},
        {"y": (np.float32, ("N", 5))},
        {"one": np.int64(1), "table": TABLE},
    )
    onnx.save(model, tmp_path / "model.onnx")
    ids = np.int64([0, 1, 2, -4, -5, 2, 4, 0])
    np.savez(tmp_path / "data.npz", i=ids, target=np.zeros((8, 5), np.float32))
    process = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *("--loss", "mse", "--optimizer", "sgd", "--lr", 0.1, "--batch-size", 4),
        *("--no-shuffle", "--output", tmp_path / "trained.onnx"),
        *mpctest.TARGET,
    )
    assert process.returncode == 3
    assert "'embed': element 2: index 5 is not in [-4, 4)" in process.stderr
    assert not (tmp_path / "trained.onnx").exists()


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_starts_from_what_its_updates_are_computed_from(op, tmp_path):
    """The writing kernel fuses the computation of updates, but not that of the
    data."""
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
    """Returns two columns of ids, of a table of 2 rows and of a table of 50
    rows."""
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
    """An id of the large table may be out of range for the small one."""
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
    found = f"ids.npy: ids[{place[0]},{place[1]}]: index {index} is"
    assert f"{found} not in [-{size},{size})" in process.stderr


def test_indices_that_many_nodes_move_are_an_input_s(tmp_path):
    """The nodes form one long chain: the search for the source of indices must
    not recurse."""
    nodes, ids = [], "ids"
    for i in range(30000):
        nodes.append(helper.make_node("Concat", [ids, "more"], [f"c{i}"], axis=0))
        nodes.append(helper.make_node("Slice", [f"c{i}", "one", "all"], [f"s{i}"]))
        ids = f"s{i}"
    model = mpctest.make_model(
        [*nodes, helper.make_node("Gather", ["table", ids], ["y"], axis=0)],
        {"ids": (np.int64, (2,)), "more": (np.int64, (1,))},
        {"y": (np.float32, (2, 3))},
        {"table": TABLE, "one": np.int64([1]), "all": np.int64([3])},
    )
    onnx.save(model, tmp_path / "model.onnx")
    text = mpctest.mpc_ok(
        "compile", tmp_path / "model.onnx", "--emit=import", "-o", "-"
    ).stdout
    assert re.search(r"%arg1: [^{]*\{mpc.indices = [^]]*size = 4", text)
