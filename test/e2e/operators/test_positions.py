"""PyTorch's exporter replaces tables of positions by values computed from them.
mpc trains such a value where that is equal to training the parameter.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from test_detached import check
from exported_program import WIDTH, assert_trains_alike, make_model, matrix
from exported_program import node, train


def positioned(table, folded=None, parameters=("p", "f")):
    """Returns a model that adds a table of positions to data."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        node("add.Tensor(%square, %table)", "Add", ["square", table], "s"),
        helper.make_node("Tanh", ["s"], ["t"]),
        node("linear.default(%t, %p_f)", "Gemm", ["t", "f"], "y"),
    ]
    weights = {table: matrix(1, WIDTH, 4)[0], "f": matrix(WIDTH, 1)}
    return make_model(nodes, weights, parameters, folded)


def test_slice_of_a_table_that_the_exporter_computed_is_trained(tmp_path):
    folded = {"slice_1": ["p", "arange", "val_1"]}
    values = assert_trains_alike(
        tmp_path,
        positioned("slice_1", folded),
        positioned("p"),
    )
    assert not np.array_equal(values["slice_1"], matrix(1, WIDTH, 4)[0])


@pytest.mark.parametrize(
    "name, sources",
    # Sources that are not slices: arithmetic, a buffer, and arithmetic on the
    # way.
    (("exp", ["p"]), ("slice_1", ["b"]), ("slice_1", ["exp_1", "p"])),
)
def test_what_is_no_slice_of_a_parameter_is_no_parameter(name, sources, tmp_path):
    _, values = train(positioned(name, {name: sources}), tmp_path)
    assert name not in values or np.array_equal(values[name], matrix(1, WIDTH, 4)[0])


def add_buffer(model, name):
    """Adds a buffer `name` to the program's metadata."""
    entry = model.graph.metadata_props[0]
    line = f"# inputs\nb_{name}: BUFFER target='{name}'"
    entry.value = entry.value.replace("# inputs", line)


def test_a_buffer_beside_a_parameter_is_none(tmp_path):
    """The value joins a parameter and a buffer (cat) and stays constant."""
    model = positioned("cat", {"cat": ["p", "waves"]})
    add_buffer(model, "waves")
    _, values = train(model, tmp_path)
    assert "cat" not in values or np.array_equal(values["cat"], matrix(1, WIDTH, 4)[0])


def repeated(values, index):
    """Returns a model that reads `values` of a table at `index`, as the
    exporter writes them."""
    model = positioned("view", {"view": ["p", "apart", "embedding"]})
    add_buffer(model, "apart")
    read = np.asarray(values, np.float32)[index]
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(read, "view"))
    return model


def test_elements_that_are_written_several_times_are_trained_as_one(tmp_path):
    """Relative positions repeat elements this way."""
    values, index = [1.3, -2.7], np.array([0, 1, 1, 0])
    looked_up = positioned("p")
    table = numpy_helper.from_array(np.float32(values), "p")
    looked_up.graph.initializer[0].CopyFrom(table)
    looked_up.graph.initializer.append(numpy_helper.from_array(index, "index"))
    looked_up.graph.node.insert(0, helper.make_node("Gather", ["p", "index"], ["r"]))
    for each in looked_up.graph.node:
        each.input[:] = ["r" if n == "p" and each.op_type == "Add" else n for n in each.input]
    trained = assert_trains_alike(tmp_path, repeated(values, index), looked_up)
    assert trained["view_elements"].shape == (2,)


def test_elements_of_half_precision_agree_by_chance(tmp_path):
    """In a table that was bfloat16, elements may be equal by chance."""
    _, values = train(repeated([1.5, -2.5], np.array([0, 1, 1, 0])), tmp_path)
    assert not any(name.endswith("_elements") for name in values)


def test_a_slice_has_each_element_once(tmp_path):
    """Elements of a slice stay separate even if some are equal."""
    table = np.float32([1.3, -2.7, -2.7, 1.3])
    models = positioned("slice_1", {"slice_1": ["p", "val_1"]}), positioned("p")
    for model, name in zip(models, ("slice_1", "p")):
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(table, name))
    values = assert_trains_alike(tmp_path, *models)
    assert len(set(values["slice_1"].tolist())) == 4


@pytest.mark.parametrize("axis", (0, 1))
def test_rows_that_are_written_several_times_are_trained_as_one(axis, tmp_path):
    """The table has too many elements to tell them apart one by one. Rows still
    differ."""
    random = np.random.default_rng(5)
    table = random.normal(0, 0.3, size=(300, WIDTH)).astype(np.float32)
    index = random.integers(0, 300, 700)

    def make(read_in_advance):
        nodes = [
            helper.make_node("MatMul", ["x", "places" if axis else "turned"], ["s"]),
            helper.make_node("Tanh", ["s"], ["t"]),
            node("linear.default(%t, %p_f)", "Gemm", ["t", "f"], "y"),
        ]
        read = table[index].T if axis else table[index]
        weights = {"f": matrix(700, 1) * 0.1}
        name = "permute" if axis else "embedding"
        if not axis:
            turn = helper.make_node("Transpose", ["embedding"], ["turned"], perm=[1, 0])
            nodes.insert(0, turn)
        if read_in_advance:
            weights[name] = read
        else:
            weights["p"] = table
            nodes[:0] = [helper.make_node("Gather", ["p", "index"], ["rows"])]
            turn = "Transpose" if axis else "Identity"
            nodes.insert(1, helper.make_node(turn, ["rows"], [name]))
        if axis:
            nodes.insert(-3, helper.make_node("Identity", ["permute"], ["places"]))
        folded = {name: ["p", "embedding", "val_1"]} if read_in_advance else None
        model = make_model(nodes, weights, ("p", "f"), folded)
        if not read_in_advance:
            model.graph.initializer.append(numpy_helper.from_array(index, "index"))
        return model

    trained = assert_trains_alike(tmp_path, make(True), make(False))
    assert any(v.size == len(set(index)) * WIDTH for v in trained.values())


def test_repeats_of_what_starts_as_ones_are_said_to_be_lost(tmp_path):
    """Equal elements do not show which positions shared an element."""
    onnx.save(repeated([1, 2.5], np.array([0, 1, 1, 0])), tmp_path / "model.onnx")
    assert "parameter 'view' is a result that" in check(tmp_path / "model.onnx")
