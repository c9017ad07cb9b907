"""The GPU checks, rehearsed on a machine without one: packed for the CPU, all
stages that need no GPU's tools run and can fail.

SPDX-License-Identifier: Apache-2.0
"""

import importlib
import json
import subprocess
import sys
import types

import pytest

from mpctest import BUILD, ROOT


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu") / "pack"
    subprocess.run(
        [
            *(sys.executable, ROOT / "tools" / "gpu" / "pack.py"),
            *("--output", folder, "--target", "x86-64-v3"),
            *("--parts", "curves,storm"),
        ],
        check=True,
    )
    return folder


def run_stages(pack, out, *stages):
    library = BUILD / "lib" / "libmpc_runtime.so"
    process = subprocess.run(
        [
            *(sys.executable, pack / "stages.py", "--out", out),
            *("--library", library, "--device", "cpu", *stages),
        ],
        check=False,
    )
    results = {s: json.loads((out / f"{s}.json").read_text()) for s in stages}
    return process.returncode, results


def test_runtime_builds_from_what_is_packed(pack, tmp_path):
    code, results = run_stages(pack, tmp_path, "build")
    assert code == 0, results["build"]["log"]
    assert (tmp_path / "runtime-build/lib/libmpc_runtime.so").exists()


def test_curves_and_storm_pass_on_the_cpu(pack, tmp_path):
    code, results = run_stages(pack, tmp_path, "curves", "storm")
    assert code == 0, results
    assert len(results["curves"]["runs"]) == 36
    assert [run["skipped"] for run in results["storm"]["runs"]] == [13, 0]
    page = (tmp_path / "report.md").read_text()
    assert "| resnet | 16-mixed |" in page


def test_a_wrong_loss_and_a_missed_skip_are_found(pack, tmp_path):
    path = pack / "manifest.json"
    original = path.read_text()
    manifest = json.loads(original)
    for entry in manifest["curves"]:
        if entry["model"] == "lenet":
            entry["cpu"]["loss"][-1] *= 1.02
    overflow, nan = manifest["storms"]
    overflow["cpu"]["finite"][2] = 1.0
    nan["cpu"]["loss"][5] = 1.0
    path.write_text(json.dumps(manifest))
    try:
        code, results = run_stages(pack, tmp_path, "curves", "storm")
    finally:
        path.write_text(original)
    assert code == 1
    for run in results["curves"]["runs"]:
        assert run["ok"] == (run["model"] != "lenet")
    assert [run["ok"] for run in results["storm"]["runs"]] == [False, False]


def test_no_gpu_is_a_device_error(pack, tmp_path):
    """Artifacts for a CPU do not run on a GPU: every run says so."""
    library = BUILD / "lib" / "libmpc_runtime.so"
    process = subprocess.run(
        [
            *(sys.executable, pack / "stages.py", "--out", tmp_path),
            *("--library", library, "--device", "cuda", "storm"),
        ],
        check=False,
    )
    assert process.returncode == 1
    result = json.loads((tmp_path / "storm.json").read_text())
    assert "GPU" in result["runs"][0]["error"]


# Stands for the process that runs cases from the one it is told on: the second
# case ends it, the fourth fails, and so does the way out after the last.
PROGRAM = """
import json, os, sys
for case in range(int(sys.argv[-1]), 6):
    if case == 1:
        print("a fault", file=sys.stderr)
        os.abort()
    error = {"error": "failed"} if case == 3 else {}
    print(json.dumps({"ok": not error, "case": case, **error}), flush=True)
    if error:
        sys.exit(0)
os.abort()
"""


def test_a_case_that_ends_its_process_ends_no_other(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    cases = importlib.import_module("gpu_cases")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checks = types.SimpleNamespace(
        program=program, library="", device="", manifest={"ops": [{}] * 6}
    )
    results = cases.run_apart(checks, "ops")
    assert [r["ok"] for r in results] == [True, False, True, False, True, False]
    assert "a fault" in results[1]["error"]
    assert results[3]["error"] == "failed"
    monkeypatch.setattr(cases, "MOST_PROCESSES", 2)
    results = cases.run_apart(checks, "ops")
    assert [r["ok"] for r in results] == [True, False, True] + [False] * 3
    assert "not run" in results[5]["error"]


def test_a_broken_artifact_is_one_failure(pack, tmp_path):
    path = pack / "artifacts" / "storm-mlp-16-mixed.mpc"
    original = path.read_bytes()
    path.write_bytes(original[: len(original) // 2])
    try:
        code, results = run_stages(pack, tmp_path, "storm")
    finally:
        path.write_bytes(original)
    assert code == 1
    assert results["storm"]["runs"][0]["error"]
