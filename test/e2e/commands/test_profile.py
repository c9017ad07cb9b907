"""Checks `mpc profile`, `mpc train --trace` and the map for perf: times that add
up, work that is known by hand, traces whose events nest, and the same bits with
and without measuring.

SPDX-License-Identifier: Apache-2.0
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

MLP = mpctest.MODELS / "mlp.onnx"
CNN = mpctest.MODELS / "digits-cnn.onnx"
TRAIN = mpctest.DIGITS / "digits-train.npz"
HELD = mpctest.DIGITS / "digits-test.npz"
STEP = (
    *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
    *("--batch-size", 32, *mpctest.TARGET),
)
PHASES = {"forward", "backward", "optimizer"}


def profile(*arguments, **options):
    done = mpctest.mpc_ok("profile", *arguments, "--format", "json", **options)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def cnn():
    return profile(CNN, *STEP, "--steps", 5, "--precision", "bf16-mixed")


def kernel_called(found, name):
    (kernel,) = [k for k in found["kernels"] if k["name"] == name and k["op"] == "conv"]
    return kernel


#
# Times
#


def test_times_add_up(cnn):
    """Kernels take most of a measured step, and no more than all of it. Medians
    of parts need not add up to the median of the whole, hence the margin."""
    kernels = [k["calls"] * k["seconds"] for k in cnn["kernels"]]
    assert sum(kernels) == pytest.approx(cnn["kernel_seconds"])
    assert 0.3 < cnn["kernel_seconds"] / cnn["measured_step_seconds"] < 1.1
    for parts in (cnn["kernels"], cnn["nodes"]):
        assert sum(part["share"] for part in parts) == pytest.approx(1)
        assert [p["share"] for p in parts] == sorted(
            (p["share"] for p in parts), reverse=True
        )
    assert set(cnn["phases"]) == PHASES
    assert sum(cnn["phases"].values()) == pytest.approx(cnn["kernel_seconds"])
    for phase in PHASES:
        nodes = sum(node["seconds"].get(phase, 0) for node in cnn["nodes"])
        assert nodes == pytest.approx(cnn["phases"][phase])


def test_a_kernel_is_split_over_its_nodes(cnn):
    for kernel in cnn["kernels"]:
        assert sum(n["share"] for n in kernel["nodes"]) == pytest.approx(1)
        assert all(n["phase"] in PHASES for n in kernel["nodes"])
    fused = [k for k in cnn["kernels"] if len(k["nodes"]) > 1]
    assert any(0 < n["share"] < 1 for k in fused for n in k["nodes"])
    # The loss, its gradient and the cast for the layer before share a kernel.
    named = [
        {tuple(node["names"]): node["phase"] for node in kernel["nodes"]}
        for kernel in cnn["kernels"]
    ]
    (phases,) = [p for p in named if ("loss",) in p and ("loss#dx",) in p]
    assert phases[("loss",)] == "forward"
    assert phases[("loss#dx",)] == phases[("fc2#dx",)] == "backward"


def test_work_is_counted(cnn):
    """conv1: 32 images of 8 x 8 pixels, 9 taps, 1 to 32 channels, in bf16."""
    conv = kernel_called(cnn, "conv1")
    assert conv["flops"] == 2 * 32 * 64 * 9 * 32
    assert conv["bytes"] == 2 * (32 * 64 + 32 * 9 + 32 * 64 * 32)
    assert conv["compute"] == "bf16" and conv["types"] == ["bf16"]
    assert conv["flops_per_second"] == pytest.approx(conv["flops"] / conv["seconds"])
    assert conv["roof_seconds"] > 0
    # A window's elements count once each, however many it reads.
    (pool,) = [k for k in cnn["kernels"] if k["name"] == "pool1#dx"]
    assert pool["flops"] == 32 * 64 * 32


def test_the_roof_is_measured_once(cnn, tmp_path):
    flags = (MLP, *STEP, "--steps", 1, "--kernel-cache", tmp_path)
    first, second = profile(*flags)["roof"], profile(*flags)["roof"]
    assert not first["kept"] and second["kept"] != first["busy"]
    if second["kept"]:
        assert {**first, "kept": True} == second
    rates = [level["bytes_per_second"] for level in first["bandwidth"]]
    assert rates == sorted(rates, reverse=True) and rates[-1] > 0
    assert set(first["flops_per_second"]) == {"f32", "bf16", "f16"}
    again = profile(*flags, "--measure-roof")
    assert not again["roof"]["kept"]


def test_a_roof_of_a_busy_machine_is_measured_again(tmp_path):
    """Six programs want each core. The next profile may only raise the roof."""
    flags = (MLP, *STEP, "--steps", 1, "--kernel-cache", tmp_path)
    spin = [sys.executable, "-c", "while True: pass"]
    cores = len(os.sched_getaffinity(0))
    others = [subprocess.Popen(spin) for _ in range(6 * cores)]
    try:
        done = mpctest.mpc_ok("profile", *flags, "--format", "json")
    finally:
        for other in others:
            other.kill()
            other.wait()
    busy = json.loads(done.stdout)["roof"]
    if not busy["busy"]:
        pytest.skip("the machine ran each measurement without a pause")
    assert "so shares of the roof are too high; --measure-roof" in done.stderr
    again = profile(*flags)["roof"]
    assert not again["kept"] and again["measurements"] >= 2
    rates = lambda roof: [
        *(level["bytes_per_second"] for level in roof["bandwidth"]),
        *roof["flops_per_second"].values(),
    ]
    assert all(a >= b for a, b in zip(rates(again), rates(busy), strict=True))


def test_tables(tmp_path):
    flags = ("profile", CNN, *STEP, "--steps", 2)
    done = mpctest.mpc_ok(*flags)
    lines = done.stdout.splitlines()
    assert "random" in done.stderr
    assert lines[0].startswith(f"{CNN}: 32-true on cpu")
    assert "% of roof" in done.stdout and "backward ms" in done.stdout
    assert "more; --verbose prints all" in done.stdout
    whole = mpctest.mpc_ok(*flags, "--verbose").stdout
    assert "--verbose" not in whole and "step_0_" in whole
    assert len(whole.splitlines()) > len(lines)


#
# Models and data
#


def test_data_and_evaluation():
    found = profile(
        *(CNN, *STEP, "--steps", 3, "--data", TRAIN, "--val-data", HELD),
    )
    assert found["inputs"] == "data" and found["epoch"]["steps"] == 44
    assert found["epoch"]["evaluation_seconds"] > 0
    assert found["epoch"]["data_seconds"] < found["epoch"]["step_seconds"]
    assert found["batch_size"] == 32


def test_micro_batches():
    """A step calls `accumulate` three times and `update` once."""
    found = profile(MLP, *STEP, "--steps", 2, "--accumulate-grad-batches", 3)
    calls = {k["function"]: k["calls"] for k in found["kernels"]}
    assert calls == {"accumulate": 3, "update": 1}
    assert found["batch_size"] == 96


def test_an_artifact_and_a_forward_model(tmp_path):
    artifact = tmp_path / "mlp.mpc"
    mpctest.mpc_ok("compile", MLP, *STEP, "-o", artifact)
    found = profile(artifact, "--steps", 2)
    assert {k["function"] for k in found["kernels"]} == {"step"}
    assert set(found["phases"]) == PHASES
    forward = profile(MLP, "--batch-size", 4, "--steps", 2, *mpctest.TARGET)
    assert {k["function"] for k in forward["kernels"]} == {"forward"}
    assert set(forward["phases"]) == {"forward"}


def test_names_with_signs_are_whole(tmp_path):
    """A '#' in a name is the model's own, unlike the suffix of a gradient."""
    names = ["block#1", "block#2"]
    layers = [
        helper.make_node("MatMul", ["x", "a"], ["h"], names[0]),
        helper.make_node("MatMul", ["h", "b"], ["y"], names[1]),
    ]
    weights = {key: np.ones((64, 64), np.float32) for key in "ab"}
    model = mpctest.make_model(
        layers, {"x": (np.float32, ["N", 64])}, {"y": (np.float32, ["N", 64])}, weights
    )
    onnx.save(model, tmp_path / "m.onnx")
    flags = ("--batch-size", 8, "--steps", 2, *mpctest.TARGET)
    forward = profile(tmp_path / "m.onnx", *flags)
    assert set(forward["phases"]) == {"forward"}
    assert {name for node in forward["nodes"] for name in node["names"]} >= set(names)
    found = profile(tmp_path / "m.onnx", "--loss", "mse", *flags)
    rows = {tuple(node["names"]): node["seconds"] for node in found["nodes"]}
    for name in names:
        assert set(rows[(name,)]) == {"forward", "backward"}


def test_the_forward_pass_of_a_branch_is_forward(tmp_path):
    """A gradient repeats the branch, under the names of its nodes."""
    branch = [
        helper.make_graph(
            [helper.make_node(op, ["h"], [f"{op}_out"], op)],
            op,
            [],
            [helper.make_tensor_value_info(f"{op}_out", onnx.TensorProto.FLOAT, None)],
        )
        for op in ("Relu", "Tanh")
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "layer"),
        helper.make_node(
            "If", ["flag"], ["y"], "choice", then_branch=branch[0], else_branch=branch[1]
        ),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", 64]), "flag": (bool, [])},
        {"y": (np.float32, ["N", 64])},
        {"w": np.ones((64, 64), np.float32)},
    )
    onnx.save(model, tmp_path / "m.onnx")
    found = profile(
        *(tmp_path / "m.onnx", "--loss", "mse", "--batch-size", 8),
        *("--steps", 2, *mpctest.TARGET),
    )
    phases = [
        node["phase"]
        for kernel in found["kernels"]
        for node in kernel["nodes"]
        if node["names"][0] in ("Relu", "Tanh")
    ]
    assert "forward" in phases


def test_flags_without_effect_are_refused(tmp_path):
    for flags in (
        ("--val-data", HELD),
        ("--normalize", "0:1"),
        ("--format", "json", "--verbose"),
    ):
        assert mpctest.mpc("profile", MLP, *STEP, *flags).returncode == 2
    done = mpctest.mpc("train", MLP, "--data", TRAIN, *STEP, "--trace-steps", 3)
    assert done.returncode == 2 and "--trace" in done.stderr


#
# Traces
#


def check_nesting(events):
    """Fails unless the complete events of each thread nest: an event lies inside
    another one of its thread, or apart from it."""
    lanes = {}
    for event in events:
        if event["ph"] == "X":
            # Times have nanoseconds, which floating point does not hold exactly.
            begin, length = (round(event[key] * 1000) for key in ("ts", "dur"))
            lanes.setdefault(event["tid"], []).append((begin, -length))
    assert lanes
    for spans in lanes.values():
        open_ends = []
        for begin, length in sorted(spans):
            end = begin - length
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def test_overlapping_events_are_noticed():
    def event(begin, length, tid=1):
        return {"ph": "X", "ts": begin, "dur": length, "tid": tid}

    check_nesting([event(0, 5), event(1, 2), event(3, 2), event(5, 1), event(4, 9, 2)])
    with pytest.raises(AssertionError):
        check_nesting([event(0, 5), event(4, 2)])


def read_trace(path):
    trace = json.loads(path.read_text())
    for event in trace["traceEvents"]:
        assert {"name", "ph", "pid", "tid"} <= set(event)
        assert event["ph"] in "XM"
    check_nesting(trace["traceEvents"])
    return trace["traceEvents"]


def train(folder, *flags):
    output = folder / "trained.npz"
    done = mpctest.mpc_ok(
        *("train", CNN, "--data", TRAIN, "--val-data", HELD, *STEP),
        *("--epochs", 1, "--output", output, *flags),
    )
    with np.load(output) as arrays:
        return done, {name: arrays[name].tobytes() for name in arrays}


def test_a_traced_run_has_the_same_bits(tmp_path):
    trace = tmp_path / "trace.json"
    plain, expected = train(tmp_path)
    traced, found = train(
        *(tmp_path, "--trace", trace, "--trace-steps", 3),
        *("--checkpoint-dir", tmp_path / "checkpoints"),
    )
    assert found == expected
    assert "time: steps" in traced.stdout and "time: steps" not in plain.stdout
    events = read_trace(trace)
    # Steps after the third leave no events; evaluations and checkpoints do.
    parts = sorted(e["name"] for e in events if e.get("cat") == "run")
    assert parts == ["checkpoint", *["data"] * 3, "evaluation", *["step"] * 3]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert {e["args"]["op"] for e in kernels} >= {"launch", "conv", "matmul"}
    convs = [e for e in kernels if e["name"] == "conv1" and e["args"]["op"] == "conv"]
    assert len(convs) == 3
    # A function contains its kernels, and they take most of it.
    function = sum(e["dur"] for e in events if e.get("cat") == "function")
    assert 0.3 * function < sum(e["dur"] for e in kernels) <= function


def test_a_trace_of_a_profile(tmp_path):
    trace = tmp_path / "trace.json"
    profile(MLP, *STEP, "--steps", 2, "--trace", trace)
    events = read_trace(trace)
    assert {"process_name", "thread_name"} <= {e["name"] for e in events}
    assert any(e.get("cat") == "kernel" for e in events)


def test_a_trace_that_cannot_be_written_loses_no_model(tmp_path):
    """The model is written, and the exit code says that the trace is missing."""
    folder, metrics = tmp_path / "traces", tmp_path / "m.jsonl"
    folder.mkdir()
    command = [
        *("train", MLP, "--data", TRAIN, *STEP, "--max-steps", 10000),
        *("--trace", folder / "t.json", "--trace-steps", 2, "--metrics", metrics),
        *("--output", tmp_path / "w.npz", "-q"),
    ]
    run = subprocess.Popen(
        [mpctest.MPC, *map(str, command)], stderr=subprocess.PIPE, text=True
    )
    while not (metrics.exists() and metrics.stat().st_size) and run.poll() is None:
        time.sleep(0.01)
    folder.rmdir()
    error = run.communicate()[1]
    assert run.returncode == 5, error
    assert "t.json" in error and (tmp_path / "w.npz").exists()


def test_a_trace_overwrites_no_input(tmp_path):
    for command in ("train", "profile"):
        done = mpctest.mpc(command, MLP, *STEP, "--data", TRAIN, "--trace", TRAIN)
        assert done.returncode == 2 and "--trace" in done.stderr
    missing = tmp_path / "missing" / "trace.json"
    done = mpctest.mpc("profile", MLP, *STEP, "--trace", missing)
    assert done.returncode == 5


#
# perf
#

# Runs mpc, and prints its process number.
CHILD = """
import os, sys
print(os.getpid(), flush=True)
os.execv(sys.argv[1], sys.argv[1:])
"""


def read_map(*arguments, **environment):
    """Returns the process number and the map that a run leaves; None without a
    map."""
    flags = [str(a) for a in (mpctest.MPC, *arguments)]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *flags],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        check=True,
    )
    number = int(done.stdout.split()[0])
    try:
        with open(f"/tmp/perf-{number}.map") as file:
            return file.read()
    except FileNotFoundError:
        return None
    finally:
        if os.path.exists(f"/tmp/perf-{number}.map"):
            os.unlink(f"/tmp/perf-{number}.map")


RUN = ("train", MLP, "--data", TRAIN, *STEP, "--max-steps", 2)


def test_the_map_for_perf_names_all_kernels(tmp_path):
    assert read_map(*RUN) is None and read_map(*RUN, MPC_PERF_MAP="0") is None
    lines = [line.split(" ") for line in read_map(*RUN, MPC_PERF_MAP="1").splitlines()]
    ranges = sorted((int(start, 16), int(size, 16)) for start, size, _ in lines)
    assert any(name.startswith("step_") for _, _, name in lines)
    assert all(size > 0 for _, size in ranges)
    for (start, size), (following, _) in itertools.pairwise(ranges):
        assert start + size <= following


def test_perf_sees_kernels(tmp_path):
    """Both ways: the file of an artifact, and the map of a compiled model."""
    perf = shutil.which("perf")
    record = [perf, "record", "-e", "cpu-clock:u", "-o", str(tmp_path / "data")]
    if not perf or subprocess.run([*record, "true"], capture_output=True).returncode:
        pytest.skip("perf cannot record here")
    artifact = tmp_path / "cnn.mpc"
    mpctest.mpc_ok("compile", CNN, *STEP, "-o", artifact)
    for model, wanted in ((artifact, "0"), (CNN, "1")):
        flags = () if model == artifact else STEP
        run = ("train", model, "--data", TRAIN, *flags, "--epochs", 4)
        words = [str(word) for word in (*record, "-F", 2000, mpctest.MPC, *run)]
        environment = {**os.environ, "MPC_PERF_MAP": wanted}
        subprocess.run(words, check=True, capture_output=True, env=environment)
        report = subprocess.run(
            [perf, "report", "-i", str(tmp_path / "data"), "--stdio", "--sort=symbol"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "step_" in report.stdout, report.stdout
