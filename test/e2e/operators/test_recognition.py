"""mpc recognises ops that PyTorch's exporter wrote in primitive ops before its
opsets had them. The results stay the same.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest
from test_families import FAMILIES, train

# Each layer has two norms, and the model ends with one.
FOUND = {
    "bert-torchscript-14": {"layer_norm": 5, "gelu": 2, "attention": 2},
    "gpt2-torchscript-14": {"layer_norm": 5, "gelu_tanh": 2, "attention": 2},
    "vit-torchscript-14": {"layer_norm": 5, "gelu": 2, "attention": 2},
}
PARTS = r"mpc\.(reduce_mean|sqrt|erf|tanh|pow|softmax)\b"


def emit(model, *flags):
    process = mpctest.mpc(
        *("compile", FAMILIES / f"{model}.onnx", "--batch-size", "4"),
        *("--emit=recognize", "-o", "-", *flags),
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize("model", FOUND)
def test_finds_what_exporters_spell_out(model):
    text = emit(model)
    for op, count in FOUND[model].items():
        assert len(re.findall(rf"mpc\.{op}\b", text)) == count
    # Only BERT's pooler is left: a layer and its tanh.
    left = re.findall(PARTS, text)
    assert left == (["tanh"] if model.startswith("bert") else [])
    assert re.search(PARTS, emit(model, "--no-recognize", "all"))


BAGS = ("dlrm-torchscript-14", "dlrm-dynamo-18")


@pytest.mark.parametrize("model", BAGS)
def test_bags_of_rows_are_one_reduction(model):
    """There is one gather and one sum for each table, not for each bag."""
    tables = 3
    text = emit(model)
    assert len(re.findall(r"mpc\.reduce_sum\b", text)) == tables
    spelled = emit(model, "--no-recognize", "embedding_bag")
    assert len(re.findall(r"mpc\.reduce_sum\b", spelled)) > tables


@pytest.mark.parametrize("model", BAGS)
def test_bags_mean_the_same(model, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "spelled").mkdir()
    one, _ = train(model, "64-true", tmp_path / "one")
    spelled, _ = train(
        model, "64-true", tmp_path / "spelled", "--no-recognize", "all"
    )
    np.testing.assert_allclose(one, spelled, rtol=1e-14)


@pytest.mark.parametrize("model", FOUND)
def test_means_the_same(model, tmp_path):
    """Constants such as the root of 2 are float32 in the files."""
    (tmp_path / "one").mkdir()
    (tmp_path / "spelled").mkdir()
    one, _ = train(model, "64-true", tmp_path / "one")
    spelled, _ = train(
        model, "64-true", tmp_path / "spelled", "--no-recognize", "all"
    )
    np.testing.assert_allclose(one, spelled, rtol=1e-7)
    assert not np.array_equal(one, spelled)


CAUSAL = FAMILIES.parent / "causal"


def find_causal(path):
    """Returns the attributes of the file's attention, and its text."""
    process = mpctest.mpc("compile", path, "--emit=recognize", "-o", "-")
    assert process.returncode == 0, process.stderr
    (line,) = re.findall(r"mpc\.attention\b.*", process.stdout)
    return line, process.stdout


@pytest.mark.parametrize("tokens", (512, 2048))
@pytest.mark.parametrize(
    "name", ("attention-{}-torchscript", "attention-{}-dynamo", "compared-{}-dynamo")
)
def test_causal_masks_of_long_contexts_take_no_memory(name, tokens):
    """The masks have more elements than the limit for folding constants."""
    line, text = find_causal(CAUSAL / f"{name.format(tokens)}.onnx")
    assert "causal_offset = 0" in line and "bias" not in line, line
    # No op computes the mask.
    assert not re.search(rf"mpc\.select.*{tokens}x{tokens}xf32", text)


def make_buffer_model(path, buffer, nodes, tokens):
    """Writes a model of `tokens` scores, which `nodes` mask with an initializer
    `m`."""
    numbers = {
        "m": buffer,
        "zero": np.float32(0),
        "one": np.float32(1),
        "low": np.finfo(np.float32).min,
        "inf": np.float32(-np.inf),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
            helper.make_node("MatMul", ["x", "t"], ["s"]),
            *(helper.make_node(op, i.split(), [o]) for op, i, o in nodes),
            helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
            helper.make_node("MatMul", ["p", "x"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, tokens, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, tokens, 4])],
        [
            numpy_helper.from_array(np.asarray(array), name)
            for name, array in numbers.items()
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


# Masks from a buffer of ones and zeros, and from its folded form.
BUFFERS = {
    "filled": (1.0, 0.0, [("Equal", "m zero", "h"), ("Where", "h inf s", "masked")]),
    "chosen": (True, False, [("Where", "m s low", "masked")]),
    "turned": (
        *(1.0, 0.0),
        [("Sub", "one m", "r"), ("Mul", "r low", "b"), ("Add", "s b", "masked")],
    ),
    "folded": (0.0, -np.inf, [("Add", "s m", "masked")]),
}


def make_buffer(kind, tokens, seen):
    near, far, nodes = BUFFERS[kind]
    element = bool if near is True else np.float32
    return np.where(seen, near, far).astype(element)[None], nodes


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("tokens", (512, 2048))
def test_causal_buffers_of_long_contexts_take_no_memory(kind, tokens, tmp_path):
    buffer, nodes = make_buffer(kind, tokens, np.tri(tokens, dtype=bool))
    make_buffer_model(tmp_path / "m.onnx", buffer, nodes, tokens)
    line, _ = find_causal(tmp_path / "m.onnx")
    assert "causal_offset = 0" in line, line


@pytest.mark.parametrize("kind", BUFFERS)
def test_a_hidden_key_more_is_no_causal_mask(kind, tmp_path):
    seen = np.tri(300, dtype=bool)
    seen[200, 100] = False
    buffer, nodes = make_buffer(kind, 300, seen)
    make_buffer_model(tmp_path / "m.onnx", buffer, nodes, 300)
    line, _ = find_causal(tmp_path / "m.onnx")
    assert "causal_offset" not in line, line


def test_long_causal_masks_mean_the_same(tmp_path):
    x = np.random.RandomState(0).standard_normal((1, 512, 4))
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    results = []
    for flags in ((), ("--no-recognize", "all")):
        path = tmp_path / f"{len(flags)}.npz"
        process = mpctest.mpc(
            *("run", CAUSAL / "attention-512-dynamo.onnx", *flags),
            *("--input", f"x=@{tmp_path / 'x.npy'}", "--output", path),
        )
        assert process.returncode == 0, process.stderr
        results.append(np.load(path)["y"])
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)
