"""Attention that a GPU's library computes as a whole, on an emulated GPU: the
losses, weights and scores of attention by products.

SPDX-License-Identifier: Apache-2.0
"""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mpctest
from test_families import FILES, LOSSES, PATHS, recipe
from test_gpu import emulated

TARGET = "sm_90"
# A value of 16 bits is rounded at other places: the library rounds the softmax
# before it is divided by its sum.
TOLERANCES = {"bf16-mixed": 2e-2, "16-mixed": 3e-3}
MODELS = sorted(
    f"{name}-{exporter}"
    for name in ("gpt2", "bert", "vit")
    for exporter in ("dynamo-18", "dynamo-23", "torchscript-17")
)
STEPS = 3


def train(model, precision, attention, folder):
    """Returns the losses and the trained weights."""
    metrics, output = folder / f"{attention}.jsonl", folder / f"{attention}.onnx"
    name = model.split("-")[0]
    mpctest.mpc_ok(
        *("train", PATHS[model], "--data", FILES[name], "--no-shuffle"),
        *recipe(model),
        *("--lr", LOSSES[name]["lr"], "--max-steps", STEPS),
        *("--precision", precision, "--device", "cuda", "--target", TARGET),
        *("--attention", attention, "--metrics", metrics, "--output", output),
        env=emulated(TARGET, folder),
    )
    losses = mpctest.losses(mpctest.read_metrics(metrics))
    return losses, mpctest.read_weights(output)


def plan_of(path, *flags):
    """Returns the plan that a model is compiled to, as text."""
    process = mpctest.mpc_ok(
        *("compile", path, *flags, "--precision", "bf16-mixed"),
        *("--target", TARGET, "--emit=plan", "-o", "-"),
    )
    return process.stdout


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("model", MODELS)
def test_the_library_trains_as_products_do(model, precision, tmp_path):
    losses, weights = train(model, precision, "library", tmp_path)
    expected, reference = train(model, precision, "products", tmp_path)
    np.testing.assert_allclose(losses, expected, rtol=TOLERANCES[precision])
    assert weights.keys() == reference.keys()
    for name, weight in reference.items():
        largest = np.abs(weight).max(initial=1e-6)
        np.testing.assert_allclose(
            weights[name], weight, atol=TOLERANCES[precision] * largest
        )


def train_with_version(path, version, attention, folder, *flags):
    """Trains beside a cuDNN of another version."""
    return mpctest.mpc(
        *("train", path, *flags, "--no-shuffle", "--max-steps", STEPS),
        *("--precision", "bf16-mixed", "--device", "cuda", "--target", TARGET),
        *("--attention", attention, "--output", folder / f"{attention}.npz"),
        env={**emulated(TARGET, folder), "MPC_EMULATOR_DNN": version},
    )


@pytest.mark.parametrize(
    "version, fault",
    [
        ("91000", "cuDNN 9.10.0 cannot compute all attention: .* 9.10.2 or newer"),
        ("91500", "cuDNN 9.15.0 cannot compute all attention: .* 9.15.1 or newer"),
        ("91501", None),
    ],
)
def test_products_stand_in_for_an_old_library(version, fault, tmp_path):
    path = PATHS["gpt2-dynamo-18"]
    flags = ("--data", FILES["gpt2"], *recipe("gpt2-dynamo-18"))
    process = train_with_version(path, version, "auto", tmp_path, *flags)
    assert process.returncode == 0, process.stderr
    notes = re.findall("note: products compute attention: (.*)", process.stderr)
    assert len(notes) == (fault is not None)
    reference = "products" if fault else "library"
    train_with_version(path, "91900", reference, tmp_path, *flags)
    same = [(tmp_path / f"{name}.npz").read_bytes() for name in ("auto", reference)]
    assert same[0] == same[1]
    if fault:
        assert re.match(fault, notes[0]), notes
        other = train_with_version(path, version, "library", tmp_path, *flags)
        assert other.returncode == 6, other.stderr


def test_an_old_library_is_not_named_without_attention(tmp_path):
    process = train_with_version(
        *(mpctest.MODELS / "mlp.onnx", "91000", "auto", tmp_path),
        *("--data", mpctest.DIGITS / "digits-train.npz", "--batch-size", 8),
        *("--loss", "softmax_cross_entropy"),
    )
    assert process.returncode == 0, process.stderr
    assert "attention" not in process.stderr


@pytest.mark.parametrize("model", ["gpt2-dynamo-18", "bert-dynamo-23"])
def test_the_library_predicts_as_products_do(model, tmp_path):
    name = model.split("-")[0]
    results = []
    for attention in ("library", "products"):
        output = tmp_path / f"{attention}.npz"
        mpctest.mpc_ok(
            *("run", PATHS[model], "--data", FILES[name], "--output", output),
            *("--batch-size", LOSSES[name]["batch_size"]),
            *("--precision", "bf16-mixed", "--attention", attention),
            *("--device", "cuda", "--target", TARGET),
            env=emulated(TARGET, tmp_path),
        )
        with np.load(output) as arrays:
            results.append({key: arrays[key] for key in arrays.files})
    library, products = results
    for key, array in products.items():
        np.testing.assert_allclose(
            library[key], array, atol=2e-2 * np.abs(array).max()
        )


@pytest.mark.parametrize("model", MODELS)
def test_no_kernel_moves_heads(model):
    """Attention reads columns of the projection, and writes columns of the
    projection's gradient."""
    text = plan_of(PATHS[model], *recipe(model))
    step = text.split("plan.program @step")[1].split("plan.program")[0]
    kinds = re.findall(r"plan.attention (\w+)", step)
    assert sorted(kinds) == ["forward"] * 2 + ["gradient"] * 2
    moves = re.findall(r"mpc\.(?:transpose|slice|concat) .*", text)
    # [samples, 2 heads, tokens, 8] in any order. Zeros for rows that see no key
    # need a kernel, which then stores the order of the next product.
    heads = re.compile(r"tensor<(?:4x2x\d+x8|\d+x4x2x8|4x\d+x2x8)xbf16>")
    moved = [move for move in moves if heads.search(move)]
    if model == "bert-dynamo-23":
        assert moved
    else:
        assert not moved, moved


def write_attention(path, tokens):
    """Writes causal attention of 4 heads of 16 between two products."""
    width, heads = 64, 4
    random = np.random.RandomState(0)

    def weight(name, *shape):
        values = (random.standard_normal(shape) / 8).astype(np.float32)
        return onnx.numpy_helper.from_array(values, name)

    constants = [
        weight("w", width, 3 * width),
        weight("u", width, 2),
        onnx.numpy_helper.from_array(np.array([width] * 3), "parts"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Split", ["p", "parts"], ["q", "k", "v"], axis=2),
        helper.make_node(
            *("Attention", ["q", "k", "v"], ["a"]),
            **{"is_causal": 1, "q_num_heads": heads, "kv_num_heads": heads},
        ),
        helper.make_node("MatMul", ["a", "u"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, tokens, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, tokens, 2])],
        constants,
    )
    opsets = [helper.make_opsetid("", 23)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)


def count_arena(tmp_path, tokens, attention):
    path = tmp_path / f"{tokens}.onnx"
    write_attention(path, tokens)
    flags = ("--loss", "mse", "--optimizer", "sgd", "--attention", attention)
    text = plan_of(path, *flags)
    return int(re.search(r"@step attributes {arena_bytes = (\d+)", text)[1])


def test_memory_grows_with_tokens_not_with_their_square(tmp_path):
    library, products = (
        [count_arena(tmp_path, tokens, kind) for tokens in (512, 2048)]
        for kind in ("library", "products")
    )
    assert library[1] < 4.1 * library[0]
    assert products[1] > 10 * products[0]


def test_explain_tells_what_the_library_computes():
    model = "gpt2-dynamo-18"
    arguments = [PATHS[model], *recipe(model), "--precision", "bf16-mixed"]
    arguments += ["--target", TARGET]
    text = mpctest.mpc_ok("explain", *arguments).stdout
    assert (
        "the library computes 4 attentions and gradients of attentions, with "
        "scores and softmax in fp32 inside" in text
    )
    lines = mpctest.mpc_ok("explain", *arguments, "--format", "jsonl").stdout
    records = [json.loads(line) for line in lines.splitlines()]
    assert {r["op"] for r in records if r.get("computed_by") == "library"} == {
        "attention",
        "attention_grad",
    }
    products = mpctest.mpc_ok("explain", *arguments, "--attention", "products")
    assert "the library computes" not in products.stdout


def test_an_attention_in_float32_is_not_for_the_library(tmp_path):
    model = "gpt2-dynamo-18"
    process = mpctest.mpc(
        *("compile", PATHS[model], *recipe(model), "--target", TARGET),
        *("--attention", "library", "-o", tmp_path / "m.mpc"),
    )
    assert process.returncode == 4
    assert "--attention library: no library of the target computes" in process.stderr
    assert "found f32, f32, f32 and f32" in process.stderr
