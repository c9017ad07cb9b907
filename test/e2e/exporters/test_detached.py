"""Gradients stop where the program stops them: at x.detach() and at the padding
of an embedding. PyTorch's exporter writes x.detach() as an Identity or leaves
it out.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mpctest
from exported_program import FLAGS, SAMPLES, WIDTH, make_model, matrix
from exported_program import node, train


def check(path):
    flags = ("--loss", "mse", "--batch-size", 4)
    process = mpctest.mpc("check", path, *flags)
    assert process.returncode == 0, process.stdout
    return process.stdout + process.stderr


def stopped(read, call, op, optimized):
    """Returns a model in which x.detach() is an operand of the node `op`. If
    `optimized`, the node reads x itself, as after the exporter's optimizer."""
    nodes = [
        node("linear.default(%x, %p_a)", "Gemm", ["x", "a"], "h"),
        helper.make_node("Tanh", ["h"], ["t"]),
        node("linear.default(%t, %p_b)", "Gemm", ["t", "b"], "k"),
    ]
    if not optimized:
        nodes.append(node("detach.default(%t,)", "Identity", ["t"], "detach_1"))
    operands = ["t" if optimized and name == "detach_1" else name for name in read]
    nodes += [
        node(call, op, operands, "s"),
        node("linear.default(%s, %p_f)", "Gemm", ["s", "f"], "y"),
    ]
    weights = {"a": matrix(WIDTH, WIDTH), "b": matrix(WIDTH, WIDTH, 1)}
    return make_model(nodes, weights | {"f": matrix(WIDTH, 1)}, ["a", "b", "f"])


def follow_by_hand(x, target, minus):
    """Returns the losses by NumPy's gradients, for h - h.detach() and similar
    nodes. Only the branch through b passes a gradient to a."""
    a, b, f = matrix(WIDTH, WIDTH), matrix(WIDTH, WIDTH, 1), matrix(WIDTH, 1)
    a, b, f = (value.astype(np.float64) for value in (a, b, f))
    losses = []
    for start in range(0, len(x), 8):
        data = x[start : start + 8].astype(np.float64)
        t = np.tanh(data @ a)
        s = t @ b - t if minus else t @ b * t
        y = s @ f
        dy = 2 * (y - target[start : start + 8]) / y.size
        losses.append(((y - target[start : start + 8]) ** 2).mean())
        ds = dy @ f.T
        dk = ds if minus else ds * t
        dh = dk @ b.T * (1 - t * t)
        a, b, f = (
            w - 0.1 * g for w, g in ((a, data.T @ dh), (b, t.T @ dk), (f, s.T @ dy))
        )
    return losses


@pytest.mark.parametrize("optimized", (False, True))
@pytest.mark.parametrize(
    "call, op",
    (
        ("mul.Tensor(%k, %detach_1)", "Mul"),
        ("sub.Tensor(%k, %detach_1)", "Sub"),
        # A call for which mpc does not know the positions of operands.
        ("some_product.default(%k, %detach_1)", "Mul"),
    ),
)
def test_derivatives_stop_at_detached_values(call, op, optimized, tmp_path):
    model = stopped(["k", "detach_1"], call, op, optimized)
    losses, _ = train(model, tmp_path)
    random = np.random.default_rng(1)
    x = random.normal(0.5, 2, size=(SAMPLES, WIDTH)).astype(np.float32)
    target = np.abs(x).sum(1, keepdims=True)
    expected = follow_by_hand(x, target, op == "Sub")
    np.testing.assert_allclose(losses, expected, rtol=1e-9)


def test_trained_file_keeps_where_derivatives_stop(tmp_path):
    call = "mul.Tensor(%k, %detach_1)"
    train(stopped(["k", "detach_1"], call, "Mul", True), tmp_path)
    written = onnx.load(tmp_path / "trained.onnx")
    stops = [n for n in written.graph.node if n.op_type == "Identity"]
    assert [list(n.input) for n in stops] == [["t"]]


def test_stop_that_is_not_found_is_said(tmp_path):
    """Either operand may be the detached value."""
    call = "some_product.default(%u, %detach_1)"
    model = stopped(["k", "detach_1"], call, "Mul", True)
    onnx.save(model, tmp_path / "model.onnx")
    text = check(tmp_path / "model.onnx")
    assert "the program stops derivatives here by x.detach()" in text
    assert "optimize=False" in text


def embedded(padding):
    """Returns a model that reads rows of a table of 6 by ids. One row is
    padding."""
    call = f"embedding.default(%p_e, %ids{padding})"
    nodes = [
        node(call, "Gather", ["e", "ids"], "r"),
        helper.make_node("Tanh", ["r"], ["t"]),
        helper.make_node("ReduceMean", ["t", "axis"], ["m"], keepdims=0),
        node("linear.default(%m, %p_f)", "Gemm", ["m", "f"], "y"),
    ]
    model = make_model(nodes, {"e": matrix(6, WIDTH), "f": matrix(WIDTH, 1)}, "ef")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "axis"))
    del model.graph.input[:]
    model.graph.input.append(helper.make_tensor_value_info("ids", 7, ["N", 3]))
    return model


def train_embedded(model, folder):
    random = np.random.default_rng(3)
    ids = random.integers(0, 6, size=(SAMPLES, 3))
    target = random.normal(size=(SAMPLES, 1)).astype(np.float32)
    return mpctest.train(model, {"ids": ids, "target": target}, folder, *FLAGS)


def test_padding_of_an_embedding_is_not_trained(tmp_path):
    _, values = train_embedded(embedded(", 2"), tmp_path / "padded")
    _, all_trained = train_embedded(embedded(""), tmp_path / "whole")
    start = matrix(6, WIDTH)
    np.testing.assert_array_equal(values["e"][2], start[2])
    assert (values["e"] != start).any(1).tolist() == [True] * 2 + [False] + [True] * 3
    assert (all_trained["e"] != start).any(1).all()


def test_padding_that_is_looked_up_by_a_constant_is_not_trained(tmp_path):
    model = embedded(", 2")
    model.graph.initializer.append(numpy_helper.from_array(np.array(2), "two"))
    row = node("embedding.default(%p_e, %two, 2)", "Gather", ["e", "two"], "c")
    model.graph.node.insert(3, row)
    model.graph.node.insert(4, helper.make_node("Add", ["m", "c"], ["s"]))
    model.graph.node[5].input[0] = "s"
    _, values = train_embedded(model, tmp_path)
    changed = (values["e"] != matrix(6, WIDTH)).any(1)
    assert changed.tolist() == [True] * 2 + [False] + [True] * 3


def test_gradients_by_frequency_are_said_to_be_lost(tmp_path):
    model = embedded(", -1, True")
    model.producer_name = "pytorch"
    onnx.save(model, tmp_path / "model.onnx")
    assert "scale_grad_by_freq" in check(tmp_path / "model.onnx")


def test_row_of_zeros_of_the_older_exporter_is_padding(tmp_path):
    """The older exporter does not record nn.Embedding(padding_idx=1)."""
    model = embedded("")
    model.producer_name = "pytorch"
    del model.graph.metadata_props[:]
    del model.graph.value_info[:]
    for each in model.graph.node:
        del each.metadata_props[:]
    for zeros, is_padding in (((), False), ((1,), True), ((1, 2), False)):
        table = matrix(6, WIDTH)
        table[list(zeros)] = 0
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(table, "e"))
        onnx.save(model, tmp_path / "model.onnx")
        text = check(tmp_path / "model.onnx")
        said = "row 1 of 'e' is zeros, as nn.Embedding(padding_idx=1)" in text
        _, values = train_embedded(model, tmp_path / f"zeros{len(zeros)}")
        changed = (values["e"] != table).any(1)
        assert said == is_padding
        assert changed.tolist() == [True, not is_padding] + [True] * 4
