"""The model families in tiny, as PyTorch's exporters write them: five steps of
SGD lose what they lose in PyTorch (test/data/families/make_families.py).

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import pytest

import mpctest

FAMILIES = mpctest.DATA / "families"
LOSSES = json.loads((FAMILIES / "losses.json").read_text())
MODELS = sorted(path.stem for path in FAMILIES.glob("*.onnx"))
# Those of the digits of the type; 64-true has the model's constants, such as
# the root of a head's size, in float32.
BOUND = {
    "64-true": 1e-6,
    "32-true": 1e-4,
    "bf16-mixed": 2e-2,
    "16-mixed": 2e-2,
}


def train(model, precision, folder, *flags):
    name = model.split("-")[0]
    case = LOSSES[name]
    axes = [f"{key}={axis}" for key, axis in case["batch_axes"].items()]
    metrics, _ = mpctest.train(
        FAMILIES / f"{model}.onnx",
        FAMILIES / f"{name}.npz",
        folder,
        *("--loss", case["loss"], "--optimizer", "sgd", "--lr", case["lr"]),
        *("--batch-size", case["batch_size"], "--max-steps", 5),
        *("--precision", precision),
        *(word for axis in axes for word in ("--batch-axis", axis)),
        *flags,
    )
    return mpctest.losses(metrics), case


@pytest.mark.parametrize("precision", BOUND)
@pytest.mark.parametrize("model", MODELS)
def test_losses_are_those_of_pytorch(model, precision, tmp_path):
    losses, case = train(model, precision, tmp_path)
    expected = case["float64" if precision == "64-true" else "float32"]
    np.testing.assert_allclose(losses, expected, rtol=BOUND[precision])
