"""Ranks of python/runtime/mpc_runtime divide the optimizer among them.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import mpc_runtime as mpc
from conftest import MODEL, RECIPE
from test_communicator import BATCH, STEPS, cut, digest, on_ranks, train

FLAGS = {**RECIPE, "precision": "bf16-mixed", "batch_size": BATCH}


@pytest.fixture(scope="module", name="whole")
def compile_whole():
    return mpc.compile(MODEL, data_parallel=True, **FLAGS)


@pytest.fixture(scope="module", name="sharded")
def compile_sharded():
    return mpc.compile(MODEL, shard_optimizer=True, **FLAGS)


@pytest.mark.parametrize("size", [2, 3])
def test_sharding_changes_no_bit(whole, sharded, size):
    """`train` reads all state after every step."""
    expected = on_ranks(size, lambda ranks, _: train(whole, ranks))
    found = on_ranks(size, lambda ranks, _: train(sharded, ranks))
    assert len(set(expected[0][1])) == STEPS
    for run in (*expected, *found):
        assert run[:2] == expected[0][:2]


def test_each_rank_holds_a_share(whole, sharded):
    def measure(artifact):
        def use(ranks, _):
            with mpc.Session(artifact, threads=1, communicator=ranks) as session:
                return session.memory_bytes

        return sum(on_ranks(2, use))

    with mpc.Session(whole, threads=1) as session:
        weights = sum(value.size for value in session.state.parameters().values())
    # Masters and two moments, 12 bytes each, on one rank in place of two.
    assert measure(whole) - measure(sharded) > 0.9 * 12 * weights


def test_weights_and_state_are_whole(sharded, tmp_path):
    path = tmp_path / "weights.safetensors"

    def save(ranks, _):
        with mpc.Session(sharded, threads=1, communicator=ranks) as session:
            name = "fc2.weight"
            session.state[name] = session.state[name] + np.float32(1)
            # Only rank 0 writes.
            session.save(path if ranks.rank == 0 else "/no/such/w.safetensors")
            return digest(session)

    first, second = on_ranks(2, save)
    assert first == second

    def load(ranks, _):
        with mpc.Session(sharded, threads=1, communicator=ranks) as session:
            session.load(path)
            return digest(session)

    assert on_ranks(3, load) == [first] * 3
    with mpc.Session(sharded, threads=1) as session:
        session.load(path)
        assert digest(session) == first


def test_a_checkpoint_resumes_on_any_ranks(whole, sharded, tmp_path):
    def run(artifact, name, first):
        def use(ranks, _):
            with mpc.Session(artifact, threads=1, communicator=ranks) as session:
                with mpc.Trainer(
                    session, checkpoint_dir=tmp_path / name, resume="auto"
                ) as trainer:
                    assert trainer.progress.step == first
                    for batch in cut(2 * ranks.size)[ranks.rank :: ranks.size]:
                        trainer.step(batch)
                    trainer.save()
                    return digest(session)

        return use

    digests = [
        on_ranks(2, run(artifact, name, 0))
        for artifact, name in ((whole, "whole"), (sharded, "sharded"))
    ]
    assert digests[0] == digests[1] == [digests[0][0]] * 2
    states = [
        (tmp_path / name / "step-2" / "state.safetensors").read_bytes()
        for name in ("whole", "sharded")
    ]
    assert states[0] == states[1]
    # Another number of ranks, and another artifact.
    three = on_ranks(3, run(sharded, "sharded", 2))
    assert three == [three[0]] * 3
    assert len(on_ranks(1, run(whole, "sharded", 4))[0]) == 64
    two = on_ranks(2, run(whole, "sharded", 6))
    assert two == [two[0]] * 2


def test_other_calls_on_a_rank_are_an_error(sharded):
    def read(ranks, _):
        with mpc.Session(sharded, threads=1, communicator=ranks) as session:
            with pytest.raises(mpc.UsageError, match="all ranks must make equal calls"):
                _ = session.state["fc1.weight" if ranks.rank else "fc2.weight"]
            value = session.state["fc1.weight"]
            with pytest.raises(mpc.UsageError, match="rank 1 sets another value"):
                session.state["fc1.weight"] = value + ranks.rank
            return "done"

    assert on_ranks(2, read) == ["done"] * 2


def test_averages_are_evaluated_elsewhere():
    artifact = mpc.compile(MODEL, shard_optimizer=True, ema=0.9, **FLAGS)

    def evaluate(ranks, _):
        with mpc.Session(artifact, threads=1, communicator=ranks) as session:
            with pytest.raises(mpc.UnsupportedError, match="lies on one of several"):
                session.evaluate(cut(1)[0])
            return "done"

    assert on_ranks(2, evaluate) == ["done"] * 2
