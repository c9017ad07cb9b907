"""Runs the GPU check's whole order with stubs that take a thousandth of the
expected time. After a cut at any moment, the results so far remain.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

from mpctest import ROOT

# The stages of the real program, whose cases sleep instead of running.
PROGRAM = """
import sys, time
sys.path[:0] = [{tools!r}]
import gpu_cases, report, stages

CASES = {{"steps": 8, "kernels": 5, "choices": 60, "attention": 4, "torch": 20}}
CASES |= {{"ops": 300, "families": 100, "curves": 42, "storm": 2}}

def stub(name, seconds):
    def stage(checks):
        count = CASES.get(name, 0)
        for case in range(count):
            time.sleep(seconds / 1000 / count)
            known = {{"ok": True, "model": str(case), "precision": "p", "ms": 1.0}}
            known |= {{"how": "eager", "contractions": "table"}}
            report.append(checks.lines, name, known)
        if not count:
            time.sleep(seconds / 1000)
        return {{"ok": True}}
    stage.__name__ = name
    return stage

stages.STAGES = {{
    stub(stage.__name__, seconds): seconds
    for stage, seconds in stages.STAGES.items()
}}
class Checks:
    manifest = {{"target": "sm_90", "commit": "c", "changed": False}}
    deadline = 0
    def __init__(self, library, device, lines):
        self.lines = lines
stages.Checks = Checks
sys.exit(stages.main())
"""


def start(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(tools=str(ROOT / "tools" / "gpu")))
    return subprocess.Popen(
        [sys.executable, program, "--out", tmp_path],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def make_report(folder):
    subprocess.run(
        [sys.executable, ROOT / "tools" / "gpu" / "report.py", folder], check=True
    )
    return json.loads((folder / "report.json").read_text())["stages"]


def test_the_whole_order_fits_and_is_reported(tmp_path):
    with start(tmp_path) as process:
        assert process.wait() == 0
    stages = make_report(tmp_path)
    assert list(stages)[:3] == ["machine", "build", "steps"]
    assert all(stage["ok"] for stage in stages.values())
    assert len(stages["ops"]["runs"]) == 300


def test_a_cut_off_at_any_moment_loses_nothing(tmp_path):
    """The program is killed with all of its processes."""
    moments = random.Random(0)
    for _ in range(8):
        with start(tmp_path) as process:
            time.sleep(moments.uniform(0.15, 0.9))
            os.killpg(process.pid, signal.SIGKILL)
        path = tmp_path / "cases.jsonl"
        text = path.read_bytes() if path.exists() else b""
        whole = [line for line in text.splitlines(True) if line.endswith(b"\n")]
        cases = [json.loads(line) for line in whole]
        stages = make_report(tmp_path)
        runs = sum(len(stage.get("runs", [])) for stage in stages.values())
        ended = sum("ended" in case for case in cases)
        assert runs + ended + ("pack" in str(cases[:1])) == len(cases)
        assert sum(not stage["ok"] for stage in stages.values()) <= 1
        path.unlink(missing_ok=True)
