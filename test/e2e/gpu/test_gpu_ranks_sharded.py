"""`--shard-optimizer` on emulated GPUs: each GPU holds and updates a share of the
parameters, and the run trains to the bits of a run that is not sharded.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import mpctest
from test_gpu_ranks import (
    STEPS,
    calls,
    flags,
    losses,
    pytestmark,
    run,
    train,
    write_samples,
)

__all__ = ["pytestmark"]
SHARDED = "--shard-optimizer"
MODES = {
    "float32": ("32-true", "--optimizer", "adam"),
    "adamw": ("bf16-mixed", "--optimizer", "adamw"),
    "clipped": (
        *("16-mixed", "--optimizer", "adamw", "--gradient-clip-val", 0.5),
        *("--ema", 0.9),
    ),
    "muon": ("bf16-mixed", "--optimizer", "muon", "--accumulate-grad-batches", 2),
}


def start_of(folder):
    return mpctest.read_metrics(folder / "m.jsonl")[0]


def assert_same_bits(weights, expected):
    assert weights.keys() == expected.keys()
    for name, weight in expected.items():
        np.testing.assert_array_equal(weights[name], weight)


@pytest.mark.parametrize("mode", MODES)
def test_sharding_changes_no_bit(mode, tmp_path):
    samples = write_samples(tmp_path)
    precision, *more = MODES[mode]
    events, weights = train(2, tmp_path / "whole", precision, samples, *more)
    found, sharded = train(
        2, tmp_path / "sharded", precision, samples, *more, SHARDED
    )
    assert losses(found) == losses(events)
    assert_same_bits(sharded, weights)
    if mode == "clipped":
        assert [e["grad_norm"] for e in found] == [e["grad_norm"] for e in events]
    # Gradients and weights stay on the GPUs, within the graph: a step runs
    # eagerly, one is recorded, and the others are launches. @derive has a call
    # for each low copy.
    for rank in range(2):
        names = calls(tmp_path / "sharded", rank)
        assert names.count("ncclReduce") == 2 * len(weights)
        assert names.count("ncclBroadcast") >= 2 * len(weights)
        assert names.count("ncclGroupStart") == names.count("ncclGroupEnd") > 0
        assert names.count("cuGraphLaunch") >= STEPS - 1
        assert names.count("ncclCommDestroy") == 1


def test_gpus_hold_and_send_a_share(tmp_path):
    samples = write_samples(tmp_path)
    precision, *more = MODES["adamw"]
    whole, weights = train(2, tmp_path / "whole", precision, samples, *more)
    sharded, _ = train(2, tmp_path / "sharded", precision, samples, *more, SHARDED)
    count = sum(weight.size for weight in weights.values())
    # Masters and two moments of all weights, 12 bytes each: half is gone.
    saved = start_of(tmp_path / "whole")["state_bytes"]
    saved -= start_of(tmp_path / "sharded")["state_bytes"]
    assert saved > 0.4 * 12 * count
    # Two ranks send half of 8 bytes for each weight, or half of 4 + 2.
    sent = [events[-1]["wire_bytes"] for events in (whole, sharded)]
    assert 0.6 * sent[0] < sent[1] < 0.9 * sent[0]


def test_an_overflow_on_one_gpu_skips_the_step_on_both(tmp_path):
    samples = write_samples(tmp_path, scale=1e6)
    more = ("--optimizer", "adamw")
    events, weights = train(2, tmp_path / "whole", "16-mixed", samples, *more)
    found, sharded = train(
        2, tmp_path / "sharded", "16-mixed", samples, *more, SHARDED
    )
    skipped = [event["skipped"] for event in found]
    assert skipped == [event["skipped"] for event in events]
    assert skipped == [False, False, False, True, False, False]
    scales = [event["loss_scale"] for event in found]
    assert scales == [event["loss_scale"] for event in events]
    assert_same_bits(sharded, weights)


def test_a_checkpoint_of_gpus_is_whole(tmp_path):
    samples = write_samples(tmp_path)
    precision, *more = MODES["adamw"]
    (tmp_path / "runs").mkdir()
    states = []
    for name, sharded in (("whole", ()), ("sharded", (SHARDED,))):
        folder = ("--checkpoint-dir", tmp_path / "runs" / name)
        train(2, tmp_path / name, precision, samples, *more, *folder, *sharded)
        path = tmp_path / "runs" / name / f"step-{STEPS}" / "state.safetensors"
        states.append(path.read_bytes())
    assert states[0] == states[1]

    def resume(name, ranks, *sharded):
        (tmp_path / name).mkdir()
        process = run(
            *(ranks, tmp_path / name, *flags(tmp_path / name, precision, samples)),
            *(*more, "--resume", tmp_path / "runs" / "sharded" / f"step-{STEPS}"),
            *("--max-steps", STEPS + 2, *sharded),
        )
        assert process.returncode == 0, process.stderr
        events = mpctest.read_metrics(tmp_path / name / "m.jsonl")
        return [e["loss"] for e in events if e["event"] == "train"]

    expected = resume("two", 2)
    assert len(expected) == 2
    assert resume("two-sharded", 2, SHARDED) == expected
    assert resume("one", 1) == resume("one-sharded", 1, SHARDED)
