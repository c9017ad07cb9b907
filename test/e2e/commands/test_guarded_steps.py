"""Each step of trained families accesses memory only within its operands.
RuntimeTests runs the steps of artifacts one by one between guard pages.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import subprocess

import mpctest

FAMILIES = mpctest.DATA / "families"
PRECISIONS = {"unet": "bf16-mixed", "lstm": "bf16-mixed", "gpt2": "16-mixed"}
TESTS = mpctest.BUILD / "test" / "runtime" / "RuntimeTests"


def test_steps_stay_within_their_operands(tmp_path):
    settings = json.loads((FAMILIES / "losses.json").read_text())
    artifacts = []
    for name, precision in PRECISIONS.items():
        artifacts.append(tmp_path / f"{name}.mpc")
        flags = ["--batch-size", settings[name]["batch_size"]]
        for key, axis in settings[name]["batch_axes"].items():
            flags += ["--batch-axis", f"{key}={axis}"]
        mpctest.mpc_ok(
            *("compile", FAMILIES / f"{name}-dynamo-18.onnx", "-o", artifacts[-1]),
            *("--loss", settings[name]["loss"], "--precision", precision, *flags),
        )
    process = subprocess.run(
        [TESTS, "--gtest_filter=GuardedSteps.*"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "MPC_GUARDED_ARTIFACTS": ":".join(map(str, artifacts))},
    )
    assert process.returncode == 0, process.stdout
    assert process.stdout.count(" steps\n") == len(artifacts), process.stdout
