"""`mpc profile` and traces measure an emulated GPU by its events.

SPDX-License-Identifier: Apache-2.0
"""

import json

import mpctest
from test_gpu import emulated

MLP = mpctest.MODELS / "mlp.onnx"
DATA = mpctest.DIGITS / "digits-train.npz"
STEP = (
    *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
    *("--batch-size", 8, "--device", "cuda", "--target", "sm_80"),
)


def test_kernels_are_measured_by_events(tmp_path):
    trace = tmp_path / "trace.json"
    done = mpctest.mpc_ok(
        *("profile", MLP, *STEP, "--steps", 1, "--format", "json", "--trace", trace),
        env=emulated("sm_80", tmp_path),
    )
    found = json.loads(done.stdout)
    assert found["device"] == "cuda" and found["roof"] is None
    assert "roof of a GPU is not measured" in done.stderr
    assert {"matmul", "launch"} <= {kernel["op"] for kernel in found["kernels"]}
    assert found["kernel_seconds"] > 0
    assert all(kernel["flops"] is not None for kernel in found["kernels"])
    assert "cuEventElapsedTime" in (tmp_path / "calls.log").read_text()
    events = json.loads(trace.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert kernels and {names[e["tid"]] for e in kernels} == {"GPU"}


def test_a_traced_run_has_the_same_bits(tmp_path):
    outputs = []
    for flags in ((), ("--trace", tmp_path / "trace.json", "--trace-steps", 3)):
        output = tmp_path / "trained.onnx"
        mpctest.mpc_ok(
            *("train", MLP, "--data", DATA, *STEP, "--max-steps", 5),
            *("--output", output, *flags),
            env=emulated("sm_80", tmp_path),
        )
        outputs.append(mpctest.read_weights(output))
    plain, traced = outputs
    assert plain.keys() == traced.keys()
    assert all(plain[name].tobytes() == traced[name].tobytes() for name in plain)
