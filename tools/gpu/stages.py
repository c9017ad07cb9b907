"""Runs the checks that need a GPU, from a folder that pack.py made.

    stages.py [--out DIR] [--library PATH] [--seconds N] [STAGE...]

Stages run in this order, or only the named ones. A failed stage does not stop
the next. All together take N seconds at most (480). Each stage has its share
plus the time that earlier ones left, and reports the cases that it had no time
for. After every stage, DIR/report.json and DIR/report.md have all results so
far. The exit code is 1 if any stage failed.

    machine   what this machine is
    build     the runtime from its sources, here
    steps     training steps of large models: start-up, milliseconds fed and
              alone, memory, the same bits twice
    kernels   the time of each step of their plans, beside what the GPU's memory
              and Tensor Cores allow
    ranks     a step whose gradients go through NCCL on one rank, in the captured
              graph, beside a step without NCCL
    choices   the time of all that cuBLASLt proposes for their products, and of
              the epilogues that training wants
    attention cuDNN's attention, forward and two ways backward, in their shapes
    torch     the same models in PyTorch at its best
    ops       every operator against float64, within derived bounds
    families  small models of 25 kinds, in every precision, lose what they
              lose in PyTorch
    curves    losses of three models in every precision against the CPU's, in
              the first steps, and gradients of the first; twice, with the same
              bits
    storm     batches that overflow: which are skipped, what the scale does; a
              NaN stays one
    sanitize  small steps under compute-sanitizer's tools; skipped where these
              cannot watch the GPU
    torch_large  PyTorch in the larger batches that `steps` has

DIR/cases.jsonl has a line for each case, written as soon as its result is
known. The reports need only this file: `report.py DIR` makes them after a run
that was cut off.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import attention as shapes
import numpy as np

import gpu_cases
import capi
import processes
import report

HERE = pathlib.Path(__file__).resolve().parent
RUNTIME_BUILD = HERE / "runtime-build"
# The first existing one is used: made by `build`, or packed.
LIBRARIES = [
    folder / "lib" / "libmpc_runtime.so" for folder in (RUNTIME_BUILD, HERE)
]


class Checks:
    """Paths, and the end of the current stage's time."""

    def __init__(self, library, device, lines):
        self.given, self.device, self.lines = library, device, lines
        self.program = HERE / "stages.py"
        self.deadline = float("inf")
        text = (HERE / "manifest.json").read_text(encoding="utf-8")
        self.manifest = json.loads(text)

    @property
    def library(self):
        found = filter(pathlib.Path.exists, LIBRARIES)
        return self.given or next(found, LIBRARIES[0])

    def open(self, artifact):
        runtime = capi.Runtime(self.library)
        return runtime.open(HERE / artifact, self.device)

    def arrays(self, path):
        with np.load(HERE / path) as arrays:
            return dict(arrays)

    def gpu_name(self):
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        if not shutil.which(command[0]):
            return ""
        return processes.run(command, 10)[1].strip()

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def output_of(self, *command, share=1):
        """Returns exit code and output of a program, which may take a share of
        the remaining time."""
        code, out, err = processes.run(command, self.seconds_left() * share)
        return code, out + err + ("" if code is not None else "\nno time left")


def machine(checks):
    query = "name,driver_version,memory.total,clocks.max.sm"
    result = {"python": sys.version.split()[0]}
    for name, command in {
        "gpu": ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
        "nvcc": ["nvcc", "--version"],
        "torch": [sys.executable, "-c", "import torch; print(torch.__version__)"],
    }.items():
        if shutil.which(command[0]):
            code, text = checks.output_of(*command)
            result[name] = text.strip().splitlines()[-1] if code == 0 else None
    return {"ok": result.get("gpu") is not None, **result}


def build(checks):
    """Builds the library for later stages, unless one was given. On failure
    they use the packed one."""
    flags = [f"-I{HERE / 'source' / 'include'}", os.environ.get("CXXFLAGS", "")]
    code, text = checks.output_of(
        *("cmake", "-G", "Ninja", "-S", HERE / "source", "-B", RUNTIME_BUILD),
        *("-DMPC_RUNTIME_ONLY=ON", "-DMPC_UNITY=ON"),
        f"-DCMAKE_CXX_FLAGS={' '.join(flags)}",
    )
    if code == 0:
        code, text = checks.output_of("ninja", "-C", RUNTIME_BUILD)
    return {"ok": code == 0, "log": "" if code == 0 else text[-4000:]}


def ops(checks):
    results = gpu_cases.run_apart(checks, "ops")
    excesses = [r["times_bound"] for r in results if "times_bound" in r]
    return {
        "ok": bool(results) and all(r["ok"] for r in results),
        "run": len(excesses),
        "worst_times_bound": max(excesses, default=None),
    }


def run_named(checks, kind):
    results = gpu_cases.run_apart(checks, kind)
    return {"ok": all(result["ok"] for result in results)}


def curves(checks):
    return run_named(checks, "curves")


def families(checks):
    return run_named(checks, "families")


def storm(checks):
    return run_named(checks, "storm")


# The tools and the artifacts of `curves` that each inspects: memcheck runs all
# kinds of steps, and the others run the generated kernels in which threads
# cooperate most.
SANITIZED = {
    "memcheck": ("resnet", "16-mixed", "table"),
    "racecheck": ("mlp", "16-mixed", "generated"),
    "synccheck": ("mlp", "16-mixed", "generated"),
}


# A program that barely uses a GPU.
TRIVIAL = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(256)) == 0
assert cuda.cuMemFree_v2(memory) == 0
"""


def why_not_sanitized(checks):
    """Returns the reason why compute-sanitizer cannot watch any program here,
    such as a virtual machine that forbids it; None if it can."""
    command = [sys.executable, "-c", TRIVIAL]
    code, text = checks.output_of(*command, share=0.1)
    if code != 0:
        return f"no GPU: {text[-500:]}"
    code, text = checks.output_of(
        *("compute-sanitizer", "--error-exitcode", "9"), *command, share=0.2
    )
    return None if code == 0 else f"exit code {code}: {text[-500:]}"


def sanitize(checks):
    """Runs three steps, so that the captured graph is replayed once."""
    if not shutil.which("compute-sanitizer"):
        return {"ok": False, "error": "compute-sanitizer was not found"}
    if why := why_not_sanitized(checks):
        return {"ok": True, "skipped": why}
    results = {}
    for tool, wanted in SANITIZED.items():
        entry = next(
            e
            for e in checks.manifest["curves"]
            if (e["model"], e["precision"], e["contractions"]) == wanted
        )
        code, text = checks.output_of(
            *("compute-sanitizer", "--tool", tool, "--error-exitcode", "9"),
            *(sys.executable, HERE / "stages.py", "--library", checks.library),
            *("--device", checks.device, "--steps-of", entry["artifact"]),
            *("--arrays", entry["arrays"]),
            share=1 / (len(SANITIZED) - len(results)),
        )
        results[tool] = {"ok": code == 0, "log": text[-1500:]}
    return {"ok": all(r["ok"] for r in results.values()), **results}


def run_three_steps(checks, artifact, arrays):
    with checks.open(artifact) as session:
        gpu_cases.steps.run_steps(
            session, gpu_cases.split(checks.arrays(arrays))[:3]
        )


def steps(checks):
    return run_named(checks, "steps")


def kernels(checks):
    return run_named(checks, "kernels")


def why_no_nccl(checks):
    """None if the library is found in the places that the runtime searches;
    otherwise the reason. On a CPU no rank needs it."""
    if checks.device == "cpu":
        return None
    folders = os.environ.get("MPC_CUDA_LIBRARY_PATH", "").split(":")
    for folder in [*filter(None, folders), ""]:
        try:
            ctypes.CDLL(os.path.join(folder, "libnccl.so.2"))
            return None
        except OSError as error:
            why = str(error)
    return why


def ranks(checks):
    """No library is a reason to skip, not a failure of mpc."""
    if why := why_no_nccl(checks):
        return {"ok": True, "skipped": f"NCCL cannot be loaded: {why}"}
    return run_named(checks, "ranks")


def choices(checks):
    """Starts a process for each model: a fault ends no other."""
    return run_programs(
        checks,
        {
            entry["model"]: (
                *(HERE / "choices.py", checks.lines, entry["model"]),
                *(HERE / entry["artifact"], checks.library),
            )
            for entry in gpu_cases.list_cases(checks.manifest, "kernels")
        },
    )


def attention(checks):
    timed = {entry["model"] for entry in checks.manifest["timed"]}
    return run_programs(
        checks,
        {
            name: (HERE / "attention.py", checks.lines, name)
            for name in shapes.SHAPES
            if name in timed
        },
    )


def run_programs(checks, commands):
    """Runs programs one after the other, in equal parts of the remaining time."""
    logs = {}
    for number, (name, command) in enumerate(commands.items()):
        code, text = checks.output_of(
            *(sys.executable, *command), share=1 / (len(commands) - number)
        )
        if code != 0:
            logs[name] = f"exit code {code}: {text[-500:]}"
    return {"ok": not logs, "logs": logs}


def why_no_torch(checks):
    """None if PyTorch, its models' packages and a GPU are present; otherwise
    the reason."""
    code, text = checks.output_of(
        *(sys.executable, "-c"),
        "import torch, torchvision; assert torch.cuda.is_available(), 'no GPU'",
        share=0.5,
    )
    return None if code == 0 else (text.strip().splitlines() or ["no time"])[-1]


# The part of a stage's time for PyTorch that its compilers may take.
READY_BY = 0.7


def torch(checks):
    """PyTorch's times are for comparison: missing times are not a failure of
    mpc."""
    return run_torch(checks, gpu_cases.list_cases(checks.manifest, "kernels"))


def torch_large(checks):
    """Their captured graphs would not fit into the GPU's memory together."""
    entries = [e for e in checks.manifest["timed"] if gpu_cases.is_variant(e)]
    return run_torch(checks, entries, "eager,compiled")


def run_torch(checks, entries, *ways):
    """Starts a process for each model, all at once: see torch_steps.py."""
    if why := why_no_torch(checks):
        return {"ok": True, "skipped": f"PyTorch cannot be used here: {why}"}
    ready_by, logs = checks.seconds_left() * READY_BY, {}

    def run(folder, number, entry):
        code, text = checks.output_of(
            *(sys.executable, HERE / "torch_steps.py", checks.lines),
            *(entry["precision"], f"{entry['family']}:{entry['size']}"),
            *(folder, ready_by, *ways),
        )
        (folder / f"ended-{number}").touch()
        if code != 0:
            logs[entry["model"]] = f"exit code {code}: {text[-500:]}"

    with (
        tempfile.TemporaryDirectory() as meeting,
        concurrent.futures.ThreadPoolExecutor(len(entries) + 1) as pool,
    ):
        folder = pathlib.Path(meeting)
        (folder / "expected").write_text(str(len(entries)), encoding="ascii")
        for number, entry in enumerate(entries):
            pool.submit(run, folder, number, entry)
    return {"ok": True, "logs": logs}


def add_library_folders():
    """Finds the cuBLASLt and the cuDNN that PyTorch brings in separate folders."""
    folders = [os.environ.get("MPC_CUDA_LIBRARY_PATH", "")]
    for place in map(pathlib.Path, sys.path):
        folders += [str(found) for found in sorted(place.glob("nvidia/*/lib"))]
    os.environ["MPC_CUDA_LIBRARY_PATH"] = ":".join(filter(None, folders))


# The stages with their shares of the time.
STAGES = {
    machine: 10,
    build: 60,
    steps: 95,
    kernels: 40,
    ranks: 30,
    choices: 25,
    attention: 25,
    torch: 130,
    ops: 45,
    families: 20,
    curves: 20,
    storm: 5,
    sanitize: 15,
    torch_large: 35,
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results")
    parser.add_argument(
        "--library",
        type=pathlib.Path,
        help="in place of the one that `build` makes",
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--steps-of", help=argparse.SUPPRESS)
    parser.add_argument("--arrays", help=argparse.SUPPRESS)
    parser.add_argument("--lines", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--cases", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--stride", type=int, help=argparse.SUPPRESS)
    names = [stage.__name__ for stage in STAGES]
    parser.add_argument("stages", nargs="*", metavar="STAGE", choices=[[], *names])
    return parser.parse_args()


def run_stage(checks, stage):
    begin = time.perf_counter()
    try:
        result = stage(checks)
    except Exception as error:  # no error may stop the other stages
        result = {"ok": False, "error": f"{type(error).__name__}: {error}"}
    result["seconds"] = round(time.perf_counter() - begin, 1)
    verdict = "ok" if result["ok"] else "FAILED"
    if "skipped" in result:
        verdict = f"skipped, for {result['skipped']}"
    print(f"{stage.__name__}: {verdict} ({result['seconds']} s)", flush=True)
    if not result["ok"]:
        print(json.dumps(result)[:2000], flush=True)
    return result


# The keys of a case that are also printed: a machine may return only the end of
# the output.
SHOWN = ("model", "how", "ms", "alone_ms", "start_seconds", "us", "predicted_us")
SHOWN += ("ranks_ms", "cost_percent", "spread_percent")
SHOWN += ("same_bits", "forward_us", "deterministic_us", "accumulating_us", "error")
FEW = 8


def show_cases(stage, runs):
    """Shows all cases of large models, and some failed cases of others."""
    if stage in ("choices", "ops", "families", "curves", "storm"):
        runs = [run for run in runs if not run.get("ok", True)][:FEW]
    for run in runs:
        values = {
            name: round(run[name], 2) if isinstance(run[name], float) else run[name]
            for name in SHOWN
            if name in run
        }
        print("  " + json.dumps(values)[:240], flush=True)


def write_report(out):
    """Writes the report, which may fail: all results are in the lines."""
    try:
        report.write(out)
    except Exception as error:  # such as a line without a table's key
        print(f"no report: {type(error).__name__}: {error}", flush=True)


def main():
    options = parse_arguments()
    add_library_folders()
    lines = options.lines or options.out / report.LINES
    checks = Checks(options.library, options.device, lines)
    if options.steps_of or options.cases:
        processes.end_with_parent()
    if options.steps_of:
        return run_three_steps(checks, options.steps_of, options.arrays)
    if options.cases:
        return gpu_cases.run_here(
            checks, options.cases, options.first, options.stride
        )

    chosen = [
        stage
        for stage in STAGES
        if not options.stages or stage.__name__ in options.stages
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    report.forget(lines, [report.PACK, *(stage.__name__ for stage in chosen)])
    keys = ("target", "commit", "changed")
    report.append(lines, report.PACK, {k: checks.manifest[k] for k in keys})
    share = options.seconds / sum(STAGES[stage] for stage in chosen)
    checks.deadline = time.monotonic()
    failed = False
    for stage in chosen:
        checks.deadline += STAGES[stage] * share
        result = run_stage(checks, stage)
        report.end(lines, stage.__name__, result)
        show_cases(stage.__name__, report.read(lines, stage.__name__))
        write_report(options.out)
        failed = failed or not result["ok"]
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
