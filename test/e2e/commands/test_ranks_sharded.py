"""`--shard-optimizer`: each rank updates a share of the parameters, and the run
trains to the bits of a run that is not sharded.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib

import numpy as np
import pytest

import mpctest
from test_ranks import (
    TRAIN,
    compiled,
    largest_difference,
    mpirun,
    pytestmark,
    train,
)

__all__ = ["pytestmark"]
STEPS = ("--max-steps", 8)
SHARDED = ("--shard-optimizer",)
FLAGS = {
    "sgd": ("--precision", "bf16-mixed", "--optimizer", "sgd"),
    "adamw": ("--precision", "bf16-mixed", "--optimizer", "adamw"),
    "float32": ("--optimizer", "adam"),
    "lion": ("--precision", "bf16-mixed", "--optimizer", "lion"),
    "lamb": ("--precision", "bf16-mixed", "--optimizer", "lamb"),
    "muon": ("--precision", "bf16-mixed", "--optimizer", "muon"),
    "clipped": (
        *("--precision", "16-mixed", "--optimizer", "adamw"),
        *("--gradient-clip-val", 0.5, "--ema", 0.9),
    ),
    "accumulated": (
        *("--precision", "16-mixed", "--optimizer", "adamw"),
        *("--accumulate-grad-batches", 2),
    ),
}


def lines_of(folder, event):
    lines = mpctest.read_metrics(folder / "m.jsonl")
    return [line for line in lines if line["event"] == event]


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("mode", FLAGS)
def test_sharding_changes_no_bit(mode, ranks, tmp_path):
    if ranks == 3 and mode not in ("adamw", "clipped"):
        pytest.skip("two ranks are enough")
    flags = (*FLAGS[mode], *STEPS, *mpctest.TARGET)
    expected = train(ranks, tmp_path / "whole", *flags)
    losses, weights = train(ranks, tmp_path / "sharded", *flags, *SHARDED)
    assert losses == expected[0]
    assert largest_difference(weights, expected[1]) == 0
    if mode == "clipped":
        norms = [
            [line["grad_norm"] for line in lines_of(tmp_path / name, "train")]
            for name in ("whole", "sharded")
        ]
        assert norms[0] == norms[1]


def test_an_overflow_skips_the_step_on_all_ranks(tmp_path):
    """A sample of the second step of rank 0 overflows."""
    with np.load(TRAIN) as arrays:
        data = dict(arrays)
    data["image"] = data["image"].astype(np.float32)
    data["image"][40] = 1e6
    np.savez(tmp_path / "data.npz", **data)
    flags = ("--precision", "16-mixed", "--optimizer", "adamw", "--no-shuffle")
    flags += (*STEPS, *mpctest.TARGET)
    expected = train(2, tmp_path / "whole", *flags, data=tmp_path / "data.npz")
    found = train(
        2, tmp_path / "sharded", *flags, *SHARDED, data=tmp_path / "data.npz"
    )
    assert largest_difference(found[1], expected[1]) == 0
    for name in ("whole", "sharded"):
        skipped = [line["skipped"] for line in lines_of(tmp_path / name, "train")]
        assert skipped == [step == 2 for step in range(1, 9)]


def test_the_wire_carries_gradients_once_and_16_bits(tmp_path):
    """An all-reduce sends each element of 4 bytes twice. A sharded step sends
    it once, and 2 bytes of the new weight."""
    flags = ("--precision", "bf16-mixed", "--optimizer", "adamw")
    flags += (*STEPS, *mpctest.TARGET)
    train(2, tmp_path / "whole", *flags)
    train(2, tmp_path / "sharded", *flags, *SHARDED)
    whole, sharded = (
        lines_of(tmp_path / name, "train")[-1]["wire_bytes"]
        for name in ("whole", "sharded")
    )
    assert 0.5 * whole < sharded < 0.8 * whole


def test_each_rank_holds_a_share(tmp_path):
    flags = ("--precision", "bf16-mixed", "--optimizer", "adamw")
    flags += (*STEPS, *mpctest.TARGET)
    train(2, tmp_path / "whole", *flags)
    train(2, tmp_path / "sharded", *flags, *SHARDED)
    whole, sharded = (
        lines_of(tmp_path / name, "start")[0]["state_bytes"]
        for name in ("whole", "sharded")
    )
    # Masters and two moments of 17,000 weights, 12 bytes each: half is gone.
    assert whole - sharded > 0.4 * 12 * 17000


@pytest.mark.parametrize("more", [(), ("--ema", 0.9)])
def test_a_checkpoint_is_whole_and_resumes_on_any_ranks(more, tmp_path):
    flags = ("--precision", "bf16-mixed", "--optimizer", "adamw", *more)
    flags += tuple(mpctest.TARGET)

    def run(name, ranks, steps, *others):
        folder = ("--checkpoint-dir", tmp_path / "runs" / name, "--resume", "auto")
        return train(
            *(ranks, tmp_path / name, *flags, *folder, "--max-steps", steps, *others)
        )

    (tmp_path / "runs").mkdir()
    run("whole", 2, 3)
    run("sharded", 2, 3, *SHARDED)
    states = [
        (tmp_path / "runs" / name / "step-3" / "state.safetensors").read_bytes()
        for name in ("whole", "sharded")
    ]
    assert states[0] == states[1]
    expected = run("whole", 2, 6)
    found = run("sharded", 2, 6, *SHARDED)
    assert found[0] == expected[0]
    assert largest_difference(found[1], expected[1]) == 0
    # With or without the flag, on other numbers of ranks.
    for ranks, others in ((1, ()), (3, SHARDED), (2, ())):
        steps = 7 + ranks
        losses, _ = run("sharded", ranks, steps, *others)
        assert len(losses) >= 1


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_sharded_run_resumes_with_and_without_the_flag(ranks, tmp_path):
    """From one checkpoint of two ranks, the flag changes no bit."""
    flags = ("--precision", "bf16-mixed", "--optimizer", "adamw", "--ema", 0.9)
    flags += tuple(mpctest.TARGET)
    run = tmp_path / "run"
    train(
        *(2, tmp_path / "begin", *flags, *SHARDED),
        *("--checkpoint-dir", run, "--max-steps", 3),
    )

    def resume(name, *others):
        folder = ("--resume", run / "step-3", "--max-steps", 6)
        return train(ranks, tmp_path / name, *flags, *folder, *others)

    expected = resume("whole")
    found = resume("sharded", *SHARDED)
    assert len(found[0]) == 3 and found[0] == expected[0]
    assert largest_difference(found[1], expected[1]) == 0
    # Negative control: the steps differ from those of a new run.
    fresh = train(ranks, tmp_path / "fresh", *flags, "--max-steps", 3)
    assert fresh[0] != found[0]


def test_evaluations_and_the_best_weights_are_equal(tmp_path):
    flags = ("--precision", "bf16-mixed", "--optimizer", "adamw", "--ema", 0.9)
    flags += ("--val-every", 2, "--val-data", mpctest.DIGITS / "digits-test.npz")
    flags += ("--best", "loss", *STEPS, *mpctest.TARGET)
    expected = train(2, tmp_path / "whole", *flags)
    found = train(2, tmp_path / "sharded", *flags, *SHARDED)
    assert found[0] == expected[0]
    evaluations = [
        [line["eval_loss"] for line in lines_of(tmp_path / name, "eval")]
        for name in ("whole", "sharded")
    ]
    assert len(evaluations[0]) == 4 and evaluations[0] == evaluations[1]
    assert largest_difference(found[1], expected[1]) == 0


def test_one_rank_trains_as_without_the_flag(tmp_path):
    flags = ("--precision", "bf16-mixed", "--optimizer", "adamw")
    flags += (*STEPS, *mpctest.TARGET)
    expected = train(1, tmp_path / "whole", *flags)
    found = train(1, tmp_path / "sharded", *flags, *SHARDED)
    assert found[0] == expected[0]
    assert largest_difference(found[1], expected[1]) == 0


def test_an_artifact_trains_on_any_ranks(tmp_path):
    artifact = compiled(tmp_path, "--shard-optimizer", "--optimizer", "adamw")
    for ranks in (1, 2):
        process = mpirun(
            *(ranks, "train", artifact, "--data", mpctest.DIGITS / "digits-train.npz"),
            *("--threads", 1, *STEPS, "--output", tmp_path / f"{ranks}.npz"),
        )
        assert process.returncode == 0, process.stderr
        assert pathlib.Path(tmp_path / f"{ranks}.npz").exists()
