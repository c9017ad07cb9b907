"""A user moves a run to another machine: RMSprop in mixed precision resumes
with another number of threads, and skips a step.

SPDX-License-Identifier: Apache-2.0
"""

import shutil

import journey
import numpy as np
import pytest
from safetensors.numpy import load_file

import mpctest

RUN = [*journey.CLASSES, "--batch-size", 64, "--precision", "16-mixed", "--lr", 1e-3]
RMSPROP = ["--optimizer", "rmsprop", "--momentum", 0.9, "--centered"]


def train(folder, *flags):
    output = folder / "weights.safetensors"
    mpctest.mpc_ok(
        *("train", journey.MLP, "--data", journey.TRAIN, *RUN, *RMSPROP),
        *("--checkpoint-dir", folder / "ck", "--output", output, *flags),
    )
    return load_file(output)


def test_other_threads_go_on_to_the_same_bits(tmp_path):
    whole = train(tmp_path, "--max-steps", 24, "--checkpoint-every", 8, "--threads", 2)
    state = load_file(tmp_path / "ck" / "step-8" / "state.safetensors")
    for suffix in ("v", "m", "velocity"):
        assert np.any(state[f"fc1.weight.{suffix}"])
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "ck" / "step-8", other / "ck" / "step-8")
    resumed = train(other, "--max-steps", 24, "--resume", "auto", "--threads", 1)
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(value, resumed[name], name)


def test_another_alpha_is_another_run(tmp_path):
    train(tmp_path, "--max-steps", 2)
    text = journey.refused(
        *(journey.CHECKPOINT, "train", journey.MLP, "--data", journey.TRAIN, *RUN),
        *(*RMSPROP, "--alpha", 0.9, "--max-steps", 4),
        *("--checkpoint-dir", tmp_path / "ck", "--resume", "auto"),
    )
    assert "alpha was 0.99, now it is 0.9" in text


@pytest.mark.parametrize("flags", [[], ["--momentum", 0.9], ["--centered"]])
def test_a_skipped_step_changes_nothing(flags, tmp_path):
    with np.load(journey.TRAIN) as file:
        arrays = {name: file[name][: 3 * 64].astype(np.float32) for name in file}
    # Values that overflow float16 in the second of three batches.
    loud = {name: value.copy() for name, value in arrays.items()}
    loud["image"][64:128] += 1e6
    quiet = {name: np.delete(v, np.s_[64:128], axis=0) for name, v in arrays.items()}
    flags = [*RUN, "--optimizer", "rmsprop", *flags, "--loss-scale", 1024]
    metrics, skipping = mpctest.train(journey.MLP, loud, tmp_path / "loud", *flags)
    _, others = mpctest.train(journey.MLP, quiet, tmp_path / "quiet", *flags)
    assert [m["skipped"] for m in metrics if m["event"] == "train"] == [0, 1, 0]
    for name, value in others.items():
        np.testing.assert_array_equal(value, skipping[name], name)
