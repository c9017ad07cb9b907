"""What PyTorch's exporter spelled out before its opsets had the ops is found in
its files, and means the same.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import pytest

import mpctest
from test_families import FAMILIES, train

# A norm before and after each of two layers, and one at the end.
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
    # Nothing of it is left but BERT's pooler, a layer and its tanh.
    left = re.findall(PARTS, text)
    assert left == (["tanh"] if model.startswith("bert") else [])
    assert re.search(PARTS, emit(model, "--no-recognize", "all"))


BAGS = ("dlrm-torchscript-14", "dlrm-dynamo-18")


@pytest.mark.parametrize("model", BAGS)
def test_bags_of_rows_are_one_reduction(model):
    """One gather and one sum for each table, not for each bag."""
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
    """But for the digits of numbers that the files have in float32, such as the
    root of 2."""
    (tmp_path / "one").mkdir()
    (tmp_path / "spelled").mkdir()
    one, _ = train(model, "64-true", tmp_path / "one")
    spelled, _ = train(
        model, "64-true", tmp_path / "spelled", "--no-recognize", "all"
    )
    np.testing.assert_allclose(one, spelled, rtol=1e-7)
    assert not np.array_equal(one, spelled)
