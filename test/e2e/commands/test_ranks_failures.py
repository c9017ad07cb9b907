"""A failure on one rank or on all ranks ends all with one message and one code.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

import mpctest
import test_faults
import test_ranks
import test_ranks_gloo

USAGE, INPUT, IO, NUMERIC = 2, 3, 5, 7  # exit codes
LAUNCHERS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            not shutil.which(name), reason=f"{name} is not installed"
        ),
    )
    for name in ("mpirun.openmpi", "mpirun.mpich")
]
LAUNCHERS += [pytest.param("gloo", marks=test_ranks_gloo.pytestmark)]


@pytest.fixture(scope="module", name="bad_data")
def fixture_bad_data(tmp_path_factory):
    """Data with a label that the model has no class for."""
    path = tmp_path_factory.mktemp("data") / "bad.npz"
    with np.load(test_ranks.TRAIN) as arrays:
        arrays = dict(arrays)
    arrays["target"] = arrays["target"].astype(np.int64)
    arrays["target"][40] = 99
    np.savez(path, **arrays)
    return path


def flags_of(*own):
    flags = (
        *("train", test_ranks.MODEL, "--loss", "softmax_cross_entropy"),
        *("--device", "cpu", "--threads", 1, "--batch-size", 16),
    )
    return [*map(str, (*flags, *own))]


def train(launcher, *ranks, faults=None, rank=None, cwd=None):
    """Trains on a rank for each entry of `ranks`, which has the rank's own flags.
    The rank `rank` runs under the injector with the variables `faults`. Returns
    the exit code that all ranks or the launcher have, and all texts of stderr."""
    commands = [[mpctest.MPC, *flags_of(*own)] for own in ranks]
    if launcher == "gloo":
        return train_by_gloo(commands, faults, rank, cwd)
    if rank is not None:
        setting = [f"{name}={value}" for name, value in faults.items()]
        commands[rank] = ["env", *setting, *commands[rank]]
    line = [launcher] + ["--oversubscribe"] * (launcher == "mpirun.openmpi")
    for index, command in enumerate(commands):
        line += [":"] * (index > 0) + ["-n", "1", *command]
    process = subprocess.run(
        line,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env=test_ranks.ENVIRONMENT,
    )
    return process.returncode, process.stderr


def train_by_gloo(commands, faults, rank, cwd):
    port = test_ranks_gloo.free_port()
    processes = []
    for index, command in enumerate(commands):
        environment = test_ranks_gloo.environment(index, len(commands), port)
        processes.append(
            subprocess.Popen(
                command,
                cwd=cwd,
                env=environment | (faults if index == rank else {}),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        texts = [process.communicate(timeout=60)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    codes = {process.returncode for process in processes}
    assert len(codes) == 1, (codes, texts)
    return codes.pop(), "".join(texts)


def errors_of(text):
    return [line for line in text.splitlines() if "error: " in line]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_failure_of_all_ranks_is_told_once(launcher):
    code, text = train(launcher, *[("--data", "none.npz")] * 3)
    assert code == IO
    assert errors_of(text) == ["error: none.npz: cannot open: No such file or directory"]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_failure_of_one_rank_has_the_number_of_the_rank(launcher, bad_data):
    good = ("--data", test_ranks.TRAIN)
    code, text = train(launcher, good, good, ("--data", bad_data))
    assert code == INPUT
    (error,) = errors_of(text)
    assert error.startswith("rank 2: error: ")
    assert "label 99 is not in [0,10)" in error


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_loss_that_is_not_finite_ends_all_ranks(launcher):
    flags = ("--data", test_ranks.TRAIN, "--optimizer", "sgd", "--lr", 1e30)
    code, text = train(launcher, flags, flags)
    assert code == NUMERIC
    (error,) = errors_of(text)
    assert error.startswith("error: step 11: the loss has not been finite")


@pytest.mark.skipif(
    not test_faults.INJECTOR.exists(), reason="this build has no injector"
)
# MPICH itself writes to files of shared memory.
@pytest.mark.parametrize("launcher", [LAUNCHERS[0], LAUNCHERS[2]])
@pytest.mark.parametrize("call", ["write", "rename"])
def test_a_full_disk_of_rank_0_ends_all_ranks(launcher, call, tmp_path):
    """The disk of rank 0 is full from some call on."""
    flags = (
        *("--data", test_ranks.TRAIN, "--max-steps", 8, "--checkpoint-every", 2),
        *("--checkpoint-dir", tmp_path / "c", "--output", tmp_path / "o.safetensors"),
        *("--metrics", tmp_path / "m.jsonl", "--overwrite-metrics"),
    )
    for first in (1, 6) if call == "write" else (1,):
        faults = {
            **{"LD_PRELOAD": str(test_faults.INJECTOR)},
            **{"MPC_FAULT": f"{call}:{first}:{test_faults.ENOSPC}+"},
            **{"MPC_FAULT_UNDER": str(tmp_path)},
        }
        code, text = train(launcher, flags, flags, faults=faults, rank=0, cwd=tmp_path)
        assert code == IO, text
        assert errors_of(text), text
        assert all("No space left on device" in x for x in errors_of(text))
        shutil.rmtree(tmp_path / "c", ignore_errors=True)


def test_a_row_of_variables_with_a_gap_is_told():
    process = subprocess.run(
        [mpctest.MPC, *flags_of("--data", test_ranks.TRAIN, "--max-steps", 1)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"},
    )
    assert process.returncode == 0, process.stderr
    assert (
        "warning: RANK and WORLD_SIZE are set, but MASTER_PORT is not, so this "
        "process trains alone" in process.stderr
    )


EVALUATION = ("--val-data", test_ranks.TRAIN, "--metric")


@pytest.mark.skipif(
    not shutil.which("mpirun.openmpi"), reason="mpirun.openmpi is not installed"
)
@pytest.mark.parametrize(
    "flags, other, difference",
    [
        (
            (*EVALUATION, "f1,mcc"),
            (*EVALUATION, "mcc,f1"),
            "metrics is mcc,f1, rank 0 has f1,mcc",
        ),
        (
            ("--shard-optimizer",),
            (),
            "shard_optimizer of the recipe is false, rank 0 has true",
        ),
        (
            (),
            ("--accumulate-grad-batches", 2),
            "accumulate of the recipe is 2, rank 0 has 1",
        ),
        (
            ("--check-ranks-every", 2),
            (),
            "comparisons of ranks is every 1000 steps, rank 0 has every 2 steps",
        ),
        (
            ("--checkpoint-dir", "run", "--checkpoint-every", 2),
            (),
            "checkpoints is none, rank 0 has every 2 steps",
        ),
        (
            (),
            ("--checkpoint-dir", "run"),
            "checkpoints is every epoch, rank 0 has none",
        ),
    ],
)
def test_other_flags_of_one_rank_are_named(flags, other, difference, tmp_path):
    base = ("--data", test_ranks.TRAIN, "--max-steps", 4)
    code, text = train("mpirun.openmpi", (*base, *flags), (*base, *other), cwd=tmp_path)
    assert code == USAGE, text
    (error,) = errors_of(text)
    assert error.startswith("error: rank 1: trains another run than rank 0: ")
    assert difference in error


@pytest.mark.skipif(
    not shutil.which("mpirun.openmpi"), reason="mpirun.openmpi is not installed"
)
def test_a_value_that_is_not_finite_is_found_on_its_rank(tmp_path):
    """The first step has samples 0 to 31, half of them on rank 1."""
    with np.load(test_ranks.TRAIN) as arrays:
        arrays = dict(arrays)
    ranks = set()
    for sample in (0, 31):
        image = arrays["image"].astype(np.float32)
        image[sample, 0, 0, 0] = np.nan
        np.savez(tmp_path / "nan.npz", **{**arrays, "image": image})
        flags = ("--data", tmp_path / "nan.npz", "--allow-nan", "--max-nonfinite", 1)
        code, text = train(
            *("mpirun.openmpi", (*flags, "--no-shuffle"), (*flags, "--no-shuffle"))
        )
        assert code == NUMERIC, text
        found = re.search(r"in step 1, on rank (\d), input 'image' is nan at", text)
        assert found, text
        ranks.add(found[1])
    assert ranks == {"0", "1"}


@pytest.mark.skipif(
    not test_ranks_gloo.LIBRARY.exists(), reason="mpc was built without libgloo-dev"
)
def test_a_first_rank_that_hangs_is_told(tmp_path):
    flags = flags_of(
        *("--data", test_ranks.TRAIN, "--epochs", 1000000, "--rank-timeout", "3s"),
        *("--metrics", tmp_path / "m.jsonl"),
    )
    run = test_ranks_gloo.Ranks(2, *flags)
    try:
        while not (tmp_path / "m.jsonl").exists():
            assert all(x.poll() is None for x in run.processes)
            time.sleep(0.01)
        run.processes[0].send_signal(signal.SIGSTOP)
        text = run.processes[1].communicate(timeout=30)[1]
    finally:
        run.kill()
    assert run.processes[1].returncode == test_ranks_gloo.RANK
    assert "for rank 0, which hangs or takes longer" in text


@pytest.mark.skipif(
    not test_faults.INJECTOR.exists(), reason="this build has no injector"
)
@pytest.mark.parametrize("launcher", [LAUNCHERS[0], LAUNCHERS[2]])
def test_memory_that_one_rank_lacks_ends_all_ranks(launcher, tmp_path):
    """From some call on, rank 1 gets no memory: on the way to the first step, or
    within a step."""
    flags = ("--data", test_ranks.TRAIN, "--max-steps", 4)
    for first in (18, 24, 36):
        faults = {
            **{"LD_PRELOAD": str(test_faults.INJECTOR)},
            **{"MPC_FAULT": f"mmap:{first}:{test_faults.ENOMEM}+"},
        }
        code, text = train(launcher, flags, flags, faults=faults, rank=1)
        assert code == IO, text
        assert any("memory" in line for line in errors_of(text)), text
