"""Tests the GPU check's timing of PyTorch on a CPU, where PyTorch is installed.

SPDX-License-Identifier: Apache-2.0
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

from mpctest import ROOT


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "torchvision")),
    reason="this Python has no PyTorch",
)
def test_models_meet_before_they_are_timed(tmp_path):
    """A variant that fails does not end the others."""
    (tmp_path / "expected").write_text("2")
    lines = tmp_path / "cases.jsonl"
    program = pathlib.Path(__file__).parent / "Inputs" / "rehearse_torch.py"
    folders = [str(ROOT / "tools" / name) for name in ("gpu", "models")]
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, program, lines, "bf16-mixed", model),
                *(tmp_path, "600", "eager/nothing"),
            ],
            env={**os.environ, "PYTHONPATH": ":".join(folders)},
        )
        for model in ("mlp:small", "gpt2:tiny")
    ]
    assert [process.wait() for process in processes] == [0, 0]
    cases = [json.loads(line) for line in lines.read_text().splitlines()]
    eager = [case for case in cases if case["how"] == "eager"]
    assert [case.get("provisional", False) for case in eager] == [1, 1, 0, 0]
    assert all(case["ms"] > 0 for case in eager)
    assert all(case["others_at_work"] == 0 for case in eager[2:])
    failed = [case["error"] for case in cases if case["how"] == "nothing"]
    assert len(failed) == 2 and "KeyError" in failed[0]
