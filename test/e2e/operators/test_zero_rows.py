"""Normalising a row of zeros, which has no direction, gives zeros.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_a_row_of_zeros_is_normalised_to_zeros(precision, p, tmp_path):
    """LpNormalization's specification says so. The gradient is 0."""
    x = np.float32([[3, -4], [0, 0]])
    nodes = [
        helper.make_node("Add", ["x", "w"], ["h"], "add"),
        helper.make_node("LpNormalization", ["h"], ["y"], "norm", axis=1, p=p),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [2, 2])},
        {"y": (np.float32, [2, 2])},
        {"w": np.zeros((2, 2), np.float32)},
    )
    norm = {1: 7, 2: 5}[p]
    found = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_allclose(found, x / norm, rtol=1e-6)
    data = {"x": x, "target": np.ones((2, 2), np.float32)}
    flags = ["--loss", "mse", "--optimizer", "sgd", "--lr", "1", "--train", "w"]
    metrics, weights = mpctest.train(
        *(model, data, tmp_path, *flags, "--batch-size", "2"),
        *("--max-steps", "1", "--precision", precision),
    )
    assert np.isfinite(mpctest.losses(metrics)).all()
    assert (weights["w"][1] == 0).all()
    assert (weights["w"][0] != 0).all()
