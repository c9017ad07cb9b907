"""A failed system call, or death of the process before the call, ends with the
documented exit code. A resumed run has the bits of an undisturbed run.

SPDX-License-Identifier: Apache-2.0
"""

import collections
import os
import shutil
import subprocess

import numpy as np
import pytest

import mpctest

INJECTOR = mpctest.BUILD / "test" / "faults" / "mpc_faults.so"
pytestmark = [
    pytest.mark.starts_mpc,
    pytest.mark.skipif(
        not INJECTOR.exists(), reason="this build has no injector"
    ),
]

EIO, ENOMEM, ENOSPC, IO, KILLED = 5, 12, 28, 5, -9
LOOKS = "stat,lstat,fstat,readlink"
CHANGES = "open,write,fsync,rename,unlink,mkdir,symlink,rmdir,ftruncate"

Run = collections.namedtuple("Run", "code errors calls")


@pytest.fixture(scope="module", name="model")
def compiled_model(tmp_path_factory):
    """Returns an artifact, and data on which the first weights evaluate best."""
    folder = tmp_path_factory.mktemp("faults")
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        data = dict(arrays)
    np.savez(folder / "train.npz", **{k: v[:96] for k, v in data.items()})
    wrong = {"image": data["image"][:32], "target": 9 - data["target"][:32]}
    np.savez(folder / "val.npz", **wrong)
    mpctest.mpc_ok(
        *("compile", mpctest.MODELS / "mlp.onnx", "-o", folder / "mlp.mpc"),
        *("--loss", "softmax_cross_entropy", "--batch-size", 32),
        *mpctest.TARGET,
    )
    return folder


def train(model, folder, epochs, *flags, fault=""):
    """Runs a training in `folder` and counts the calls that `fault` names."""
    command = [
        *(mpctest.MPC, "train", model / "mlp.mpc", "--quiet"),
        *("--data", model / "train.npz", "--val-data", model / "val.npz"),
        *("--epochs", epochs, "--lr", "0.1", "--best", "loss"),
        *("--checkpoint-dir", folder / "c", "--checkpoint-every", "2"),
        *("--keep-checkpoints", "1", "--resume", "auto", "--threads", "1"),
        *("--metrics", folder / "m.jsonl"),
        *("--output", folder / "o.safetensors", *flags),
    ]
    count = folder / "count"
    count.unlink(missing_ok=True)
    environment = dict(os.environ)
    if fault:
        environment |= {
            **{"LD_PRELOAD": str(INJECTOR), "MPC_FAULT": fault},
            **{"MPC_FAULT_UNDER": str(folder), "MPC_FAULT_COUNT": str(count)},
        }
    process = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        env=environment,
        check=False,
    )
    calls = int(count.read_text()) if count.exists() else 0
    return Run(process.returncode, process.stderr, calls)


def trained(folder):
    return (folder / "o.safetensors").read_bytes()


def steps(folder):
    """Returns every step of the metrics, each from a whole line."""
    events = mpctest.read_metrics(folder / "m.jsonl")
    return {e["step"]: e["loss"] for e in events if e["event"] == "train"}


@pytest.fixture(scope="module", name="half")
def half_run(model, tmp_path_factory):
    """Returns a folder with half of a run, and the result of the whole run."""
    folder = tmp_path_factory.mktemp("half")
    assert train(model, folder, 1).code == 0
    whole = tmp_path_factory.mktemp("whole")
    shutil.copytree(folder, whole, symlinks=True, dirs_exist_ok=True)
    run = train(model, whole, 3)
    assert run.code == 0, run.errors
    best = os.readlink(whole / "c" / "best")
    assert best == os.readlink(folder / "c" / "best"), "no test of the best"
    return folder, whole


def copied(half, tmp_path, name):
    folder = tmp_path / str(name)
    shutil.copytree(half, folder, symlinks=True)
    return folder


def points(calls, sample, some):
    """Returns all calls, or `some` of them with the first and the last."""
    if not sample or calls <= some:
        return range(1, calls + 1)
    return sorted({*np.linspace(1, calls, some).astype(int).tolist()})


@pytest.mark.parametrize("lasts", ["", "+"])
def test_what_cannot_be_looked_at_is_not_gone(
    lasts, model, half, tmp_path, sample
):
    """A file whose lookup fails is not treated as missing, in particular the
    best weights. A resumed run with exit code 0 has the weights of an
    undisturbed run."""
    parts, whole = half
    probe = train(model, copied(parts, tmp_path, 0), 3, fault=f"{LOOKS}:0:{EIO}")
    assert probe.code == 0 and probe.calls > 20, probe
    failed = 0
    for n in points(probe.calls, sample, 12):
        folder = copied(parts, tmp_path, n)
        run = train(model, folder, 3, fault=f"{LOOKS}:{n}:{EIO}{lasts}")
        assert run.code in (0, IO), (n, run)
        if run.code == IO:
            failed += 1
            assert "Input/output error" in run.errors, (n, run)
            run = train(model, folder, 3)
            assert run.code == 0, (n, run)
        assert trained(folder) == trained(whole), (n, run)
        best = os.readlink(folder / "c" / "best")
        assert best == os.readlink(whole / "c" / "best"), n
    assert failed, "no call decided anything"


@pytest.mark.parametrize(
    ("number", "lasts"),
    [
        (EIO, ""),
        (ENOSPC, "+"),
        pytest.param(EIO, "+", marks=pytest.mark.full),
        pytest.param(ENOSPC, "", marks=pytest.mark.full),
    ],
)
def test_a_change_that_fails_loses_nothing(
    number, lasts, model, half, tmp_path, sample
):
    parts, whole = half
    probe = train(
        model, copied(parts, tmp_path, 0), 3, fault=f"{CHANGES}:0:{number}"
    )
    assert probe.code == 0 and probe.calls > 50, probe
    for n in points(probe.calls, sample, 8):
        folder = copied(parts, tmp_path, n)
        run = train(model, folder, 3, fault=f"{CHANGES}:{n}:{number}{lasts}")
        assert run.code in (0, IO), (n, run)
        if run.code == IO:
            assert os.strerror(number) in run.errors, (n, run)
            run = train(model, folder, 3)
            assert run.code == 0, (n, run)
        assert trained(folder) == trained(whole), (n, run)


def test_a_run_that_is_killed_before_any_change_goes_on(
    model, half, tmp_path, sample
):
    parts, whole = half
    probe = train(model, copied(parts, tmp_path, 0), 3, fault=f"{CHANGES}:0:kill")
    for n in points(probe.calls, sample, 12):
        folder = copied(parts, tmp_path, n)
        run = train(model, folder, 3, fault=f"{CHANGES}:{n}:kill")
        assert run.code == KILLED, (n, run)
        run = train(model, folder, 3)
        assert run.code == 0, (n, run)
        assert trained(folder) == trained(whole), n
        assert steps(folder) == steps(whole), n
        names = {*os.listdir(folder), *os.listdir(folder / "c")}
        assert not [name for name in names if "tmp" in name], (n, names)


def test_a_disk_that_is_full_for_a_moment_costs_a_line(model, tmp_path):
    """The third write is the first step's line."""
    run = train(model, tmp_path, 2, fault=f"write:3:{ENOSPC}")
    assert run.code == IO
    assert "metrics have a gap here" in run.errors
    assert sorted(steps(tmp_path)) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("call", ["mmap", "mprotect"])
def test_memory_that_the_system_denies_is_an_error(call, model, tmp_path):
    """Covers oneDNN's generated code: mpc neither crashes nor asks for a bug
    report."""
    probe = train(model, tmp_path, 1, fault=f"{call}:0:{ENOMEM}")
    assert probe.code == 0 and probe.calls > 8, probe
    failed = 0
    for n in points(probe.calls, sample=True, some=12):
        folder = tmp_path / str(n)
        folder.mkdir()
        run = train(model, folder, 1, fault=f"{call}:{n}:{ENOMEM}+")
        assert run.code in (0, IO), (n, run)
        failed += run.code == IO
        assert run.code == 0 or "memory" in run.errors, (n, run)
    assert failed, "no call decided anything"
