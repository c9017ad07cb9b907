"""A run goes on at the same sample of the epoch on another number of ranks, and
all numbers of ranks use the samples of a data set equally.

SPDX-License-Identifier: Apache-2.0
"""

import json
import re
import shutil

import numpy as np
import pytest

import mpctest
import test_ranks

REFUSED = 8  # exit code
# 7 steps of 24 samples, and a rest of 11.
SAMPLES, STEP = 179, 24
STEPS_OF_EPOCH = SAMPLES // STEP

pytestmark = test_ranks.pytestmark


@pytest.fixture(scope="module", name="data")
def fixture_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with np.load(test_ranks.TRAIN) as arrays:
        np.savez(folder / "train.npz", **{k: v[:SAMPLES] for k, v in arrays.items()})
        for size in (1, 7, 31, 50):
            part = {k: v[200 : 200 + size] for k, v in arrays.items()}
            np.savez(folder / f"val-{size}.npz", **part)
    return folder


def launch(count, data, folder, *flags, model="mlp"):
    """Trains on `count` ranks with checkpoints in `folder`."""
    folder.mkdir(exist_ok=True)
    return test_ranks.mpirun(
        *(count, "train", mpctest.MODELS / f"{model}.onnx"),
        *("--loss", "softmax_cross_entropy", "--data", data / "train.npz"),
        *("--device", "cpu", "--threads", 1, "--lr", 0.05, "--seed", 5),
        *("--metrics", folder / "m.jsonl", *flags, *mpctest.TARGET),
    )


def train(count, data, folder, *flags, **more):
    """Like `launch`, for a run that succeeds. Returns its steps and messages."""
    process = launch(count, data, folder, *flags, **more)
    assert process.returncode == 0, process.stderr
    lines = mpctest.read_metrics(folder / "m.jsonl")
    return [line for line in lines if line["event"] == "train"], process.stderr


def places(steps):
    return [(s["step"], s["epoch"], s["samples"]) for s in steps]


def losses(steps):
    return [step["loss"] for step in steps]


@pytest.fixture(scope="module", name="whole")
def fixture_whole(data, tmp_path_factory):
    """The steps of an undisturbed run of three epochs on one rank."""
    folder = tmp_path_factory.mktemp("whole")
    steps, _ = train(1, data, folder, "--batch-size", STEP, "--epochs", 3)
    assert len(steps) == 3 * STEPS_OF_EPOCH
    return steps


def test_a_step_may_be_divided_among_other_ranks(data, whole, tmp_path):
    """Each part of the run begins in the middle of an epoch."""
    flags = ("--global-batch-size", STEP, "--epochs", 3)
    flags += ("--checkpoint-dir", tmp_path / "run", "--resume", "auto")
    steps = []
    for count, last in ((2, 3), (3, 10), (1, 12), (4, 17), (2, 0)):
        part, messages = train(
            *(count, data, tmp_path / f"until-{last}", *flags),
            *(("--max-steps", last) if last else ()),
        )
        steps += part
        assert ("ranks was" in messages) == (last != 3)
    assert places(steps) == places(whole)
    assert losses(steps) == pytest.approx(losses(whole), rel=1e-4)
    # Negative control: other samples have other losses.
    other, _ = train(
        2, data, tmp_path / "other", "--global-batch-size", STEP, "--epochs", 3,
        "--seed", 6,
    )
    assert losses(other)[1:] != pytest.approx(losses(whole)[1:], rel=1e-2)


def test_ranks_take_over_the_batches_that_one_accumulates(data, whole, tmp_path):
    flags = ("--batch-size", STEP // 2, "--epochs", 3)
    flags += ("--checkpoint-dir", tmp_path / "run", "--resume", "auto")
    steps, _ = train(
        1, data, tmp_path / "one", *flags, "--accumulate-grad-batches", 2,
        "--max-steps", 5,
    )
    steps += train(2, data, tmp_path / "two", *flags, "--max-steps", 11)[0]
    steps += train(
        1, data, tmp_path / "last", *flags, "--accumulate-grad-batches", 2
    )[0]
    assert places(steps) == places(whole)
    assert losses(steps) == pytest.approx(losses(whole), rel=1e-4)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_decisions_of_another_batch_are_no_obstacle(precision, data, tmp_path):
    """The batch of a rank decides about types."""
    flags = ("--global-batch-size", STEP, "--precision", precision)
    flags += ("--checkpoint-dir", tmp_path / "run", "--resume", "auto")
    train(2, data, tmp_path / "two", *flags, "--max-steps", 3)
    steps, _ = train(3, data, tmp_path / "three", *flags, "--max-steps", 6)
    assert places(steps) == [(4, 0, 96), (5, 0, 120), (6, 0, 144)]


def test_a_step_of_other_samples_is_refused(data, tmp_path):
    folder = ("--checkpoint-dir", tmp_path / "run", "--resume", "auto")
    train(2, data, tmp_path / "two", "--batch-size", 12, *folder, "--max-steps", 3)
    process = launch(3, data, tmp_path / "three", "--batch-size", 10, *folder)
    assert process.returncode == REFUSED, process.stderr
    assert "batch size was 12, now it is 10" in process.stderr
    assert process.stderr.count("checkpoint of another run") == 1
    # An equal number of ranks may not divide the step otherwise.
    process = launch(
        2, data, tmp_path / "again", "--batch-size", 6,
        "--accumulate-grad-batches", 2, *folder,
    )
    assert process.returncode == REFUSED, process.stderr
    assert "accumulate was 1, now it is 2" in process.stderr


def test_equal_batches_on_more_ranks_go_on_at_the_next_sample(data, tmp_path):
    """Two ranks take 6 steps of 24 samples, then three take the next 24."""
    flags = ("--batch-size", 12, "--epochs", 2)
    flags += ("--checkpoint-dir", tmp_path / "run", "--resume", "auto")
    train(2, data, tmp_path / "two", *flags, "--max-steps", 6)
    steps, messages = train(
        3, data, tmp_path / "three", *flags, "--log-every", 0
    )
    # 35 samples are left, which fill no step of 36. The next epoch has 4 steps.
    assert places(steps) == [(6 + n, 1, 144 + 36 * n) for n in range(1, 5)]
    shown = re.findall(r"epoch (\d+)/(\d+)", messages)
    assert shown and set(shown) == {("2", "2")}
    assert "4 steps of 12 on 3 ranks, 4 an epoch, from step 6" in messages


def test_lines_of_an_epoch_end_where_its_samples_do(data, tmp_path):
    flags = ("--batch-size", 12, "--epochs", 2, "--log-every", 0)
    flags += ("--checkpoint-dir", tmp_path / "run", "--resume", "auto")
    train(2, data, tmp_path / "two", *flags, "--max-steps", 3)
    # 72 samples are seen, so 8 steps of 12 are left of this epoch, and 14 of
    # the next.
    _, messages = train(1, data, tmp_path / "one", *flags)
    assert re.findall(r"epoch (\d/\d) done  step (\d+/\d+)", messages) == [
        ("1/2", "11/25"),
        ("2/2", "25/25"),
    ]


def test_inspect_prints_the_place_in_the_epoch(data, tmp_path):
    flags = ("--global-batch-size", STEP, "--checkpoint-dir", tmp_path / "run")
    train(2, data, tmp_path / "two", *flags, "--epochs", 3, "--max-steps", 9)
    shown = json.loads(
        mpctest.mpc_ok("inspect", tmp_path / "run" / "step-9", "--format", "json").stdout
    )
    assert shown["progress"]["epochs"] == 1
    assert shown["progress"]["step_in_epoch"] == 9 - STEPS_OF_EPOCH
    assert shown["progress"]["sample_in_epoch"] == (9 - STEPS_OF_EPOCH) * STEP
    assert shown["run"]["samples of a step"] == str(STEP)


@pytest.mark.parametrize("last", ["drop", "keep"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_rest_of_an_epoch_is_treated_as_by_one(last, count, data, tmp_path):
    """A rank that accumulates `count` batches takes the samples of all ranks."""
    flags = ("--batch-size", 8, "--epochs", 2, "--last-batch", last)
    steps, _ = train(count, data, tmp_path / "ranks", *flags)
    alone, _ = train(
        1, data, tmp_path / "one", *flags, "--accumulate-grad-batches", count
    )
    whole = SAMPLES / (8 * count)
    expected = 2 * (int(whole) if last == "drop" else int(np.ceil(whole)))
    assert len(steps) == expected
    assert places(steps) == places(alone)
    assert losses(steps) == pytest.approx(losses(alone), rel=1e-4)


@pytest.mark.parametrize("size", [1, 7, 31, 50])
def test_evaluations_count_every_sample_once(size, data, tmp_path):
    """Some ranks have no sample, or part of a batch."""
    flags = ("--batch-size", 12, "--max-steps", 4)
    train(1, data, tmp_path / "base", *flags, "--checkpoint-dir", tmp_path / "run")
    found = {}
    for count in (1, 2, 3, 4):
        folder = tmp_path / str(count)
        shutil.copytree(tmp_path / "run", folder / "run")
        # Resuming after the last step only evaluates.
        _, messages = train(
            *(count, data, folder, *flags),
            *("--checkpoint-dir", folder / "run", "--resume", "auto"),
            *("--val-data", data / f"val-{size}.npz", "--metric", "f1,top2"),
        )
        assert f" on {size} sample" in messages
        lines = mpctest.read_metrics(folder / "m.jsonl")
        (found[count],) = [line for line in lines if line["event"] == "eval"]
    for count in (2, 3, 4):
        assert found[count] == pytest.approx(found[1], rel=1e-6)
