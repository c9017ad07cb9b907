"""The checks that need a GPU, from a folder that pack.py made.

    stages.py [--out DIR] [--library PATH] [STAGE...]

Stages run in this order, each on its own where it is named; one that fails does
not stop the next. Every stage writes DIR/<stage>.json; the exit code is 1 where
any failed.

    machine   what this machine is
    build     the runtime from its sources, here
    ops       every operator against float64, within derived bounds
    curves    losses of three models in every precision against the CPU's;
              twice, with the same bits
    storm     batches that overflow: which are skipped, what the scale does; a
              NaN stays one
    sanitize  a small step under compute-sanitizer
    bench     steps of mpc and PyTorch, side by side

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np

import gpu_cases
import mpc_runtime
import report
import steps

HERE = pathlib.Path(__file__).resolve().parent
class Checks:
    """Where things are, and what a stage has found."""

    def __init__(self, out, library, device):
        self.out, self.library, self.device = out, library, device
        self.program = HERE / "stages.py"
        text = (HERE / "manifest.json").read_text(encoding="utf-8")
        self.manifest = json.loads(text)

    def open(self, artifact):
        runtime = mpc_runtime.Runtime(self.library)
        return runtime.open(HERE / artifact, self.device)

    def arrays(self, path):
        with np.load(HERE / path) as arrays:
            return dict(arrays)


def output_of(*command, **options):
    process = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    return process.returncode, process.stdout + process.stderr


def machine(checks):
    query = "name,driver_version,memory.total,clocks.max.sm"
    result = {"python": sys.version.split()[0]}
    for name, command in {
        "gpu": ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
        "nvcc": ["nvcc", "--version"],
        "torch": [sys.executable, "-c", "import torch; print(torch.__version__)"],
    }.items():
        if shutil.which(command[0]):
            code, text = output_of(*command)
            result[name] = text.strip().splitlines()[-1] if code == 0 else None
    return {"ok": result.get("gpu") is not None, **result}


def build(checks):
    """Takes the place of the library that was given, for the stages after."""
    folder = checks.out / "runtime-build"
    code, text = output_of(
        *("cmake", "-G", "Ninja", "-S", HERE / "source", "-B", folder),
        *("-DCMAKE_BUILD_TYPE=Release", "-DMPC_RUNTIME_ONLY=ON"),
        f"-DCMAKE_CXX_FLAGS=-I{HERE / 'source' / 'include'}",
    )
    if code == 0:
        code, text = output_of("ninja", "-C", folder)
    return {"ok": code == 0, "log": "" if code == 0 else text[-4000:]}


def ops(checks):
    entries = checks.manifest["ops"]
    results = gpu_cases.run_apart(checks, "ops")
    excesses = [r["times_bound"] for r in results if "times_bound" in r]
    return {
        "ok": bool(results) and all(r["ok"] for r in results),
        "run": len(excesses),
        "failed": [
            {"case": f"{entry['name']} {entry['precision']}", **result}
            for entry, result in zip(entries, results)
            if not result["ok"]
        ],
        "worst_times_bound": max(excesses, default=None),
    }


def run_named(checks, kind, names):
    """The results of all cases, each with what `names` it has in the manifest."""
    results = [
        {**{name: entry[name] for name in names}, **result}
        for entry, result in zip(
            checks.manifest[kind], gpu_cases.run_apart(checks, kind)
        )
    ]
    return {"ok": all(result["ok"] for result in results), "runs": results}


def curves(checks):
    return run_named(checks, "curves", ("model", "precision", "contractions"))


def storm(checks):
    return run_named(checks, "storms", ("model", "precision"))


def sanitize(checks):
    """Three steps, so that the captured graph is replayed once."""
    if not shutil.which("compute-sanitizer"):
        return {"ok": False, "error": "compute-sanitizer was not found"}
    entry = next(
        e
        for e in checks.manifest["curves"]
        if (e["model"], e["precision"]) == ("resnet", "16-mixed")
    )
    results = {}
    for tool in ("memcheck", "racecheck"):
        code, text = output_of(
            *("compute-sanitizer", "--tool", tool, "--error-exitcode", "9"),
            *(sys.executable, HERE / "stages.py", "--library", checks.library),
            *("--device", checks.device, "--steps-of", entry["artifact"]),
            *("--arrays", entry["arrays"]),
            timeout=150,
        )
        results[tool] = {"ok": code == 0, "log": text[-1500:]}
    return {"ok": all(r["ok"] for r in results.values()), **results}


def run_three_steps(checks, artifact, arrays):
    with checks.open(artifact) as session:
        steps.run_steps(session, gpu_cases.split(checks.arrays(arrays))[:3])


def time_torch(entry, how):
    code, text = output_of(
        *(sys.executable, HERE / "torch_steps.py", HERE / entry["onnx"]),
        *(how, entry["precision"], entry["batch"]),
        *(gpu_cases.BENCH_WARM_UP, gpu_cases.BENCH_STEPS, gpu_cases.BENCH_ROUNDS),
        timeout=120,
    )
    return float(text.strip().splitlines()[-1]) if code == 0 else text[-500:]


def bench(checks):
    timed = iter(gpu_cases.run_apart(checks, "bench"))
    results = []
    for entry in checks.manifest["bench"]:
        result = {k: entry[k] for k in ("model", "batch", "precision")}
        result["ok"] = True
        for contractions, time_of in zip(entry["artifacts"], timed):
            time_or_error = time_of.get("ms", time_of.get("error"))
            result[f"mpc_{contractions}_ms"] = time_or_error
            result["ok"] &= time_of["ok"]
        for how in ("eager", "compiled"):
            result[f"torch_{how}_ms"] = time_torch(entry, how)
        results.append(result)
    return {"ok": all(result["ok"] for result in results), "runs": results}


def add_library_folders():
    """PyTorch brings a cuBLASLt and a cuDNN in folders of their own."""
    folders = [os.environ.get("MPC_CUDA_LIBRARY_PATH", "")]
    for place in map(pathlib.Path, sys.path):
        folders += [str(found) for found in sorted(place.glob("nvidia/*/lib"))]
    os.environ["MPC_CUDA_LIBRARY_PATH"] = ":".join(filter(None, folders))


STAGES = [machine, build, ops, curves, storm, sanitize, bench]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results")
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps-of", help=argparse.SUPPRESS)
    parser.add_argument("--arrays", help=argparse.SUPPRESS)
    parser.add_argument("--cases", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    names = [stage.__name__ for stage in STAGES]
    parser.add_argument("stages", nargs="*", metavar="STAGE", choices=[[], *names])
    options = parser.parse_args()
    add_library_folders()
    library = options.library
    if library is None:
        library = options.out / "runtime-build" / "lib" / "libmpc_runtime.so"
    checks = Checks(options.out, library, options.device)
    if options.steps_of:
        return run_three_steps(checks, options.steps_of, options.arrays)
    if options.cases:
        return gpu_cases.run_here(checks, options.cases, options.first)

    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for stage in STAGES:
        name = stage.__name__
        if options.stages and name not in options.stages:
            continue
        begin = time.perf_counter()
        try:
            result = stage(checks)
        except (OSError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            result = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        result["seconds"] = round(time.perf_counter() - begin, 1)
        with open(options.out / f"{name}.json", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
        verdict = "ok" if result["ok"] else "FAILED"
        print(f"{name}: {verdict} ({result['seconds']} s)", flush=True)
        if not result["ok"]:
            failed.append(name)
            print(json.dumps(result)[:2000], flush=True)
    report.write(options.out, checks.manifest)
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
