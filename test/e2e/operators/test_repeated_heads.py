"""Heads of keys and values that serve several heads of queries, as in Llama,
are read in place without copies.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
from test_gpu import emulated

BATCH, TOKENS, HEADS, QUERIES, SIZE = 2, 64, 2, 8, 32
WIDTH = QUERIES * SIZE


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32) / 8


def make_model(repeat):
    """Returns projections of one input, and attention in which every head of
    keys serves four heads of queries. `repeat` writes the nodes that repeat a
    head four times."""
    values = {
        "wq": normal(WIDTH, WIDTH),
        "wk": normal(WIDTH, HEADS * SIZE),
        "wv": normal(WIDTH, HEADS * SIZE) + np.float32(0.01),
        "scale": np.float32(SIZE**-0.5),
        "mask": np.where(np.tri(TOKENS, dtype=bool), 0, -np.inf).astype(np.float32),
        "columns": np.array([BATCH, TOKENS, WIDTH]),
    }
    nodes = []

    def add(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], output, **attributes))

    for name, count in (("q", QUERIES), ("k", HEADS), ("v", HEADS)):
        values[name + "s"] = np.array([BATCH, TOKENS, count, SIZE])
        add("MatMul", ["x", "w" + name], name + "0")
        add("Reshape", [name + "0", name + "s"], name + "1")
        add("Transpose", [name + "1"], name, perm=[0, 2, 1, 3])
    for name in ("k", "v"):
        repeat(add, values, name)
    add("Transpose", ["k_all"], "kt", perm=[0, 1, 3, 2])
    add("MatMul", ["q", "kt"], "s0")
    add("Mul", ["s0", "scale"], "s1")
    add("Add", ["s1", "mask"], "s2")
    add("Softmax", ["s2"], "p", axis=-1)
    add("MatMul", ["p", "v_all"], "o0")
    add("Transpose", ["o0"], "o1", perm=[0, 2, 1, 3])
    add("Reshape", ["o1", "columns"], "y")
    shape = [BATCH, TOKENS, WIDTH]
    return mpctest.make_model(
        nodes, {"x": (np.float32, shape)}, {"y": (np.float32, shape)}, values
    )


def by_expand(add, values, name):
    """Follows the exports of Hugging Face's repeat_kv and
    torch.repeat_interleave."""
    values[name + "_axis"] = np.array([2])
    values[name + "_copies"] = np.array([1, 1, QUERIES // HEADS, 1, 1])
    values[name + "_shape"] = np.array([BATCH, QUERIES, TOKENS, SIZE])
    add("Unsqueeze", [name, name + "_axis"], name + "_5")
    add("Expand", [name + "_5", name + "_copies"], name + "_expanded")
    add("Reshape", [name + "_expanded", name + "_shape"], name + "_all")


def by_gather(add, values, name):
    values[name + "_heads"] = np.arange(QUERIES) // (QUERIES // HEADS)
    add("Gather", [name, name + "_heads"], name + "_all", axis=1)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "sapphirerapids"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_no_kernel_copies_heads(precision, target, tmp_path):
    onnx.save(make_model(by_expand), tmp_path / "model.onnx")
    plan = mpctest.mpc_ok(
        *("compile", tmp_path / "model.onnx", "-o", "-", "--emit=plan"),
        *("--loss", "mse", "--precision", precision, "--target", target),
    ).stdout
    assert "plan.matmul" in plan
    assert "mpc.expand" not in plan


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_90"])
def test_kernels_of_our_own_multiply_heads_where_they_are(target, tmp_path):
    onnx.save(make_model(by_expand), tmp_path / "model.onnx")
    plan = mpctest.mpc_ok(
        *("compile", tmp_path / "model.onnx", "-o", "-", "--emit=plan"),
        *("--loss", "mse", "--precision", "bf16-mixed", "--target", target),
        *("--contractions", "generated"),
    ).stdout
    kinds = re.findall(r"mpc.kernel = #mpc.kernel<(\w+)>", plan)
    assert "contraction" in kinds
    assert "movement" not in kinds


@pytest.mark.parametrize("contractions", ["table", "generated"])
@pytest.mark.parametrize(
    "precision,tolerance", [("64-true", 1e-12), ("32-true", 1e-5), ("bf16-mixed", 0.02)]
)
def test_the_same_is_learnt(precision, tolerance, contractions, tmp_path):
    x = normal(BATCH, TOKENS, WIDTH) * 8
    data = {"x": x, "target": np.tanh(x[:, ::-1])}
    flags = ("--loss", "mse", "--optimizer", "sgd", "--lr", 1, "--epochs", 4)
    flags += ("--batch-size", BATCH, "--precision", precision)
    flags += ("--contractions", contractions)
    found, expected = (
        mpctest.train(make_model(repeat), data, tmp_path, *flags)
        for repeat in (by_expand, by_gather)
    )
    losses = mpctest.losses(found[0])
    assert losses[-1] < 0.99 * losses[0]
    np.testing.assert_allclose(losses, mpctest.losses(expected[0]), rtol=tolerance)
    for name in ("wq", "wk", "wv"):
        np.testing.assert_allclose(
            found[1][name], expected[1][name], rtol=0, atol=tolerance
        )
        assert not np.allclose(found[1][name], make_weights()[name])


def test_tensor_cores_multiply_heads_where_they_are(tmp_path):
    """Compares an emulated GPU with float64 on a CPU."""
    x = normal(BATCH, TOKENS, WIDTH) * 8
    data = {"x": x, "target": np.tanh(x[:, ::-1])}
    flags = ("--loss", "mse", "--optimizer", "sgd", "--lr", 1, "--epochs", 3)
    flags += ("--batch-size", BATCH, "--contractions", "generated")
    gpu = ("--device", "cuda", "--target", "sm_80", "--precision", "bf16-mixed")
    model = make_model(by_expand)
    exact, _ = mpctest.train(model, data, tmp_path, *flags, "--precision", "64-true")
    found, _ = mpctest.train(
        *(model, data, tmp_path, *flags, *gpu), env=emulated("sm_80", tmp_path)
    )
    np.testing.assert_allclose(
        mpctest.losses(found), mpctest.losses(exact), rtol=0.02
    )


def make_weights():
    model = make_model(by_expand)
    return {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
    }
