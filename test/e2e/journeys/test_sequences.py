"""A user trains on sequences with gaps. The model leaves their length open
without a name, and has classes on the last axis or samples on the second.

SPDX-License-Identifier: Apache-2.0
"""

import journey
import numpy as np
import pytest
from onnx import helper

import mpctest

SAMPLES, LENGTH, FEATURES, CLASSES = 12, 5, 3, 4
RUN = ["--batch-size", 4, "--optimizer", "sgd", "--precision", "64-true"]
CROSS_ENTROPY = ["--loss", "cross_entropy"]

random = np.random.default_rng(0)
WEIGHT = random.normal(size=(FEATURES, CLASSES)).astype(np.float32)


def tagger(length):
    """Returns scores of every position. Missing values count as 0."""
    return mpctest.make_model(
        [
            helper.make_node("IsNaN", ["x"], ["gap"], "gap"),
            helper.make_node("Where", ["gap", "zero", "x"], ["known"], "known"),
            helper.make_node("MatMul", ["known", "w"], ["y"], "scores"),
        ],
        {"x": (np.float32, ["N", length, FEATURES])},
        {"y": (np.float32, ["N", length, CLASSES])},
        {"w": WEIGHT, "zero": np.zeros((), np.float32)},
    )


def series():
    x = random.normal(size=(SAMPLES, LENGTH, FEATURES)).astype(np.float32)
    x[random.random(x.shape) < 0.3] = np.nan
    return x, random.integers(0, CLASSES, (SAMPLES, LENGTH))


def save(tmp_path, length=None):
    x, target = series()
    data = journey.save_arrays(tmp_path / "d.npz", x=x, target=target)
    return journey.save(tagger(length), tmp_path / "m.onnx"), data, x, target


def test_gaps_are_the_models_where_it_is_said(tmp_path):
    model, data, x, target = save(tmp_path)
    text = journey.refused(
        journey.INVALID, "train", model, "--data", data, *CROSS_ENTROPY, *RUN
    )
    assert "nan is not a finite number; if the model handles it" in text
    metrics, _ = mpctest.train(
        model, data, tmp_path, *CROSS_ENTROPY, *RUN, "--allow-nan", "--train", "^w$"
    )
    scores = np.where(np.isnan(x[:4]), 0, x[:4]).astype(float) @ WEIGHT
    logs = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(logs, target[:4, :, None], axis=-1)
    np.testing.assert_allclose(mpctest.losses(metrics)[0], -picked.mean(), rtol=1e-7)
    mpctest.mpc_ok("eval", model, "--data", data, *CROSS_ENTROPY, "--allow-nan")


def test_targets_have_no_gaps(tmp_path):
    target = np.full((SAMPLES, LENGTH, CLASSES), np.nan, np.float32)
    data = journey.save_arrays(tmp_path / "d.npz", x=series()[0], target=target)
    model = journey.save(tagger(LENGTH), tmp_path / "m.onnx")
    text = journey.refused(
        *(journey.INVALID, "train", model, "--data", data, "--loss", "mse"),
        *(*RUN, "--allow-nan"),
    )
    assert "target[0,0,0]: nan is not a finite number\n" in text


def test_a_length_without_a_name_is_the_datas(tmp_path):
    model, data, _, _ = save(tmp_path)
    said = mpctest.mpc_ok(
        "train", model, "--data", data, *CROSS_ENTROPY, *RUN, "--allow-nan"
    ).stderr
    assert "note: input 'x' is 4x5x3, as in the data" in said
    said = mpctest.mpc_ok(
        "eval", model, "--data", data, *CROSS_ENTROPY, "--allow-nan"
    ).stderr
    assert "note: input 'x' is 12x5x3, as in the data" in said


@pytest.mark.parametrize("command", ["check", "explain", "compile"])
def test_classes_are_where_the_layer_has_its_outputs(command, tmp_path):
    model = journey.save(tagger(LENGTH), tmp_path / "m.onnx")
    output = ["-o", tmp_path / "m.mpc"] if command == "compile" else []
    process = mpctest.mpc_ok(
        command, model, *CROSS_ENTROPY, "--batch-size", 4, *output
    )
    assert (
        "the class axis is 2 of scores of shape [4,5,4]"
        in process.stdout + process.stderr
    )


def test_labels_are_compiled_with_their_samples_first(tmp_path):
    model, data, _, _ = save(tmp_path, LENGTH)
    text = journey.refused(
        *(journey.USAGE, "compile", model, *CROSS_ENTROPY, "--batch-size", 4),
        *("--batch-axis", "target=1", "-o", tmp_path / "m.mpc"),
    )
    assert "labels are compiled with their samples on the first axis" in text
