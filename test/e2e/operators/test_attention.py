"""Attention from plain products, as exporters write it, needs no kernel that
only moves data.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

BATCH, TOKENS, HEADS, DEPTH = 2, 24, 3, 8
WIDTH = HEADS * DEPTH
SPELLINGS = [
    *("scaled scores", "scaled queries", "scaled queries and keys"),
    # With a mask, PyTorch's exporter has computed the root.
    "scaled by a computed root",
]


def attention(spelling):
    """Returns scores of 4 classes for every token."""
    random = np.random.RandomState(0)
    weights = {
        name: random.normal(scale=0.2, size=shape).astype(np.float32)
        for name, shape in {
            **{f"w{part}": (WIDTH, WIDTH) for part in "qkv"},
            **{f"b{part}": (WIDTH,) for part in "qkv"},
            "head": (WIDTH, 4),
        }.items()
    }
    weights["heads"] = np.array([0, 0, HEADS, DEPTH], np.int64)
    weights["joined"] = np.array([0, 0, WIDTH], np.int64)
    weights["scale"] = np.array(DEPTH**-0.5, np.float32)
    weights["root"] = np.array(DEPTH**-0.25, np.float32)
    weights["val_0"] = weights["root"].reshape(1)
    nodes = []

    def add(op, *inputs, **attributes):
        name = f"{op.lower()}{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def project(part, perm):
        y = add("Add", add("MatMul", "x", f"w{part}"), f"b{part}")
        return add("Transpose", add("Reshape", y, "heads"), perm=perm)

    query, key = project("q", [0, 2, 1, 3]), project("k", [0, 2, 3, 1])
    if spelling == "scaled queries":
        query = add("Mul", query, "scale")
    if spelling == "scaled queries and keys":
        query, key = add("Mul", query, "root"), add("Mul", key, "root")
    if spelling == "scaled by a computed root":
        query, key = add("Mul", query, "val_0"), add("Mul", key, "val_0")
    scores = add("MatMul", query, key)
    if spelling == "scaled scores":
        scores = add("Mul", scores, "scale")
    mixed = add("MatMul", add("Softmax", scores), project("v", [0, 2, 1, 3]))
    mixed = add("Transpose", mixed, perm=[0, 2, 1, 3])
    add("MatMul", add("Reshape", mixed, "joined"), "head")
    nodes[-1].output[0] = "y"
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [BATCH, TOKENS, WIDTH])},
        {"y": (np.float32, [BATCH, TOKENS, 4])},
        weights,
    )
    root = helper.make_tensor_value_info("val_0", onnx.TensorProto.FLOAT, [1])
    root.metadata_props.add(
        key="pkg.onnxscript.optimizer.folded_from", value="['val_1', 'val_2']"
    )
    model.graph.value_info.append(root)
    return model


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.npz"
    random = np.random.RandomState(1)
    x = random.normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
    np.savez(path, x=x, target=random.randint(0, 4, (BATCH, TOKENS)))
    return path


RECIPE = ["--loss", "softmax_cross_entropy@y:2", "--optimizer", "adamw"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("contractions", ["library", "generated"])
def test_trains_alike_in_every_spelling(spelling, contractions, data, tmp_path):
    found = {}
    for name in (SPELLINGS[0], spelling):
        model, metrics = tmp_path / "model.onnx", tmp_path / "metrics.jsonl"
        onnx.save(attention(name), model)
        mpctest.mpc_ok(
            *("train", model, "--data", data, *RECIPE, "--lr", "0.01"),
            *("--batch-size", BATCH, "--max-steps", "20", "--metrics", metrics),
            *("--contractions", contractions, "--precision", "64-true"),
            *("--output", tmp_path / "trained.onnx"),
        )
        found[name] = mpctest.losses(mpctest.read_metrics(metrics))
        metrics.unlink()
    np.testing.assert_allclose(found[spelling], found[SPELLINGS[0]], rtol=1e-6)
    assert found[spelling][-1] < 0.7 * found[spelling][0]


def plan_kernels(spelling, precision, folder):
    """Returns the step's kernels, each with its kind."""
    model, plan = folder / "model.onnx", folder / "model.plan"
    onnx.save(attention(spelling), model)
    mpctest.mpc_ok(
        *("compile", model, *RECIPE, "--precision", precision),
        *("--target", "x86-64-v3", "--emit=plan", "-o", plan),
    )
    return re.findall(
        r"private @step_(\w+)\(.*mpc.kernel = #mpc.kernel<(\w+)>",
        plan.read_text(),
    )


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_no_kernel_only_moves(spelling, precision, tmp_path):
    kernels = plan_kernels(spelling, precision, tmp_path)
    assert "row_reduce" in dict(kernels).values()
    assert [name for name, kind in kernels if kind == "movement"] == []


def test_a_computed_root_costs_no_kernel(tmp_path):
    counts = {
        spelling: len(plan_kernels(spelling, "bf16-mixed", tmp_path))
        for spelling in SPELLINGS
    }
    assert counts[SPELLINGS[3]] == counts[SPELLINGS[2]], counts
