"""The model families in tiny, and models of other kinds, as PyTorch's exporters
write them: five steps of SGD lose what they lose in PyTorch
(test/data/families/make_families.py, test/data/kinds/make_kinds.py).

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
# Those of the digits of the type; 64-true has the model's constants, such as
# the root of a head's size, in float32.
BOUND = {
    "64-true": 1e-6,
    "32-true": 1e-4,
    "bf16-mixed": 2e-2,
    "16-mixed": 2e-2,
}
# Parameters of the outermost module that no layer reads, which an export without
# metadata does not tell from constants: beside them, all with a dotted name.
CHOSEN = {
    "batchstatistics-torchscript-17": "[.]|^gain$",
    "pairs-torchscript-17": "[.]|^(gate|temperature)$",
    "scales-torchscript-17": "[.]|^(gamma|skip|temperature|token|weight)$",
    "statespace-torchscript-17": "[.]|^(decay|skip)$",
}


def recipe(model):
    """The flags that compile its training step, but for the precision; those of
    the GPU check, too."""
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
    """Every model in every precision. In a sample, what the exporter before
    today's wrote is trained in two of them: it is the same model."""
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
    """The written model runs in ONNX Runtime, on the first samples."""
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
    """Ids are [table, sample, place], and every table's ids are cut out of
    them; of some exports every sample's, one by one."""
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
