"""A compiler engineer inspects dumps. They are the same every time, carry the
model's names, and compilation resumes from any stage.

SPDX-License-Identifier: Apache-2.0
"""

import re
import subprocess

import journey

import mpctest

CNN = mpctest.MODELS / "digits-cnn.onnx"
COMPILE = ["compile", CNN, *journey.CLASSES, "--batch-size", 32]
COMPILE += ["--precision", "bf16-mixed", *mpctest.TARGET]
OPT = mpctest.BUILD / "bin" / "mpc-opt"


def test_journey(tmp_path):
    for stage in ("import", "differentiate", "precision", "plan"):
        first, second = (
            mpctest.mpc_ok(*COMPILE, f"--emit={stage}", "-o", "-").stdout
            for _ in range(2)
        )
        assert first == second and len(first) > 1000, stage
    for name in ("a.mpc", "b.mpc"):
        mpctest.mpc_ok(*COMPILE, "-o", tmp_path / name)
    assert (tmp_path / "a.mpc").read_bytes() == (tmp_path / "b.mpc").read_bytes()

    # A dump keeps the nodes' names, so that a pass run by hand selects nodes.
    step = tmp_path / "step.mlir"
    mpctest.mpc_ok(*COMPILE, "--emit=differentiate", "-o", step)
    assert "loc(#conv1)" in step.read_text()
    process = subprocess.run(
        [
            *(OPT, step, "-mlir-print-local-scope"),
            "-amp-assign-precision=mode=bf16-mixed keep-fp32=^conv1$",
        ],
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    kept = re.findall(r"mpc\.conv .*keep_fp32", process.stdout)
    others = re.findall(r"mpc\.conv .*allow_list", process.stdout)
    # Forward and evaluation have two convolutions each.
    assert len(kept) == 2 and len(others) == 2


def test_any_number_of_threads(tmp_path):
    written = set()
    for threads in (1, 2, 5):
        path = tmp_path / f"{threads}.onnx"
        mpctest.mpc_ok(
            *("train", CNN, "--data", journey.TRAIN, *journey.CLASSES),
            *("--batch-size", 32, "--max-steps", 10, "--threads", threads),
            *("--precision", "bf16-mixed", "--output", path, *mpctest.TARGET),
        )
        written.add(path.read_bytes())
    assert len(written) == 1
