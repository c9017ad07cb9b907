"""Values that kernels recompute have the bits of stored values.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
import random_graphs

PRECISIONS = ["32-true", "64-true", "bf16-mixed", "16-mixed"]
FIRST, END = map(int, os.environ.get("MPC_RANDOM_GRAPHS", "0:8").split(":"))
BATCH, WIDTH, HIDDEN = 32, 64, 96
FLAGS = ["--loss", "softmax_cross_entropy", "--optimizer", "adamw"]


class Builder:
    """Appends nodes. Each method returns the name of its result."""

    def __init__(self):
        self.random = np.random.default_rng(0)
        self.nodes, self.values = [], {}

    def add(self, op, *inputs, **attributes):
        name = f"{op}{len(self.nodes)}"
        inputs = [i if isinstance(i, str) else self.keep(i) for i in inputs]
        node = helper.make_node(op, inputs, [name], name, **attributes)
        self.nodes.append(node)
        return name

    def keep(self, value):
        name = f"w{len(self.values)}"
        self.values[name] = np.asarray(value, np.float32)
        return name

    def dense(self, x, inputs, outputs):
        weight = self.random.normal(size=(inputs, outputs)) / inputs**0.5
        bias = self.random.normal(size=outputs)
        return self.add("Gemm", x, weight, bias)

    def model(self, x):
        logits = self.dense(x, HIDDEN, 10)
        return mpctest.make_model(
            self.nodes,
            {"x": (np.float32, (BATCH, WIDTH))},
            {logits: (np.float32, (BATCH, 10))},
            self.values,
        )


def gelu_erf(b, x):
    erf = b.add("Erf", b.add("Div", x, 2**0.5))
    return b.add("Mul", b.add("Mul", x, b.add("Add", erf, 1.0)), 0.5)


def gelu_tanh(b, x):
    cube = b.add("Mul", b.add("Mul", x, x), x)
    sum = b.add("Add", x, b.add("Mul", cube, 0.044715))
    tanh = b.add("Tanh", b.add("Mul", sum, 0.79788456))
    return b.add("Mul", b.add("Mul", x, 0.5), b.add("Add", tanh, 1.0))


def layer_norm(b, x):
    mean = b.add("ReduceMean", x, axes=[-1])
    centred = b.add("Sub", x, mean)
    variance = b.add("ReduceMean", b.add("Mul", centred, centred), axes=[-1])
    deviation = b.add("Sqrt", b.add("Add", variance, 1e-5))
    scale = b.random.uniform(0.5, 2, size=HIDDEN)
    return b.add("Mul", b.add("Div", centred, deviation), scale)


def swish(b, x):
    return b.add("Mul", x, b.add("Sigmoid", x))


def make(layer):
    """Returns a model with the layer twice, once after a bias and once without
    one."""
    b = Builder()
    x = layer(b, b.dense("x", WIDTH, HIDDEN))
    weight = b.random.normal(size=(HIDDEN, HIDDEN)) / HIDDEN**0.5
    return b.model(layer(b, b.add("MatMul", x, weight)))


LAYERS = [gelu_erf, gelu_tanh, layer_norm, swish]
# An op recognised as a whole has no inner values to store.
SPELT_OUT = ("--no-recognize", "all")


def trained(folder, name, precision, *flags):
    output, metrics = folder / f"{name}.onnx", folder / f"{name}.jsonl"
    mpctest.mpc_ok(
        *("train", folder / "model.onnx", "--data", folder / "data.npz"),
        *(*FLAGS, "--lr", "0.01", "--epochs", "1", "--no-shuffle"),
        *("--precision", precision, "--metrics", metrics),
        *("--output", output, *SPELT_OUT, *flags),
    )
    return mpctest.losses(mpctest.read_metrics(metrics)), output.read_bytes()


def check_bits(folder, precision):
    again = trained(folder, "again", precision)
    kept = trained(folder, "kept", precision, "--no-recompute")
    assert np.isfinite(again[0]).all()
    assert again[0] == kept[0], "other losses"
    assert again[1] == kept[1], "other weights"


def arena_of(model, *flags):
    plan = mpctest.mpc_ok(
        *("compile", model, *FLAGS, "--target", "x86-64-v3"),
        *("--emit=plan", "-o", "-", *SPELT_OUT, *flags),
    ).stdout
    return int(re.search(r"@step attributes {arena_bytes = (\d+)", plan)[1])


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_trains_to_the_same_bits(layer, precision, tmp_path):
    random = np.random.default_rng(1)
    onnx.save(make(layer), tmp_path / "model.onnx")
    np.savez(
        tmp_path / "data.npz",
        x=random.normal(size=(8 * BATCH, WIDTH)).astype(np.float32),
        target=random.integers(0, 10, size=8 * BATCH),
    )
    check_bits(tmp_path, precision)


@pytest.mark.parametrize("seed", range(FIRST, END))
def test_random_models_train_to_the_same_bits(seed, tmp_path, monkeypatch):
    # At the default batch size, values stay in cache and are not recomputed.
    monkeypatch.setattr(random_graphs, "BATCH", 128)
    makers = [random_graphs.dense_model, random_graphs.convolutional_model]
    model = makers[seed % 2](seed)
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **random_graphs.data_for(model, 3))
    check_bits(tmp_path, PRECISIONS[seed // 2 % len(PRECISIONS)])


@pytest.mark.parametrize("layer", LAYERS)
def test_takes_less_memory(layer, tmp_path):
    """Shows that the tests above compare two different plans."""
    path = tmp_path / "model.onnx"
    onnx.save(make(layer), path)
    assert arena_of(path) < arena_of(path, "--no-recompute")


# With so many tokens, scores of two samples do not fit in memory together.
TOKENS, HEADS, SIZE = 520, 2, 8


def attention(heads_of_keys, bias_shape, samples=4, tokens=TOKENS):
    """Returns causal attention, with a bias of the scores and dropout."""
    b = Builder()

    def project(heads, perm):
        weight = b.random.normal(size=(WIDTH, heads * SIZE)) / WIDTH**0.5
        x = b.add("MatMul", "x", weight)
        shape = np.array([0, 0, heads, SIZE])
        b.values["shape%d" % heads] = shape
        return b.add(
            "Transpose", b.add("Reshape", x, "shape%d" % heads), perm=perm
        )

    query = project(HEADS, [0, 2, 1, 3])
    key = project(heads_of_keys, [0, 2, 3, 1])
    value = project(heads_of_keys, [0, 2, 1, 3])
    scores = b.add("Mul", b.add("MatMul", query, key), SIZE**-0.5)
    scores = b.add("Add", scores, b.random.normal(size=bias_shape))
    unseen = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
    weights = b.add("Softmax", b.add("Add", scores, unseen), axis=-1)
    mixed = b.add("MatMul", b.add("Dropout", weights), value)
    joined = b.add("Transpose", mixed, perm=[0, 2, 1, 3])
    b.values["joined"] = np.array([0, 0, HEADS * SIZE])
    last = b.add("ReduceMean", b.add("Reshape", joined, "joined"), axes=[1])
    b.values["flat"] = np.array([0, HEADS * SIZE])
    logits = b.dense(b.add("Reshape", last, "flat"), HEADS * SIZE, 10)
    return mpctest.make_model(
        b.nodes,
        {"x": (np.float32, (samples, tokens, WIDTH))},
        {logits: (np.float32, (samples, 10))},
        b.values,
    )


ATTENTIONS = [
    attention(HEADS, (TOKENS, TOKENS)),
    attention(1, (1, HEADS, TOKENS, 1)),
]


@pytest.mark.parametrize("index", range(len(ATTENTIONS)))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_attention_in_parts_trains_to_the_same_bits(index, precision, tmp_path):
    random = np.random.default_rng(1)
    onnx.save(ATTENTIONS[index], tmp_path / "model.onnx")
    np.savez(
        tmp_path / "data.npz",
        x=random.normal(size=(8, TOKENS, WIDTH)).astype(np.float32),
        target=random.integers(0, 10, size=8),
    )
    check_bits(tmp_path, precision)


LONG = {"samples": 2, "tokens": 1040}
# Relative bounds on the difference to losses from whole sums.
TOLERANCES = {"64-true": 1e-14, "32-true": 1e-6, "bf16-mixed": 2e-3, "16-mixed": 2e-4}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_rows_of_a_long_attention_are_in_memory_for_themselves(
    precision, tmp_path
):
    """Each sample's scores are larger than a part. Gradients of keys and values
    are added up over parts, in another order than in a whole product."""
    random = np.random.default_rng(1)
    path = tmp_path / "model.onnx"
    onnx.save(attention(HEADS, (1, HEADS, 1040, 1), **LONG), path)
    np.savez(
        tmp_path / "data.npz",
        x=random.normal(size=(8, 1040, WIDTH)).astype(np.float32),
        target=random.integers(0, 10, size=8),
    )
    parts = trained(tmp_path, "parts", precision)
    whole = trained(tmp_path, "whole", precision, "--no-recompute")
    np.testing.assert_allclose(parts[0], whole[0], rtol=TOLERANCES[precision])
    # The written weights are float32 and hide other roundings of float64.
    assert (parts[1] != whole[1]) == (precision != "64-true")
    again = trained(tmp_path, "again", precision, "--threads", "1")
    assert again == parts
    assert arena_of(path) < arena_of(path, "--no-recompute") / 4


def test_scores_of_an_attention_are_in_memory_for_one_sample(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(ATTENTIONS[0], path)
    assert arena_of(path) < arena_of(path, "--no-recompute") / 2
