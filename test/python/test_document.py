"""Executes the blocks of docs/python.md in order.

SPDX-License-Identifier: Apache-2.0
"""

import re
import shutil

import numpy as np
import onnx

import mpctest
from conftest import MODEL, load_digits


def test_the_document_runs(tmp_path, monkeypatch, capsys):
    shutil.copy(MODEL, tmp_path / "model.onnx")
    for name, file in (("train", "train"), ("val", "test")):
        path = mpctest.DIGITS / f"digits-{file}.npz"
        shutil.copy(path, tmp_path / f"{name}.npz")
    digits = load_digits("train")
    batches = [
        (digits["image"][i : i + 32], digits["target"][i : i + 32])
        for i in range(0, 320, 32)
    ]
    model = onnx.load(MODEL)
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = 32
    names = {"batches": batches, "model": model}
    names["images"] = batches[0][0].astype(np.float32)
    monkeypatch.chdir(tmp_path)
    text = (mpctest.ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    assert len(blocks) == 7
    for block in blocks:
        names["images"] = batches[0][0].astype(np.float32)
        exec(compile(block, "python.md", "exec"), names)
    printed = capsys.readouterr().out
    assert re.search(r"^epoch 2: accuracy 9\d\.\d\d%$", printed, re.M)
    assert re.search(r"^1 ranks: loss \d\.\d{3}$", printed, re.M)
    assert "(32, 10)" in printed and "'fc1.weight': (64, 256)" in printed
    assert (tmp_path / "checkpoints" / "step-10").is_dir()
    assert (tmp_path / "trained.safetensors").exists()
    assert names["logits"].shape == (32, 10)
