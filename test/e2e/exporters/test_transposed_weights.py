"""Weights that PyTorch's exporter has transposed train as the program's own.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper

import mpctest
from exported_program import FLAGS, WIDTH, assert_trains_alike, make_model, matrix
from exported_program import node, train


def tied(read, extra, folded):
    """Returns a layer that is called twice, and a head with the layer's
    transposed weight."""
    first, second, head = read
    nodes = [
        node("linear.default(%x, %p_w)", "MatMul", ["x", first], "h"),
        helper.make_node("Tanh", ["h"], ["t"]),
        node("linear.default(%t, %p_w)", "MatMul", ["t", second], "k"),
        helper.make_node("Tanh", ["k"], ["u"]),
        node("matmul.default(%u, %p_w)", "MatMul", ["u", head], "y"),
    ]
    return make_model(nodes, {"w": matrix(WIDTH, WIDTH), **extra}, ["w"], folded)


def test_transpositions_of_a_parameter_are_trained_as_one(tmp_path):
    """The exporter computes one transposed weight for each product that reads
    it."""
    transposed = matrix(WIDTH, WIDTH).T
    several = tied(
        ("val_5", "val_7", "w"),
        {"val_5": transposed, "val_7": transposed},
        {"val_5": ["w"], "val_7": ["w"]},
    )
    one = tied(("wt", "wt", "w"), {}, {})
    one.graph.node.insert(0, helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]))
    values = assert_trains_alike(tmp_path, several, one, WIDTH)
    assert values.keys() == {"w"}


def test_transposition_of_the_program_s_own_is_tied(tmp_path):
    """Covers `u @ w.T`, where the exporter names the transposed weight as the
    program does."""
    several = tied(
        ("w", "w", "permute_2"),
        {"permute_2": matrix(WIDTH, WIDTH).T},
        {"permute_2": ["w"]},
    )
    one = tied(("w", "w", "wt"), {}, {})
    one.graph.node.insert(0, helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]))
    values = assert_trains_alike(tmp_path, several, one, WIDTH)
    assert values.keys() == {"w"}


def test_transpositions_without_the_parameter_are_trained_as_one(tmp_path):
    transposed = matrix(WIDTH, WIDTH).T
    several = tied(
        ("val_5", "val_7", "head"),
        {"val_5": transposed, "val_7": transposed, "head": matrix(WIDTH, WIDTH, 3)},
        {"val_5": ["v"], "val_7": ["v"]},
    )
    one = tied(
        ("v", "v", "head"), {"v": transposed, "head": matrix(WIDTH, WIDTH, 3)}, {}
    )
    assert_trains_alike(tmp_path, several, one, WIDTH)


def linear(weights, folded, parameters=("a.weight", "b.weight")):
    """Returns two linear layers for which the exporter stored transposed
    weights."""
    nodes = [
        node("linear.default(%x, %p_a_weight)", "MatMul", ["x", "val_1"], "h"),
        helper.make_node("Tanh", ["h"], ["t"]),
        node("linear.default(%t, %p_b_weight)", "Gemm", ["t", "val_2"], "y"),
    ]
    return make_model(nodes, weights, parameters, folded)


def make_linear():
    weights = {"val_1": matrix(WIDTH, 5), "val_2": matrix(5, 2)}
    return linear(weights, {"val_1": ["a.weight"], "val_2": ["b.weight"]}), weights


def test_transposed_weights_have_the_name_and_layout_of_the_program(tmp_path):
    model, weights = make_linear()
    same, values = linear(weights, {}), {}
    losses, values = train(model, tmp_path / "restored", 2)
    expected, numbered = train(same, tmp_path / "numbered", 2)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    assert values.keys() == {"a.weight", "b.weight"}
    np.testing.assert_allclose(values["a.weight"].T, numbered["val_1"], rtol=1e-6)
    np.testing.assert_allclose(values["b.weight"].T, numbered["val_2"], rtol=1e-6)


def test_transposed_weights_in_a_file_of_their_own(tmp_path):
    """Weights that are not trained are also written under their names in the
    program."""
    model, weights = make_linear()
    onnx.save(
        *(model, tmp_path / "model.onnx"),
        save_as_external_data=True,
        location="model.data",
        size_threshold=0,
    )
    x = np.random.default_rng(1).normal(size=(8, WIDTH)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, target=np.zeros((8, 2), np.float32))
    mpctest.mpc_ok(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *(*FLAGS, "--freeze", "b.weight", "--max-steps", 1),
        *("--output", tmp_path / "trained.onnx"),
    )
    written = onnx.load(tmp_path / "trained.onnx")
    onnx.checker.check_model(written, full_check=True)
    values = {t.name: numpy_helper.to_array(t) for t in written.graph.initializer}
    np.testing.assert_array_equal(values["b.weight"], weights["val_2"].T)
    assert values["a.weight"].shape == (5, WIDTH)
    assert not np.array_equal(values["a.weight"], weights["val_1"].T)
    y = mpctest.run(written, {"x": x}, tmp_path)["y"]
    expected = np.tanh(x @ values["a.weight"].T) @ values["b.weight"].T
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_weights_that_are_no_transposition_keep_their_number(tmp_path):
    """Weights keep their numbered names if the program's call reads another
    parameter, if its product transposes, or if the name is taken."""
    weights = {"val_1": matrix(WIDTH, 5), "val_2": matrix(5, 2)}
    model = linear(weights, {"val_1": ["b.weight"], "val_2": ["h"]}, ["a.weight", "h"])
    _, values = train(model, tmp_path, 2)
    assert values.keys() == {"val_1", "val_2"}


def test_transposition_that_was_changed_since_is_left(tmp_path):
    changed = tied(
        ("val_5", "val_5", "w"),
        {"val_5": matrix(WIDTH, WIDTH, 5)},
        {"val_5": ["w"]},
    )
    _, values = train(changed, tmp_path, WIDTH)
    assert values.keys() == {"w", "val_5"}
