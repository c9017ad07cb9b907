"""`--data-parallel` on one rank: the reductions over ranks change no bit, since
they only move the gradients' memory and the order of updates.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import pytest

import mpctest

CNN = mpctest.MODELS / "digits-cnn.onnx"
LENET = mpctest.MODELS / "lenet.onnx"
COMMON = ["--loss", "cross_entropy", "--batch-size", 8, "--lr", 0.1, "--seed", 1]
FLAGS = {
    "32-true": [],
    "bf16-mixed": ["--precision", "bf16-mixed", "--gradient-clip-val", 1],
    "16-mixed": ["--precision", "16-mixed", "--optimizer", "adam"],
    "64-true": ["--precision", "64-true"],
    "accumulated": ["--precision", "16-mixed", "--accumulate-grad-batches", 2],
}


def digits(count):
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        return {name: arrays[name][:count] for name in ("image", "target")}


@pytest.mark.parametrize("mode", FLAGS)
def test_one_rank_trains_to_the_same_bits(mode, tmp_path):
    found = []
    for more in ([], ["--data-parallel"]):
        folder = tmp_path / ("ranks" if more else "alone")
        folder.mkdir()
        metrics, weights = mpctest.train(
            CNN, digits(48), folder, *COMMON, *FLAGS[mode], *more
        )
        found.append((mpctest.losses(metrics), weights))
    (losses, weights), (reduced_losses, reduced_weights) = found
    assert len(losses) >= 3 and losses == reduced_losses
    assert weights.keys() == reduced_weights.keys()
    for name, weight in weights.items():
        assert np.array_equal(weight, reduced_weights[name]), name


@pytest.mark.parametrize(
    "flags, function",
    [([], "step"), (["--accumulate-grad-batches", 2], "update")],
    ids=["step", "accumulated"],
)
def test_gradients_travel_once_and_together(flags, function, tmp_path):
    """One bucket holds LeNet's gradients. The artifact records the flag."""
    model = tmp_path / "m.mpc"
    mpctest.mpc_ok(
        "compile", LENET, *COMMON[:4], *flags, "--data-parallel", "-o", model
    )
    document = json.loads(mpctest.mpc_ok("inspect", model, "--format", "json").stdout)
    assert document["recipe"]["data_parallel"] is True
    plan = mpctest.mpc_ok(
        "compile", LENET, *COMMON[:4], *flags, "--data-parallel", "--emit=plan"
    ).stdout
    programs = plan.split("plan.program @")[1:]
    counts = {text.split()[0]: text.count("plan.all_reduce mean") for text in programs}
    assert counts.pop(function) == 1
    assert set(counts.values()) == {0}


def test_inference_has_no_gradients_to_reduce():
    result = mpctest.mpc(
        "compile", LENET, "--batch-size", 8, "--data-parallel", "--emit=plan"
    )
    assert result.returncode == 2
    assert "--data-parallel is for training, and has no effect without" in result.stderr
