"""What docs/exporting.md tells to export trains as PyTorch does. Needs PyTorch:
tools/models/requirements.txt.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import os
import re

import numpy as np
import onnx
import pytest

import mpctest

torch = pytest.importorskip("torch")
DOCUMENT = mpctest.ROOT / "docs" / "exporting.md"
BATCH, STEPS, RATE = 8, 3, 0.05


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder where the snippets have written their files, and the model."""
    folder = tmp_path_factory.mktemp("exporting")
    snippets = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert len(snippets) == 4
    names, here = {}, os.getcwd()
    torch.manual_seed(0)
    os.chdir(folder)
    try:
        for snippet in snippets:
            exec(compile(snippet, str(DOCUMENT), "exec"), names)
    finally:
        os.chdir(here)
    return folder, names["model"]


@pytest.mark.parametrize("file", ["model", "dynamic", "older"])
def test_snippets_write_what_can_be_trained(file, exported, tmp_path):
    folder, model = exported
    path = folder / f"{file}.onnx"
    ops = {node.op_type for node in onnx.load(path).graph.node}
    assert {"BatchNormalization", "Dropout", "LayerNormalization"} <= ops
    random = np.random.RandomState(0)
    data = {
        "image": random.standard_normal((BATCH * STEPS, 1, 8, 8)),
        "target": random.randint(0, 3, BATCH * STEPS),
    }
    data["image"] = data["image"].astype(np.float32)
    names = [value.name for value in onnx.load(path).graph.input]
    assert len(names) == 1
    data[names[0]] = data.pop("image")
    metrics, _ = mpctest.train(
        path,
        data,
        tmp_path,
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--lr", RATE, "--batch-size", BATCH, "--max-steps", STEPS),
    )
    # Other elements are dropped than in PyTorch: near, not equal.
    model = copy.deepcopy(model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    expected = []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        scores = model(torch.from_numpy(data[names[0]][rows]))
        labels = torch.from_numpy(data["target"][rows])
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    np.testing.assert_allclose(mpctest.losses(metrics), expected, rtol=0.2)
