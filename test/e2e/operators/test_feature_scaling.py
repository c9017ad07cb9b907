"""scikit-learn's StandardScaler before a network, as skl2onnx writes it, is
supported.

SPDX-License-Identifier: Apache-2.0
"""

import mpctest
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

UNSUPPORTED = 4


def save_model(folder, offset, scale):
    random = np.random.default_rng(0)
    model = mpctest.make_model(
        [
            helper.make_node(
                *("Scaler", ["x"], ["scaled"], "scaler"),
                **{"domain": "ai.onnx.ml", "offset": offset, "scale": scale},
            ),
            helper.make_node("Gemm", ["scaled", "w", "b"], ["y"], "fc", transB=1),
        ],
        {"x": (np.float32, ["N", 4])},
        {"y": (np.float32, ["N", 3])},
        {
            "w": random.standard_normal((3, 4)).astype(np.float32),
            "b": np.zeros(3, np.float32),
        },
    )
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    onnx.save(model, folder / "scaled.onnx")
    return folder / "scaled.onnx"


@pytest.mark.parametrize(
    "offset, scale", [([1.0, 2, 3, 4], [0.5, 2, 1, 0.1]), ([1.5], [0.25])]
)
def test_features_are_scaled_as_onnx_runtime_does(offset, scale, tmp_path):
    model = save_model(tmp_path, offset, scale)
    x = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    output = tmp_path / "y.npy"
    mpctest.mpc_ok("run", model, "--data", tmp_path / "x.npz", "-o", output)
    (expected,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    np.testing.assert_allclose(np.load(output), expected, rtol=1e-6, atol=1e-6)


def test_what_is_behind_the_scaler_is_trained(tmp_path):
    """The scaler stays unchanged, also in the written model."""
    model = save_model(tmp_path, [5.0] * 4, [0.5] * 4)
    rows = 5 + 2 * np.random.default_rng(2).standard_normal((256, 4))
    labels = rows[:, :3].argmax(1)
    np.savez(tmp_path / "d.npz", x=rows.astype(np.float32), target=labels)
    output = tmp_path / "o.onnx"
    flags = ["--loss", "cross_entropy", "--batch-size", 32]
    mpctest.mpc_ok(
        *("train", model, "--data", tmp_path / "d.npz", *flags, "--lr", 0.5),
        *("--epochs", 40, "-o", output),
    )
    x = rows.astype(np.float32)
    (scores,) = onnxruntime.InferenceSession(output).run(None, {"x": x})
    assert np.mean(scores.argmax(1) == labels) > 0.9


def test_a_scaler_of_other_features_is_refused(tmp_path):
    model = save_model(tmp_path, [1.0, 2.0], [0.5])
    process = mpctest.mpc("check", model, "--batch-size", 4)
    assert process.returncode != 0
    text = process.stdout + process.stderr
    assert "'offset' to have one number, or one for each feature" in text


def test_a_scaler_of_no_features_is_refused(tmp_path):
    """If an attribute is missing, its default has one number per feature."""
    scaler = helper.make_node("Scaler", ["x"], ["y"], "scaler", domain="ai.onnx.ml")
    model = mpctest.make_model(
        [scaler], {"x": (np.float32, (4, 0))}, {"y": (np.float32, (4, 0))}, {}
    )
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    onnx.save(model, tmp_path / "none.onnx")
    process = mpctest.mpc("compile", tmp_path / "none.onnx", "--emit=import")
    assert process.returncode == UNSUPPORTED
    assert "'offset' to have one number, or one for each feature" in process.stderr
