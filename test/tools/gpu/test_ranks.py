"""Tests the GPU check's stage `ranks` without a GPU: on the emulated GPU, and by
cases that fail.

SPDX-License-Identifier: Apache-2.0
"""

import importlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from mpctest import BUILD, DATA, ROOT, mpc_ok

EMULATOR = BUILD / "test" / "emulator"


@pytest.fixture(scope="module", name="folder")
def pack(tmp_path_factory):
    """A pack with one model, for the emulated GPU."""
    folder = tmp_path_factory.mktemp("pack")
    for script in (ROOT / "tools" / "gpu").glob("*.py"):
        shutil.copy(script, folder)
    artifacts = {
        "alone": [],
        "artifact": ["--data-parallel"],
        "sharded": ["--shard-optimizer", "--optimizer", "adamw"],
    }
    for name, more in artifacts.items():
        mpc_ok(
            *("compile", DATA / "models" / "mlp.onnx", "-o", folder / f"{name}.mpc"),
            *("--loss", "softmax_cross_entropy", "--batch-size", "4"),
            *("--precision", "bf16-mixed", "--target", "sm_80", *more),
        )
    entry = {
        **{"model": "mlp", "precision": "bf16-mixed"},
        **{name: f"{name}.mpc" for name in ("alone", "artifact")},
        "arrays": {
            "image": {"shape": [4, 1, 8, 8], "high": None},
            "target": {"shape": [4], "high": 10},
        },
    }
    manifest = {"target": "sm_80", "commit": "a commit", "changed": False}
    sharded = {**entry, "model": "mlp sharded", "artifact": "sharded.mpc"}
    entries = {"ranks": [entry, sharded]}
    (folder / "manifest.json").write_text(json.dumps({**manifest, **entries}))
    return folder


def run_stage(folder, out, **variables):
    """Returns the exit code, and the result of the stage."""
    process = subprocess.run(
        [
            *(sys.executable, folder / "stages.py", "--out", out),
            *("--library", BUILD / "lib" / "libmpc_runtime.so", "ranks"),
        ],
        env={**os.environ, "MPC_CUDA_LIBRARY_PATH": str(EMULATOR), **variables},
        check=False,
    )
    report = json.loads((out / "report.json").read_text())
    return process.returncode, report["stages"]["ranks"]


def test_one_rank_reduces_in_the_graph_beside_a_step_without(folder, tmp_path):
    log = tmp_path / "calls"
    code, result = run_stage(folder, tmp_path, MPC_EMULATOR_LOG=str(log))
    assert code == 0, result
    assert [run["model"] for run in result["runs"]] == ["mlp", "mlp sharded"]
    for run in result["runs"]:
        assert run["same_bits"] and run["reductions"] >= 1
        assert run["library"].startswith("NCCL 2.")
        assert run["reduced_bytes"] > 1000
        for name in ("alone_ms", "ranks_ms"):
            assert 0 < run[name] < 10_000
        assert run["spread_percent"] >= 0 and "cost_percent" in run
    lines = log.read_text().splitlines()

    def captured(call):
        return [line.split("captured=")[1][0] for line in lines if f"{call}(" in line]

    # The first step runs without the graph; later steps are in the graph.
    assert captured("ncclAllReduce") == ["0", "1"]
    reduced = captured("ncclReduce")
    assert reduced == sorted(reduced) and reduced.count("0") == reduced.count("1") > 1
    assert "1" in captured("ncclBroadcast")
    assert not any("fault" in line for line in lines)
    page = (tmp_path / "report.md").read_text()
    assert "## One rank through NCCL" in page and "| mlp | 1 |" in page
    assert "| mlp sharded |" in page


def test_a_failing_library_fails_the_stage(folder, tmp_path):
    code, result = run_stage(
        folder, tmp_path, MPC_EMULATOR_FAULT="ncclCommInitRankConfig=3"
    )
    assert code == 1
    assert "NCCL cannot connect" in result["runs"][0]["error"]


def test_a_missing_library_skips_the_stage(folder, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    stages = importlib.import_module("stages")
    monkeypatch.setenv("MPC_CUDA_LIBRARY_PATH", str(tmp_path))

    class Checks:
        device = "cuda"

    def fail(path):
        raise OSError(f"{path}: not found")

    # The machine may have the library.
    monkeypatch.setattr(stages.ctypes, "CDLL", fail)
    result = stages.ranks(Checks)
    assert result["ok"] and "NCCL cannot be loaded" in result["skipped"]
