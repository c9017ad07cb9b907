"""Tiny models of all families and other kinds, as PyTorch's exporters write
them, train like PyTorch: five steps of SGD give the same losses.
test/data/families/make_families.py and test/data/kinds/make_kinds.py compute
the references.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import mpctest

FAMILIES = mpctest.DATA / "families"
FOLDERS = (FAMILIES, mpctest.DATA / "kinds")
LOSSES = {}
for folder in FOLDERS:
    LOSSES |= json.loads((folder / "losses.json").read_text())
PATHS = {path.stem: path for folder in FOLDERS for path in folder.glob("*.onnx")}
MODELS = sorted(PATHS)
FILES = {path.stem: path for folder in FOLDERS for path in folder.glob("*.npz")}
# Bounds from the digits of the type. Under 64-true the model's constants, such
# as the root of a head's size, stay float32.
BOUND = {
    "64-true": 1e-6,
    "32-true": 1e-4,
    "bf16-mixed": 2e-2,
    "16-mixed": 2e-2,
}
# Parameters of the outermost module that no layer reads, plus all parameters
# with a dotted name. Without metadata, mpc cannot tell the former from
# constants.
CHOSEN = {
    "batchstatistics-torchscript-17": "[.]|^gain$",
    "pairs-torchscript-17": "[.]|^(gate|temperature)$",
    "scales-torchscript-17": "[.]|^(gamma|skip|temperature|token|weight)$",
    "statespace-torchscript-17": "[.]|^(decay|skip)$",
}


def recipe(model):
    """Returns the flags that compile the model's training step, without the
    precision. The GPU check uses them too."""
    case = LOSSES[model.split("-")[0]]
    flags = ["--loss", case["loss"], "--optimizer", "sgd"]
    flags += ["--batch-size", str(case["batch_size"])]
    for key, axis in case["batch_axes"].items():
        flags += ["--batch-axis", f"{key}={axis}"]
    if model in CHOSEN:
        flags += ["--train", CHOSEN[model]]
    return flags


def train(model, precision, folder, *flags):
    name = model.split("-")[0]
    case = LOSSES[name]
    path = PATHS[model]
    metrics, _ = mpctest.train(
        path,
        path.with_name(f"{name}.npz"),
        folder,
        *(*recipe(model), "--lr", case["lr"], "--max-steps", 5),
        *("--precision", precision),
        *flags,
    )
    return mpctest.losses(metrics), case


def cases():
    """Yields every model in every precision. In a sample, files of the previous
    exporter are trained in two precisions: their models are the same."""
    for model in MODELS:
        for precision in BOUND:
            older = "torchscript" in model and precision in ("64-true", "16-mixed")
            marks = [pytest.mark.full] if older else []
            yield pytest.param(model, precision, marks=marks)


@pytest.mark.parametrize("model, precision", cases())
def test_losses_are_those_of_pytorch(model, precision, tmp_path):
    losses, case = train(model, precision, tmp_path)
    expected = case["float64" if precision == "64-true" else "float32"]
    np.testing.assert_allclose(losses, expected, rtol=BOUND[precision])
    if precision == "32-true":
        run_elsewhere(tmp_path / "trained.onnx", model.split("-")[0], case)


def run_elsewhere(path, name, case):
    """Runs the written model in ONNX Runtime on the first samples."""
    written = onnx.load(path)
    onnx.checker.check_model(written)
    newest = max(opset.version for opset in written.opset_import if not opset.domain)
    if newest > 22:  # this ONNX Runtime is older
        return
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    data, inputs = np.load(FILES[name]), {}
    for value in session.get_inputs():
        axis = case["batch_axes"].get(value.name, 0)
        samples = range(case["batch_size"])
        inputs[value.name] = data[value.name].take(samples, axis)
    for output in session.run(None, inputs):
        assert np.isfinite(output).all()


@pytest.mark.parametrize(
    "model", [model for model in MODELS if model.startswith("dlrm")]
)
def test_ids_that_a_table_of_many_has_not_are_refused(model, tmp_path):
    """Ids are [table, sample, place]. The model slices every table's ids from
    them, and some exports slice every sample's ids."""
    data = dict(np.load(FAMILIES / "dlrm.npz"))
    data["ids"][1, 5, 1] = 20
    np.savez(tmp_path / "data.npz", **data)
    process = mpctest.mpc(
        *("train", FAMILIES / f"{model}.onnx", "--data", tmp_path / "data.npz"),
        *("--loss", LOSSES["dlrm"]["loss"], "--optimizer", "sgd"),
        *("--batch-size", 4, "--batch-axis", "ids=1"),
        *("--output", tmp_path / "trained.onnx"),
    )
    assert process.returncode == 3
    assert "ids[1,5,1]: index 20 is not in [-20,20)" in process.stderr
