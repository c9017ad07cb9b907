"""The GPU checks, rehearsed on a machine without one: packed for the CPU, all
stages that need no GPU's tools run and can fail.

SPDX-License-Identifier: Apache-2.0
"""

import json
import subprocess
import sys

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
    assert len(results["curves"]["runs"]) == 24
    assert results["storm"]["runs"][0]["skipped"] == 13
    page = (tmp_path / "report.md").read_text()
    assert "| resnet | 16-mixed |" in page


def test_a_wrong_loss_and_a_missed_skip_are_found(pack, tmp_path):
    path = pack / "manifest.json"
    original = path.read_text()
    manifest = json.loads(original)
    for entry in manifest["curves"]:
        if entry["model"] == "lenet":
            entry["cpu"]["loss"][-1] *= 1.02
    manifest["storms"][0]["cpu"]["finite"][2] = 1.0
    path.write_text(json.dumps(manifest))
    try:
        code, results = run_stages(pack, tmp_path, "curves", "storm")
    finally:
        path.write_text(original)
    assert code == 1
    for run in results["curves"]["runs"]:
        assert run["ok"] == (run["model"] != "lenet")
    assert not results["storm"]["ok"]


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
