"""A user writes and reads weights in every format, and meets files without
usable weights.

SPDX-License-Identifier: Apache-2.0
"""

import zipfile

import journey
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import mpctest

MLP = journey.MLP


def train(*arguments, data=journey.TRAIN):
    return [
        *("train", MLP, "--data", data, *journey.CLASSES, "--batch-size", 32),
        *("--max-steps", 5, "--no-shuffle", *mpctest.TARGET, *arguments),
    ]


def test_journey(tmp_path):
    written = {}
    for name in ("w.safetensors", "w.npz", "w.onnx"):
        mpctest.mpc_ok(*train("--output", tmp_path / name))
    written["w.safetensors"] = safetensors.numpy.load_file(tmp_path / "w.safetensors")
    written["w.npz"] = dict(np.load(tmp_path / "w.npz"))
    written["w.onnx"] = mpctest.read_weights(tmp_path / "w.onnx")
    parameters = {k for k, v in mpctest.read_weights(MLP).items() if v.ndim}
    for name, values in written.items():
        assert parameters <= set(values), name
        for key in parameters:
            np.testing.assert_array_equal(values[key], written["w.onnx"][key])

    # Each file loads again. Two half files make the whole. 16-bit weights are
    # converted.
    half = {k: v for k, v in written["w.npz"].items() if k.startswith("fc1")}
    rest = {k: v for k, v in written["w.npz"].items() if k not in half}
    journey.save_arrays(tmp_path / "half.npz", **half)
    journey.save_arrays(tmp_path / "rest.npz", **rest)
    low = {k: v.astype(ml_dtypes.bfloat16) for k, v in written["w.npz"].items()}
    safetensors.numpy.save_file(low, tmp_path / "low.safetensors")
    results = {}
    for files in (
        *(["w.safetensors"], ["w.npz"], ["w.onnx"], ["half.npz", "rest.npz"]),
        *(["low.safetensors"], ["half.npz"]),
    ):
        flags = [f for file in files for f in ("--weights", tmp_path / file)]
        process = mpctest.mpc_ok(*train(*flags, "--metrics", "-"))
        first = mpctest.json.loads(process.stdout.splitlines()[1])
        results[" ".join(files)] = first["loss"]
    whole = results["w.onnx"]
    assert results["w.safetensors"] == results["w.npz"] == whole
    assert results["half.npz rest.npz"] == whole
    assert results["low.safetensors"] == pytest.approx(whole, rel=1e-2)
    assert results["low.safetensors"] != whole != results["half.npz"]
    # mpc names the parameters that a partial file leaves unchanged.
    process = mpctest.mpc_ok(*train("--weights", tmp_path / "half.npz"))
    assert "2 of 6 parameters from" in process.stderr
    assert "so the model's values stay: 'fc2.bias', 'fc2.weight'" in process.stderr


def test_files_that_give_nothing(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.pt", "w") as archive:
        archive.writestr("w/data.pkl", b"\x80\x02}q\x00.")
    journey.save_arrays(tmp_path / "others.npz", layer=np.ones(3, np.float32))
    wide = np.ones((128, 65), np.float32)
    journey.save_arrays(tmp_path / "wide.npz", **{"fc1.weight": wide})
    for name, words in (
        ("w.pt", ["torch.save", "safetensors.torch.save_file"]),
        ("others.npz", ["gives no value", "'layer'", "'fc1.weight'"]),
        ("wide.npz", ["'fc1.weight'", "[128,65]", "[128,64]"]),
    ):
        text = journey.refused(
            journey.INVALID, *train("--weights", tmp_path / name)
        )
        assert all(word in text for word in words), text
