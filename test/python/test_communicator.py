"""Several ranks train through python/runtime/mpc_runtime: threads with a back end
in Python, and processes that mpirun starts.

SPDX-License-Identifier: Apache-2.0
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import mpc_runtime as mpc
import mpctest
from conftest import MODEL, RECIPE, load_digits

BATCH, STEPS = 16, 4


class Threads:
    """A back end for the threads of one process."""

    def __init__(self, size):
        self.meeting = threading.Barrier(size, timeout=60)
        self.given = [None] * size

    def rank(self, rank):
        return ThreadBackend(self, rank)


class ThreadBackend:
    name = "python threads"

    def __init__(self, shared, rank):
        self.shared, self.rank = shared, rank
        self.reasons = []

    def meet(self, array, copy):
        self.shared.given[self.rank] = array
        self.shared.meeting.wait()
        for rank, theirs in enumerate(self.shared.given):
            copy(rank, theirs)
        self.shared.meeting.wait()

    def exchange(self, source, target):
        self.meet(source, lambda rank, theirs: np.copyto(target[rank], theirs[self.rank]))

    def gather(self, data):
        def copy(rank, theirs):
            if rank != self.rank:
                data[rank] = theirs[rank]

        self.meet(data, copy)

    def broadcast(self, data, root):
        def copy(rank, theirs):
            if rank == root != self.rank:
                np.copyto(data, theirs)

        if self.rank != root:
            # The array of a receiver is for writing.
            assert data.flags.writeable
        self.meet(data, copy)

    def barrier(self):
        self.meet(None, lambda rank, theirs: None)

    def abort(self, why):
        self.reasons.append(why)
        self.shared.meeting.abort()


def on_ranks(size, use):
    """Calls use(communicator, back end) on a thread for each rank. Returns the
    results, or the exceptions."""
    shared, results = Threads(size), [None] * size

    def run(rank):
        backend = shared.rank(rank)
        try:
            with mpc.Communicator(rank, size, backend) as communicator:
                results[rank] = use(communicator, backend)
        except Exception as error:  # pylint: disable=broad-except
            # The other ranks may be leaving the last meeting, so do not end it.
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture(scope="module", name="artifact")
def compile_for_ranks():
    return mpc.compile(
        MODEL, data_parallel=True, **{**RECIPE, "optimizer": "sgd", "batch_size": BATCH}
    )


def cut(count):
    """Returns `count` batches of digits in order."""
    digits = load_digits("train")
    return [
        {name: array[i : i + BATCH] for name, array in digits.items()}
        for i in range(0, BATCH * count, BATCH)
    ]


def digest(session):
    """Returns a digest of all state but the running statistics."""
    total = hashlib.sha256()
    for name, value in sorted(session.state.items()):
        if "running" not in name:
            total.update(name.encode() + value.tobytes())
    return total.hexdigest()


def train(artifact, communicator, steps=STEPS):
    """Returns the losses, and digests of the state after every step."""
    batches = cut(steps * communicator.size)[communicator.rank :: communicator.size]
    losses, digests = [], []
    with mpc.Session(artifact, threads=1, communicator=communicator) as session:
        with mpc.Trainer(session, learning_rate=0.1) as trainer:
            for batch in batches:
                losses.append(trainer.step(batch).loss)
                digests.append(digest(session))
            assert trainer.progress.batches == steps * communicator.size
            trainer.check_ranks()
        return losses, digests, session.state.parameters()


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_have_equal_bits_after_every_step(artifact, size):
    runs = [
        on_ranks(size, lambda ranks, _: train(artifact, ranks)) for _ in range(2)
    ]
    losses, digests, _ = runs[0][0]
    assert len(set(digests)) == STEPS
    for found in (*runs[0], *runs[1]):
        assert found[:2] == (losses, digests)
    # Negative control: one rank with these batches.
    with mpc.Session(artifact, threads=1) as session, mpc.Trainer(
        session, learning_rate=0.1
    ) as trainer:
        for batch in cut(STEPS * size)[::size]:
            trainer.step(batch)
        assert digest(session) != digests[-1]


def test_ranks_train_as_one_that_accumulates(artifact):
    flags = {**RECIPE, "optimizer": "sgd", "batch_size": BATCH}
    single = mpc.compile(MODEL, accumulate_grad_batches=2, **flags)
    (losses, _, weights), _ = on_ranks(2, lambda ranks, _: train(artifact, ranks))
    with mpc.Session(single, threads=1) as session:
        with mpc.Trainer(session, learning_rate=0.1) as trainer:
            results = [trainer.step(batch) for batch in cut(2 * STEPS)]
        expected = [result.loss for result in results if result.is_step]
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        for name, weight in session.state.parameters().items():
            np.testing.assert_allclose(weights[name], weight, atol=1e-5)


def test_ranks_evaluate_all_samples(artifact):
    data = load_digits("test")

    def evaluate(ranks, _):
        own = {name: array[ranks.rank :: 2] for name, array in data.items()}
        with mpc.Session(artifact, threads=1, communicator=ranks) as session:
            return session.evaluate(own, ["f1"])

    first, second = on_ranks(2, evaluate)
    assert first == second and first["samples"] == len(data["target"])
    with mpc.Session(artifact, threads=1) as session:
        expected = session.evaluate(data, ["f1"])
    assert first == pytest.approx(expected, rel=1e-6)


def test_another_state_on_one_rank_is_an_error(artifact):
    def disturb(ranks, _):
        with mpc.Session(artifact, threads=1, communicator=ranks) as session:
            with mpc.Trainer(session) as trainer:
                if ranks.rank == 1:
                    weight = session.state["fc2.weight"]
                    weight[0, 0] = np.nextafter(weight[0, 0], np.float32(9))
                    session.state["fc2.weight"] = weight
                trainer.check_ranks()

    for error in on_ranks(2, disturb):
        assert isinstance(error, mpc.RankError)
        assert "'fc2.weight' is not the same on rank 1 as on rank 0" in str(error)


def test_a_batch_refused_on_one_rank_is_refused_on_all(artifact):
    def refuse(ranks, _):
        batch = cut(1)[0]
        if ranks.rank == 1:
            batch = {**batch, "image": np.full((BATCH, 1, 8, 8), np.nan)}
        with mpc.Session(artifact, threads=1, communicator=ranks) as session:
            with mpc.Trainer(session) as trainer:
                kind = mpc.InvalidInputError if ranks.rank == 1 else mpc.RankError
                with pytest.raises(kind):
                    trainer.step(batch)
                return trainer.step(cut(1)[0]).loss

    first, second = on_ranks(2, refuse)
    assert first == second > 0


def test_an_exception_of_the_back_end_is_an_error(artifact, capfd):
    def fail(ranks, backend):
        with mpc.Session(artifact, threads=1, communicator=ranks) as session:
            with mpc.Trainer(session) as trainer:
                if ranks.rank == 1:
                    backend.gather = backend.exchange = lambda *_: 1 / 0
                with pytest.raises(mpc.RankError, match="'python threads' returned 1"):
                    trainer.step(cut(1)[0])
                if ranks.rank == 1:
                    while backend.shared.meeting.n_waiting == 0:
                        time.sleep(0.01)
                    ranks.abort("no zero")
                return backend.reasons

    assert on_ranks(2, fail) == [[], ["rank 1: no zero"]]
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_wrong_uses_are_refused(artifact):
    backend = Threads(2).rank(0)
    for rank, size in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(mpc.UsageError):
            mpc.Communicator(rank, size, backend)
    with pytest.raises(TypeError, match="no method exchange"):
        mpc.Communicator(0, 2, object())
    with pytest.raises(TypeError):
        mpc.Session(artifact, communicator=backend)
    with pytest.raises(mpc.UsageError):
        mpc.Communicator.connect(ranks=2)
    communicator = mpc.Communicator(0, 2, backend)
    assert (communicator.rank, communicator.size) == (0, 2)
    assert (communicator.local_rank, communicator.local_size) == (0, 1)
    assert communicator.backend == "python threads" and communicator.bytes_sent == 0
    single = mpc.compile(MODEL, **RECIPE)
    with pytest.raises(mpc.UnsupportedError, match="--data-parallel"):
        mpc.Session(single, communicator=communicator)
    communicator.close()
    communicator.close()
    with pytest.raises(mpc.UsageError, match="the communicator is closed"):
        mpc.Session(artifact, communicator=communicator)


PROGRAM = """
import json, sys
import mpc_runtime as mpc
from test_communicator import train
with mpc.Communicator.connect(rank_timeout=60) as ranks:
    losses, digests, _ = train(mpc.open(sys.argv[1]), ranks)
    ranks.barrier()
    place = [ranks.rank, ranks.size, ranks.local_rank, ranks.local_size, ranks.backend]
    with open(f"{sys.argv[2]}-{ranks.rank}.json", "w") as file:
        json.dump({"losses": losses, "digests": digests, "place": place}, file)
"""


@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
def test_processes_of_mpirun_train_as_threads(artifact, tmp_path):
    """The results do not depend on the back end."""
    path = tmp_path / "ranks.mpc"
    flags = {**RECIPE, "optimizer": "sgd", "batch_size": BATCH}
    mpc.run_command("compile", MODEL, output=path, data_parallel=True, **flags)
    folders = [mpctest.ROOT / name for name in ("python/runtime", "test/python", "test")]
    environment = os.environ | {
        "PYTHONPATH": ":".join(map(str, folders)),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    process = subprocess.run(
        ["mpirun", "--oversubscribe", "-n", "2", sys.executable, "-c", PROGRAM]
        + [path, tmp_path / "out"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    found = [json.loads((tmp_path / f"out-{r}.json").read_text()) for r in range(2)]
    threads = on_ranks(2, lambda ranks, _: train(artifact, ranks))
    for rank, result in enumerate(found):
        assert result["place"] == [rank, 2, rank, 2, "mpi"]
        assert (result["losses"], result["digests"]) == threads[0][:2]
