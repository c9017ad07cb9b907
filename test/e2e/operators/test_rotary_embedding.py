"""Each rotary embedding as PyTorch's exporters write it (test/data/rotary)
becomes one op with the same results, forward and backward.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

ROTARY = mpctest.DATA / "rotary"
MODELS = sorted(path.stem for path in ROTARY.glob("*.onnx"))
INTERLEAVED = ("gptj", "gptj_part", "complex", "pairs")
SPELLED = ("--no-recognize", "rotary_embedding")


def name_of(model):
    return model.split("-")[0]


def load(model):
    """Returns the model's inputs, and PyTorch's results."""
    with np.load(ROTARY / "models.npz") as arrays:
        prefix = name_of(model) + "."
        given = {
            key.removeprefix(prefix): array
            for key, array in arrays.items()
            if key.startswith(prefix)
        }
    return given, given.pop("scores")


def emit(model, *flags, stage="recognize"):
    process = mpctest.mpc(
        *("compile", ROTARY / f"{model}.onnx", f"--emit={stage}", "-o", "-"), *flags
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_all_spellings_are_there():
    assert len(MODELS) == 30


@pytest.mark.parametrize("model", MODELS)
def test_queries_and_keys_are_one_op_each(model):
    text = emit(model)
    ops = re.findall(r"mpc\.rotary_embedding\b.*", text)
    assert len(ops) == 2
    for op in ops:
        assert ("interleaved" in op) == (name_of(model) in INTERLEAVED)
        assert "transposed" not in op
    assert not re.search(r"mpc\.(neg|sub)\b", text)
    spelled = emit(model, *SPELLED)
    assert "rotary_embedding" not in spelled
    assert re.search(r"mpc\.(neg|sub)\b", spelled)


@pytest.mark.parametrize("model", MODELS)
def test_computes_what_pytorch_does(model, tmp_path):
    given, expected = load(model)
    found = mpctest.run(onnx.load(ROTARY / f"{model}.onnx"), given, tmp_path)
    np.testing.assert_allclose(found["scores"], expected, rtol=1e-4, atol=1e-5)


def train(model, precision, folder, *flags):
    given, scores = load(model)
    metrics, weights = mpctest.train(
        ROTARY / f"{model}.onnx",
        {**given, "target": scores * 0},
        folder,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", 0.1),
        *("--batch-size", len(scores), "--epochs", 4, "--precision", precision),
        *flags,
    )
    return mpctest.losses(metrics), weights


@pytest.mark.parametrize("model", MODELS)
def test_means_the_same(model, tmp_path):
    """The gradients, and so the updates of all weights, agree too."""
    one, weights = train(model, "64-true", tmp_path / "one")
    spelled, expected = train(model, "64-true", tmp_path / "spelled", *SPELLED)
    np.testing.assert_allclose(one, spelled, rtol=1e-12)
    assert one[-1] < one[0]
    for name, weight in weights.items():
        np.testing.assert_allclose(
            weight, expected[name], rtol=1e-6, atol=1e-7, err_msg=name
        )


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
@pytest.mark.parametrize("model", ["llama-dynamo-18", "gptj_part-torchscript-17"])
def test_low_rows_are_turned_by_angles_in_fp32(model, precision, tmp_path):
    losses, _ = train(model, precision, tmp_path / "one")
    expected, _ = train(model, "32-true", tmp_path / "full")
    np.testing.assert_allclose(losses, expected, rtol=3e-2)
    text = emit(
        *(model, "--loss", "mse", "--optimizer", "sgd"),
        *("--precision", precision),
        stage="precision",
    )
    low = "bf16" if precision == "bf16-mixed" else "f16"
    turned = re.findall(r"mpc\.rotary_embedding .*?: \((.*?)\)", text)
    # Training rotates queries, keys and both gradients. Evaluation rotates
    # queries and keys.
    assert len(turned) == 4 + 2
    for types in turned:
        _, cosine, sine = types.split(", ")
        assert cosine.endswith("xf32>") and sine.endswith("xf32>")
    assert any(types.split(", ")[0].endswith(f"x{low}>") for types in turned)


@pytest.mark.parametrize("target", ["native", "sm_90"])
@pytest.mark.parametrize("model", ["llama-dynamo-18", "neox-dynamo-18", "gptj-dynamo-18"])
def test_is_one_kernel_each(model, target):
    text = emit(model, "--target", target, stage="plan")
    kernels = [
        kernel
        for kernel in re.split(r"func\.func private ", text)
        if "mpc.rotary_embedding" in kernel
    ]
    assert kernels
    for kernel in kernels:
        assert "#mpc.kernel<pointwise>" in kernel
        assert not re.search(r"mpc\.(concat|slice|neg)\b", kernel)


def test_answers_to_the_names_of_its_nodes():
    process = mpctest.mpc(
        *("explain", ROTARY / "llama-dynamo-18.onnx", "--loss", "mse"),
        *("--precision", "bf16-mixed", "node_neg"),
    )
    assert process.returncode == 0, process.stderr
    headings = re.findall(r"^node_\S+: .*", process.stdout, re.MULTILINE)
    assert headings == [
        "node_add: rotary_embedding, forward",
        "node_add#dx: rotary_embedding, backward",
    ]
    assert "by angles that stay fp32" in process.stdout


def make_learned():
    """Returns rows that are rotated by a table that is a parameter."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node(
            "RotaryEmbedding", ["h", "cosine", "sine"], ["y"], num_heads=2
        ),
    ]
    random = np.random.RandomState(0)
    weights = {
        "w": random.normal(size=[8, 12]).astype(np.float32),
        "cosine": random.normal(size=[2, 3, 3]).astype(np.float32),
        "sine": random.normal(size=[2, 3, 3]).astype(np.float32),
    }
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [2, 3, 8])},
        {"y": (np.float32, [2, 3, 12])},
        weights,
        opset=23,
    )
    data = {
        "x": random.normal(size=[2, 3, 8]).astype(np.float32),
        "target": random.normal(size=[2, 3, 12]).astype(np.float32),
    }
    return model, data, weights


def test_tables_can_be_trained(tmp_path):
    model, data, weights = make_learned()
    metrics, trained = mpctest.train(
        model,
        data,
        tmp_path,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", 0.2, "--batch-size", 2),
        *("--epochs", 8, "--train", "w", "--train", "cosine", "--train", "sine"),
    )
    losses = mpctest.losses(metrics)
    assert losses[-1] < losses[0]
    for name, weight in weights.items():
        assert not np.allclose(trained[name], weight), name


def make_spelled():
    """Returns halves of rows rotated by tables that hold each angle twice."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Split", ["h", "halves"], ["a", "b"], axis=2),
        helper.make_node("Neg", ["b"], ["n"]),
        helper.make_node("Concat", ["n", "a"], ["r"], axis=2),
        helper.make_node("Mul", ["h", "cosine"], ["c"]),
        helper.make_node("Mul", ["r", "sine"], ["s"]),
        helper.make_node("Add", ["c", "s"], ["y"]),
    ]
    random = np.random.RandomState(0)
    angles = np.tile(random.normal(size=[1, 3, 2]), 2)
    weights = {
        "w": random.normal(size=[4, 4]).astype(np.float32),
        "halves": np.array([2, 2]),
        "cosine": np.cos(angles).astype(np.float32),
        "sine": np.sin(angles).astype(np.float32),
    }
    shape = {"x": (np.float32, [2, 3, 4])}, {"y": (np.float32, [2, 3, 4])}
    data = {
        name: random.normal(size=[2, 3, 4]).astype(np.float32)
        for name in ("x", "target")
    }
    return mpctest.make_model(nodes, *shape, weights, opset=18), data


def test_tables_that_train_chooses_have_no_pairs(tmp_path):
    """--train changes both elements of a pair, each by its own gradient."""
    model, data = make_spelled()
    flags = ("--loss", "mse", "--lr", 0.2, "--batch-size", 2, "--epochs", 4)
    flags += ("--precision", "64-true", "--train", ".")
    metrics, trained = mpctest.train(model, data, tmp_path / "one", *flags)
    expected, apart = mpctest.train(model, data, tmp_path / "apart", *flags, *SPELLED)
    np.testing.assert_allclose(
        mpctest.losses(metrics), mpctest.losses(expected), rtol=1e-12
    )
    for name in ("w", "cosine", "sine"):
        np.testing.assert_allclose(trained[name], apart[name], rtol=1e-6)
    model = tmp_path / "one" / "model.onnx"
    for chosen, count in (("w", 1), ("sine", 0)):
        process = mpctest.mpc_ok(
            *("compile", model, "--loss", "mse", "--emit=recognize", "-o", "-"),
            *("--train", chosen),
        )
        assert process.stdout.count("= mpc.rotary_embedding") == count
        assert "mpc.trained" not in process.stdout
