"""Tests the GPU checks without a GPU: they are packed for the CPU. All stages
that do not need a GPU's tools run, and can fail.

SPDX-License-Identifier: Apache-2.0
"""

import fcntl
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from mpctest import BUILD, DATA, ROOT, mpc_ok


def write_models(folder):
    """Writes a small model with PyTorch's names, in the form of
    export_models.py."""
    folder.mkdir()
    shutil.copy(
        DATA / "families" / "gpt2-dynamo-18.onnx", folder / "gpt2-tiny.onnx"
    )
    array = {"shape": [4, 8], "high": 29, "axis": 0}
    model = {"family": "gpt2", "size": "tiny", "batch": 4}
    model["loss"] = "softmax_cross_entropy"
    model["arrays"] = {"ids": array, "target": array}
    (folder / "models.json").write_text(json.dumps([model]))
    return folder


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Packs the archive once, in whichever test process comes first."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with open(shared / "pack.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        archive = shared / "pack.tar.xz"
        if not archive.exists():
            subprocess.run(
                [
                    *(sys.executable, ROOT / "tools" / "gpu" / "pack.py"),
                    *("--output", shared / "pack", "--target", "x86-64-v3"),
                    *("--models", write_models(shared / "models")),
                    *("--parts", "timed,ranks,curves,storm"),
                ],
                check=True,
            )
            # The unpacked archive must be self-contained.
            shutil.rmtree(shared / "pack")
        return archive


@pytest.fixture(scope="module")
def pack(archive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    shutil.unpack_archive(archive, folder)
    return folder / "pack"


def run_stages(pack, out, *stages, seconds=3600, device="cpu"):
    library = BUILD / "lib" / "libmpc_runtime.so"
    process = subprocess.run(
        [
            *(sys.executable, pack / "stages.py", "--out", out),
            *("--library", library, "--device", device),
            *("--seconds", str(seconds), *stages),
        ],
        check=False,
    )
    report = json.loads((out / "report.json").read_text())
    return process.returncode, report["stages"]


def test_runtime_builds_from_what_is_packed(pack, tmp_path, monkeypatch):
    """The build needs no mpc compiler, and gives no warning."""
    monkeypatch.setenv("CMAKE_BUILD_TYPE", "Debug")
    monkeypatch.setenv("CXXFLAGS", "-Werror")
    code, results = run_stages(pack, tmp_path, "build")
    assert code == 0, results["build"]["log"]
    assert (pack / "runtime-build/lib/libmpc_runtime.so").exists()


def test_the_library_is_what_was_built_or_else_packed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    stages = importlib.import_module("stages")
    built, packed = tmp_path / "built", tmp_path / "packed"
    monkeypatch.setattr(stages, "LIBRARIES", [built, packed])
    monkeypatch.setattr(stages, "HERE", tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    checks = stages.Checks(None, "cuda", None)
    assert checks.library == built
    packed.touch()
    assert checks.library == packed
    built.touch()
    assert checks.library == built
    assert stages.Checks("given", "cuda", None).library == "given"


def test_results_are_few_files_and_stay_until_they_are_replaced(pack, tmp_path):
    """A GPU machine may return only a few files, and may stop at any time."""
    _, first = run_stages(pack, tmp_path, "storm")
    _, second = run_stages(pack, tmp_path, "machine")
    assert second["storm"] == first["storm"]
    files = sorted(p.name for p in tmp_path.rglob("*"))
    assert files == ["cases.jsonl", "report.json", "report.md"]


def test_what_there_is_no_time_for_is_reported(pack, tmp_path):
    begin = time.monotonic()
    code, results = run_stages(pack, tmp_path, "curves", "storm", seconds=2)
    assert time.monotonic() - begin < 30
    assert code == 1
    runs = results["curves"]["runs"]
    assert len(runs) == 42
    assert runs[-1]["error"] == "not run: no time was left"


def test_curves_and_storm_pass_on_the_cpu(pack, tmp_path):
    code, results = run_stages(pack, tmp_path, "curves", "storm")
    assert code == 0, results
    assert len(results["curves"]["runs"]) == 42
    skipped = {r["precision"]: r["skipped"] for r in results["storm"]["runs"]}
    assert skipped == {"16-mixed": 13, "32-true": 0}
    page = (tmp_path / "report.md").read_text()
    assert "| resnet | 16-mixed |" in page


def test_steps_and_kernels_are_timed(pack, tmp_path, monkeypatch):
    """Each case reports a line as soon as it ends."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    code, results = run_stages(pack, tmp_path, "steps", "kernels", "torch")
    assert code == 0, results
    assert "skipped" in results["torch"]
    (steps,) = results["steps"]["runs"]
    assert steps["same_bits"]
    assert all(0 < steps[n] < 10_000 for n in ("ms", "alone_ms", "fed_ms"))
    (kernels,) = results["kernels"]["runs"]
    assert kernels["steps"] == len(kernels["rows"])
    products = [row for row in kernels["rows"] if row["op"] == "matmul"]
    # The scores: 32 tokens of 16 numbers, 29 words.
    assert 2 * 32 * 16 * 29 in [row["operations"] for row in products]
    assert all(row["bytes"] > 0 and row["us"] > 0 for row in products)
    lines = (tmp_path / "cases.jsonl").read_text().splitlines()
    stages = [json.loads(line)["stage"] for line in lines]
    # A long case reports a line after each part.
    assert stages == ["pack", *["steps"] * 4, *["kernels"] * 2, "torch"]
    page = (tmp_path / "report.md").read_text()
    assert "| gpt2-tiny | bf16-mixed |" in page
    assert "## Kernels of gpt2-tiny" in page


def test_attention_is_also_timed_by_products(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    packing = importlib.import_module("pack")
    gpu_cases = importlib.import_module("gpu_cases")
    compiled = []

    class Pack(packing.Pack):
        def __init__(self, target):
            self.target, self.models, self.manifest = target, tmp_path, {}

        def compile(self, model, name, *flags):
            compiled.append((name, "products" in flags))
            return f"artifacts/{name}.mpc"

    models = [("gpt2", "gpu"), ("gpt2", "gpu_long"), ("resnet50", "gpu")]
    (tmp_path / "models.json").write_text(
        json.dumps(
            [
                {"family": f, "size": s, "batch": 2, "loss": "mse", "arrays": {}}
                for f, s in models
            ]
        )
    )
    for target, more in (("sm_90", ["gpt2-gpu products"]), ("native", [])):
        pack = Pack(target)
        packing.add_timed(pack, None)
        names = [e["model"] for e in gpu_cases.list_cases(pack.manifest, "steps")]
        assert names == ["gpt2-gpu", "gpt2-gpu_long", "resnet50-gpu", *more]
        assert len(gpu_cases.list_cases(pack.manifest, "kernels")) == 2
    assert [name for name, is_product in compiled if is_product] == [
        "products-gpt2-gpu"
    ]


def test_reductions_of_one_rank_change_no_bit(pack, tmp_path):
    """A CPU has no library for one rank."""
    code, results = run_stages(pack, tmp_path, "ranks")
    assert code == 0, results
    run, sharded = results["ranks"]["runs"]
    assert sharded["model"] == f"{run['model']} sharded"
    assert sharded["same_bits"] and sharded["reduced_bytes"] > 0
    assert run["model"] == "gpt2-tiny" and run["library"] is None
    assert run["same_bits"] and run["reductions"] >= 1 and run["ranks_ms"] > 0


def test_a_step_is_predicted(pack):
    """The prediction is the time that an artifact's plan would take on a GPU."""
    process = subprocess.run(
        [
            *(sys.executable, pack / "roof.py", "--gpu", "H200"),
            *("--library", BUILD / "lib" / "libmpc_runtime.so"),
            pack / "artifacts" / "timed-gpt2-tiny.mpc",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    title, _, row = process.stdout.splitlines()
    assert title.startswith("Predicted for an H200, not measured")
    name, kernels, *numbers = row.split()
    assert name == "gpt2-tiny" and int(kernels) > 10
    assert all(float(number) >= 0 for number in numbers)


def test_choices_are_timed_on_the_emulated_gpu(tmp_path):
    """The emulated library proposes one algorithm and has few epilogues."""
    artifact, lines = tmp_path / "gpt2.mpc", tmp_path / "cases.jsonl"
    mpc_ok(
        *("compile", DATA / "families" / "gpt2-dynamo-18.onnx", "-o", artifact),
        *("--loss", "softmax_cross_entropy", "--batch-size", "4"),
        *("--precision", "bf16-mixed", "--target", "sm_90"),
    )
    environment = {
        **os.environ,
        "MPC_CUDA_LIBRARY_PATH": str(BUILD / "test" / "emulator"),
        "MPC_EMULATOR_DEVICE": "sm_90",
    }
    subprocess.run(
        [
            *(sys.executable, ROOT / "tools" / "gpu" / "choices.py", lines),
            *("gpt2", artifact, BUILD / "lib" / "libmpc_runtime.so"),
        ],
        check=True,
        env=environment,
    )
    runs = [json.loads(line) for line in lines.read_text().splitlines()]
    scores = [run for run in runs if (run["m"], run["n"]) == (32, 29)]
    assert scores and len({tuple(run[k] for k in "mnk") for run in runs}) > 5
    for run in runs:
        assert len(run["proposals_us"]) == 1 and run["proposals_us"][0] > 0
        assert run["gelu_aux_bias_us"] == "status 15"


def test_a_step_has_a_roof(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    roof = importlib.import_module("roof")
    gpu = roof.find_gpu("NVIDIA H100 80GB HBM3")
    assert roof.find_gpu("Another") is None
    buffers = [
        {"shape": [8192, 4096], "type": "bf16"},
        {"shape": [4096, 4096], "type": "bf16"},
        {"shape": [8192, 4096], "type": "f32"},
        {"shape": [7], "type": "i1"},
    ]
    product = {"op": "matmul", "a": 0, "b": 1, "c": 2, "batch": 1}
    product |= {"m": 8192, "n": 4096, "k": 4096}
    product |= {"stride_a": 0, "stride_b": 0, "stride_c": 0}
    moved, operations, kind = roof.work_of(product, buffers)
    assert moved == 2 * 8192 * 4096 + 2 * 4096**2 + 4 * 8192 * 4096
    assert (operations, kind) == (2 * 8192 * 4096**2, "low")
    assert roof.seconds_at_least(product, buffers, gpu) == operations / gpu.low
    copy = {"op": "copy", "src": 2, "dst": 2}
    loop = {"op": "for", "count": 3, "steps": [copy, product]}
    assert roof.work_of(loop, buffers) == (
        3 * (moved + 8 * 8192 * 4096),
        3 * operations,
        "low",
    )
    total = roof.predict({"steps": [copy, product], "buffers": buffers}, gpu)
    assert (total["steps"], total["kernels"]) == (2, 2)
    assert total["roof"] == 8 * 8192 * 4096 / gpu.bytes + operations / gpu.low
    assert total["products"] == pytest.approx(operations / 600e12 + 1e-6)
    parted = {**product, "outer": {"extents": [3, 2], "a": [1, 1], "b": [1, 1]}}
    assert roof.calls_of({"op": "for", "count": 5, "steps": [parted, copy]}) == 35
    launch = {"op": "launch", "args": [2, 3]}
    assert roof.seconds_at_least(launch, buffers, gpu) == (
        (4 * 8192 * 4096 + 7) / gpu.bytes
    )


def test_attention_has_a_roof(monkeypatch):
    """GPT-2's layer, 16 x 512 tokens: operands of 12.6 MB each."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    roof = importlib.import_module("roof")
    buffers = [
        {"shape": [16, 512, 2304], "type": "bf16"},
        {"shape": [16, 12, 512], "type": "f32"},
    ]
    forward = {"op": "attention", "kind": "forward", "causal_offset": 0}
    forward |= {"batch": 16, "heads": 12, "key_heads": 12, "size": 64}
    forward |= {"queries": 512, "keys": 512, "columns": 64, "query": 0}
    operand, scores = 2 * 16 * 512 * 768, 16 * 12 * 512 * 513 // 2
    assert roof.work_of({**forward, "statistics": 1}, buffers) == (
        4 * operand + 4 * 16 * 12 * 512,
        2 * scores * (64 + 64),
        "attention",
    )
    everything = {**forward, "causal_offset": None}
    assert roof.work_of(everything, buffers)[1] == 4 * 16 * 12 * 512 * 512 * 64
    gradient = {**forward, "kind": "gradient", "statistics": 1}
    moved, operations, _ = roof.work_of(gradient, buffers)
    # The gradients of all scores are written and read.
    expected = 8 * operand + 4 * 16 * 12 * 512 + 2 * 2 * 16 * 12 * 512**2
    assert (moved, operations) == (expected, 2 * scores * 5 * 64)
    assert (roof.calls_of(forward), roof.calls_of(gradient)) == (1, 3)
    gpu = roof.find_gpu("NVIDIA H100 80GB HBM3")
    assert roof.seconds_at_least(gradient, buffers, gpu) == moved / gpu.bytes


def test_a_line_that_was_cut_is_left_out(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    report = importlib.import_module("report")
    path = tmp_path / report.LINES
    report.append(path, "steps", {"model": "a"})
    report.append(path, "torch", {"model": "a"})
    with open(path, "a", encoding="ascii") as file:
        file.write('{"stage": "torch", "mod')
    assert report.read(path, "torch") == [{"model": "a"}]
    report.forget(path, ["steps"])
    assert [line["stage"] for line in report.read_lines(path)] == ["torch"]


def test_later_lines_of_a_case_add_to_those_before(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    report = importlib.import_module("report")
    path = tmp_path / report.LINES
    case = {"model": "a", "how": "eager"}
    report.append(path, "torch", {**case, "ms": 3.0, "provisional": True})
    report.append(path, "torch", {"model": "a", "how": "graphs", "error": "none"})
    assert report.read(path, "torch")[0]["provisional"]
    report.append(path, "torch", {**case, "ms": 2.0, "bytes": 5})
    report.append(path, "steps", {"model": "a", "precision": "p", "ms": 4.0})
    assert report.read(path, "torch")[0] == {**case, "ms": 2.0, "bytes": 5}
    subprocess.run(
        [sys.executable, ROOT / "tools" / "gpu" / "report.py", tmp_path],
        check=True,
    )
    stages = json.loads((tmp_path / "report.json").read_text())["stages"]
    assert stages["torch"]["error"] == "cut off"
    page = (tmp_path / "report.md").read_text()
    assert "| a | p | None | 4 | None | None | None | None | 2 | None | failed |" in page


def test_a_wrong_loss_and_a_missed_skip_are_found(pack, tmp_path):
    path = pack / "manifest.json"
    original = path.read_text()
    manifest = json.loads(original)
    for entry in manifest["curves"]:
        if entry["model"] == "lenet":
            entry["cpu"]["loss"][4] *= 1.02
    overflow, nan = manifest["storm"]
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


def test_a_wrong_gradient_is_found(pack, tmp_path):
    """The optimizer's state of one tensor is half of the right value."""
    paths = list((pack / "arrays").glob("moments-mlp-*.npz"))
    assert len(paths) == 4
    originals = [path.read_bytes() for path in paths]
    for path in paths:
        with np.load(path) as arrays:
            changed = dict(arrays)
        name = next(name for name in changed if np.any(changed[name]))
        changed[name] *= 2
        np.savez(path, **changed)
    try:
        code, results = run_stages(pack, tmp_path, "curves")
    finally:
        for path, original in zip(paths, originals):
            path.write_bytes(original)
    assert code == 1
    for run in results["curves"]["runs"]:
        assert run["ok"] == (run["model"] != "mlp")


def test_a_sanitizer_that_cannot_attach_is_skipped(tmp_path, monkeypatch):
    """Some virtual machines forbid a sanitizer to watch their GPU. This is not
    a failure, and must not take time."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    stages = importlib.import_module("stages")
    report = importlib.import_module("report")
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\necho 'Device not supported'; exit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(stages, "TRIVIAL", "pass")

    def output_of(*command, share=1):
        process = subprocess.run(
            command, capture_output=True, text=True, check=False
        )
        return process.returncode, process.stdout + process.stderr

    result = stages.sanitize(types.SimpleNamespace(output_of=output_of))
    assert result["ok"] and "Device not supported" in result["skipped"]
    assert report.outcome(result) == "skipped"
    monkeypatch.setattr(stages, "TRIVIAL", "raise SystemExit('no driver')")
    result = stages.sanitize(types.SimpleNamespace(output_of=output_of))
    assert "no GPU: no driver" in result["skipped"]


def test_no_gpu_is_a_device_error(pack, tmp_path):
    """Artifacts for a CPU do not run on a GPU: every run says so."""
    code, results = run_stages(pack, tmp_path, "storm", device="cuda")
    assert code == 1
    assert "GPU" in results["storm"]["runs"][0]["error"]


# Replaces the program that runs cases from a given one on. The second case ends
# the process, the fourth fails, and the exit after the last one aborts.
PROGRAM = """
import json, os, sys
flag = lambda name: int(sys.argv[sys.argv.index(name) + 1])
for case in range(flag("--first"), 6, flag("--stride")):
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
        program=program,
        library="",
        device="",
        lines=tmp_path / "cases.jsonl",
        manifest={"ops": [{}] * 6},
        seconds_left=lambda: 60,
    )
    monkeypatch.setattr(cases.os, "cpu_count", lambda: 2)
    results = cases.run_apart(checks, "ops")
    assert [r["ok"] for r in results] == [True, False, True, False, False, False]
    monkeypatch.setattr(cases, "MOST_SHARES", 1)
    results = cases.run_apart(checks, "ops")
    assert [r["ok"] for r in results] == [True, False, True, False, True, False]
    assert "a fault" in results[1]["error"]
    assert results[3]["error"] == "failed"
    monkeypatch.setattr(cases, "MOST_PROCESSES", 2)
    results = cases.run_apart(checks, "ops")
    assert [r["ok"] for r in results] == [True, False, True] + [False] * 3
    assert "not run" in results[5]["error"]


def test_a_program_ends_in_time_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    processes = importlib.import_module("processes")
    note = tmp_path / "pid"
    command = f"echo begun; sleep 600 & echo $! >{note}; wait"
    code, out, err = processes.run(["sh", "-c", command], 1)
    assert (code, out, err) == (None, "begun\n", "")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and is_running(int(note.read_text())):
        time.sleep(0.1)
    assert not is_running(int(note.read_text()))
    command = "echo here; echo there >&2; exit 3"
    assert processes.run(["sh", "-c", command], 60) == (3, "here\n", "there\n")


def is_running(pid):
    """A zombie has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_float64_may_be_off_by_as_much_less_as_it_is_finer(monkeypatch):
    """Losses of later steps have more roundings. float64's bounds are those of
    fp32, 2^29 times smaller."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    cases = importlib.import_module("gpu_cases")
    losses = {"64-true": [2.0, 1.0], "32-true": [2.0, 1.0 + 2.0**-18]}
    entries = [
        {"model": "m", "precision": precision, "cpu": {"loss": loss}}
        for precision, loss in losses.items()
    ]
    bounds = cases.curve_bound({"curves": entries}, entries[0])
    assert list(bounds) == [2.0**-49, 2.0**-45 + 2.0**-50]


def test_a_broken_artifact_is_one_failure(pack, tmp_path):
    path = pack / "artifacts" / "storm-mlp-16-mixed.mpc"
    original = path.read_bytes()
    path.write_bytes(original[: len(original) // 2])
    try:
        code, results = run_stages(pack, tmp_path, "storm")
    finally:
        path.write_bytes(original)
    assert code == 1
    broken = [run["model"] for run in results["storm"]["runs"] if "error" in run]
    assert broken == ["mlp"]
