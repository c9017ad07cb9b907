"""Masks that a model expands over queries and heads keep their original size.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from test_gpu import emulated

import mpctest

BATCH, TOKENS, HEADS, SIZE = 2, 96, 4, 16
WIDTH = HEADS * SIZE
SCORES = [BATCH, HEADS, TOKENS, TOKENS]
LOWEST = np.finfo(np.float32).min


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32) / 8


def keep_numbers(add, seen):
    """Masks like PyTorch's exporter in scaled_dot_product_attention."""
    add("Where", [seen, "zero", "lowest"], "bias")
    add("Add", ["scores", "bias"], "masked")


def fill(add, seen):
    """Masks like masked_fill."""
    add("Not", [seen], "hidden")
    add("Where", ["hidden", "infinite", "scores"], "masked")


def subtract(add, seen):
    """Turns a mask of tokens into numbers like Hugging Face's models."""
    add("Cast", [seen], "kept", to=TensorProto.FLOAT)
    add("Sub", ["one", "kept"], "dropped")
    add("Mul", ["dropped", "large"], "bias")
    add("Add", ["scores", "bias"], "masked")


def make_model(spell, expands, isCausal, hasPadding):
    """Returns an attention with a padding mask, a causal mask, or both."""
    values = {
        **{name: normal(WIDTH, WIDTH) for name in ("wq", "wk", "wv")},
        "heads": np.array([BATCH, TOKENS, HEADS, SIZE]),
        "rows": np.array([BATCH, TOKENS, WIDTH]),
        "scale": np.float32(SIZE**-0.5),
        "axes": np.array([1, 2]),
        "causal": np.tri(TOKENS, dtype=bool)[None, None],
        "all": np.array(SCORES),
        "one": np.float32(1),
        "zero": np.float32(0),
        "large": np.float32(-1e9),
        "lowest": np.float32(LOWEST),
        "infinite": np.float32(-np.inf),
    }
    nodes = []

    def add(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], output, **attributes))

    for name in "qkv":
        add("MatMul", ["x", "w" + name], name + "0")
        add("Reshape", [name + "0", "heads"], name + "1")
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        add("Transpose", [name + "1"], name, perm=perm)
    add("MatMul", ["q", "k"], "products")
    add("Mul", ["products", "scale"], "scores")
    seen = "causal"
    if hasPadding:
        add("Unsqueeze", ["tokens", "axes"], "padding")
        seen = "padding"
    if isCausal and hasPadding:
        add("And", ["padding", "causal"], "both")
        seen = "both"
    if expands:
        add("Expand", [seen, "all"], "expanded")
        seen = "expanded"
    spell(add, seen)
    add("Softmax", ["masked"], "weights", axis=-1)
    add("MatMul", ["weights", "v"], "o0")
    add("Transpose", ["o0"], "o1", perm=[0, 2, 1, 3])
    add("Reshape", ["o1", "rows"], "y")
    inputs = {"x": (np.float32, [BATCH, TOKENS, WIDTH])}
    if hasPadding:
        inputs["tokens"] = (np.bool_, [BATCH, TOKENS])
    used = {name for node in nodes for name in node.input}
    return mpctest.make_model(
        nodes,
        inputs,
        {"y": (np.float32, [BATCH, TOKENS, WIDTH])},
        {name: value for name, value in values.items() if name in used},
    )


def make_data(hasPadding):
    x = normal(BATCH, TOKENS, WIDTH) * 8
    data = {"x": x, "target": np.tanh(x[:, ::-1])}
    if hasPadding:
        data["tokens"] = np.arange(TOKENS) < np.array([[TOKENS], [TOKENS // 3]])
    return data


FLAGS = (
    *("--loss", "mse", "--optimizer", "sgd", "--lr", 1),
    *("--batch-size", BATCH, "--epochs", 3),
)
SPELLINGS = [
    *((spell, True, False) for spell in (keep_numbers, fill)),
    *((spell, False, True) for spell in (keep_numbers, fill, subtract)),
    *((spell, True, True) for spell in (keep_numbers, fill)),
]
IDS = [
    spell.__name__ + "-causal" * isCausal + "-padding" * hasPadding
    for spell, isCausal, hasPadding in SPELLINGS
]


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_90"])
@pytest.mark.parametrize("spell,isCausal,hasPadding", SPELLINGS, ids=IDS)
def test_no_mask_has_the_shape_of_scores(spell, isCausal, hasPadding, target, tmp_path):
    """Neither a step nor the artifact contains such a mask."""
    model = make_model(spell, True, isCausal, hasPadding)
    onnx.save(model, tmp_path / "model.onnx")
    plan = mpctest.mpc_ok(
        *("compile", tmp_path / "model.onnx", "-o", "-", "--emit=plan"),
        *("--loss", "mse", "--optimizer", "sgd", "--target", target),
    ).stdout
    steps = plan.split("plan.program @step")[1].split("plan.program @")[0]
    shape = "x".join(map(str, SCORES))
    assert "plan.matmul" in steps
    assert f"memref<{shape}xi1>" not in steps
    # No kernel makes a bias of the scores' shape: any kernel that writes this
    # shape also reads the scores.
    for inputs, outputs in re.findall(r"launch @\S+ ins\((.*?)\) outs\((.*?)\)", steps):
        assert f"memref<{shape}xf32>" not in outputs or shape in inputs


@pytest.mark.parametrize("spell,isCausal,hasPadding", SPELLINGS, ids=IDS)
def test_the_order_of_keys_is_no_tensor(spell, isCausal, hasPadding, tmp_path):
    """A finite number hides a key only relative to other keys. With padding, all
    keys of a query may be hidden: mpc keeps the model's mask there."""
    onnx.save(make_model(spell, True, isCausal, hasPadding), tmp_path / "model.onnx")
    recognized = mpctest.mpc_ok(
        *("compile", tmp_path / "model.onnx", "-o", "-", "--emit=recognize"),
    ).stdout
    assert "mpc.attention" in recognized
    expected = isCausal and not (hasPadding and spell is keep_numbers)
    assert ("causal_offset" in recognized) == expected


@pytest.mark.parametrize("precision,tolerance", [("64-true", 1e-10), ("32-true", 1e-4)])
@pytest.mark.parametrize("spell,isCausal,hasPadding", SPELLINGS, ids=IDS)
def test_the_same_is_learnt(spell, isCausal, hasPadding, precision, tolerance, tmp_path):
    """Training equals that without the expand and without recognition of
    attention."""
    flags = (*FLAGS, "--precision", precision)
    data = make_data(hasPadding)
    found, expected = (
        mpctest.train(
            make_model(spell, expands, isCausal, hasPadding),
            data,
            tmp_path / str(expands),
            *flags,
            *more,
        )
        for expands, more in ((True, ()), (False, ("--no-recognize", "attention")))
    )
    losses = mpctest.losses(found[0])
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, mpctest.losses(expected[0]), rtol=tolerance)
    for name in ("wq", "wk", "wv"):
        np.testing.assert_allclose(
            found[1][name], expected[1][name], rtol=0, atol=tolerance
        )


@pytest.mark.parametrize("spell,isCausal,hasPadding", SPELLINGS, ids=IDS)
def test_a_gpu_learns_it_too(spell, isCausal, hasPadding, tmp_path):
    onnx.save(make_model(spell, True, isCausal, hasPadding), tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **make_data(hasPadding))

    def learn(device, *target):
        mpctest.mpc_ok(
            *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
            *("--metrics", tmp_path / f"{device}.jsonl", "--device", device),
            *("--no-shuffle", "--precision", "32-true", *FLAGS, *target),
            *("--output", tmp_path / f"{device}.onnx"),
            env=emulated("sm_90", tmp_path),
        )
        return mpctest.losses(mpctest.read_metrics(tmp_path / f"{device}.jsonl"))

    expected = learn("cpu", *mpctest.TARGET)
    np.testing.assert_allclose(
        learn("cuda", "--target", "sm_90"), expected, rtol=1e-4
    )
