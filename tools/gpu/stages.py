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
    storm     batches that overflow: which are skipped, what the scale does
    sanitize  a small step under compute-sanitizer
    bench     steps of mpc and PyTorch, side by side

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np

import mpc_runtime
import report
import steps

HERE = pathlib.Path(__file__).resolve().parent
# What summing in another order may change in a loss, relative to it: some
# roundings of fp32 or float64, and where contractions read 16 bits, that one of
# their operands falls to the other side.
ROUNDING = {
    "64-true": 8 * 2.0**-53,
    "32-true": 8 * 2.0**-24,
    "bf16-mixed": 2.0**-8,
    "16-mixed": 2.0**-11,
}
BENCH_WARM_UP, BENCH_STEPS, BENCH_ROUNDS = 10, 50, 3


class Checks:
    """Where things are, and what a stage has found."""

    def __init__(self, out, library, device):
        self.out, self.library, self.device = out, library, device
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
    results, failed = [], []
    for entry in checks.manifest["ops"]:
        name = f"{entry['name']} {entry['precision']}"
        try:
            excess = run_op(checks, entry)
        except mpc_runtime.Error as error:
            failed.append({"case": name, "error": str(error)})
            continue
        results.append(excess)
        if not excess <= 1:
            failed.append({"case": name, "times_bound": excess})
    return {
        "ok": bool(results) and not failed,
        "run": len(results),
        "failed": failed,
        "worst_times_bound": max(results, default=None),
    }


def run_op(checks, entry):
    """The largest error in units of its bound; infinite for a NaN."""
    arrays = checks.arrays(f"arrays/op-{entry['name']}.npz")
    prefix = entry["precision"] + "/"
    expected = arrays[prefix + "expected"]
    bound = arrays[prefix + "bound"]
    inputs = {
        key[len(prefix) + 6 :]: value
        for key, value in arrays.items()
        if key.startswith(prefix + "input/")
    }
    with checks.open(entry["artifact"]) as session:
        steps.bind(session, "forward", inputs)
        session.run("forward")
        (info,) = session.outputs("forward")
        actual = session.output("forward", info).astype(np.float64)
    error = np.abs(actual - expected)
    if not np.isfinite(error).all():
        return float("inf")
    return float((error / np.maximum(bound, 2.0**-1000)).max(initial=0))


def split(arrays):
    count = len(arrays["target"])
    return [{k: v[i] for k, v in arrays.items()} for i in range(count)]


def curve_bound(entry, exact):
    """How far a loss may be off: four times as far as this precision has moved
    it on the CPU so far, and a few roundings."""
    moved = np.abs(np.array(entry["cpu"]["loss"]) - exact)
    rounding = ROUNDING[entry["precision"]] * np.abs(exact)
    return 4 * np.maximum.accumulate(moved) + rounding


def curves(checks):
    results = []
    exact = {
        entry["model"]: np.array(entry["cpu"]["loss"])
        for entry in checks.manifest["curves"]
        if entry["precision"] == "64-true"
    }
    for entry in checks.manifest["curves"]:
        names = ("model", "precision", "contractions")
        result = {name: entry[name] for name in names}
        batches = split(checks.arrays(entry["arrays"]))
        try:
            digests = []
            for _ in range(2):
                with checks.open(entry["artifact"]) as session:
                    run = steps.run_steps(session, batches)
                    digests.append(steps.digest(session))
            loss = np.array(run["loss"])
            bound = curve_bound(entry, exact[entry["model"]])
            error = np.abs(loss - np.array(entry["cpu"]["loss"]))
            result["times_bound"] = float(np.nan_to_num(error / bound, nan=np.inf).max())
            result["largest_difference"] = float(error.max())
            result["last_loss"] = float(loss[-1])
            result["same_bits"] = digests[0] == digests[1]
            result["ok"] = result["times_bound"] <= 1 and result["same_bits"]
        except mpc_runtime.Error as error:
            result.update(ok=False, error=str(error))
        results.append(result)
    return {"ok": all(result["ok"] for result in results), "runs": results}


def storm(checks):
    results = []
    for entry in checks.manifest["storms"]:
        result = {"model": entry["model"]}
        try:
            with checks.open(entry["artifact"]) as session:
                run = steps.run_steps(
                    session, split(checks.arrays(entry["arrays"]))
                )
            for role in ("finite", "loss_scale"):
                result[role] = run[role] == entry["cpu"][role]
            result["skipped"] = run["finite"].count(0.0)
            result["ok"] = (
                result["finite"]
                and result["loss_scale"]
                and result["skipped"] > 0
            )
        except mpc_runtime.Error as error:
            result.update(ok=False, error=str(error))
        results.append(result)
    return {"ok": all(result["ok"] for result in results), "runs": results}


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
        steps.run_steps(session, split(checks.arrays(arrays))[:3])


def time_mpc(checks, entry, artifact):
    """Milliseconds of a step: the median over rounds of the mean."""
    random = np.random.RandomState(0)
    shape = (entry["batch"], *entry["image_shape"])
    batch = {
        "image": random.uniform(0, 16, shape).astype(np.float32),
        "target": random.randint(0, 10, entry["batch"]),
    }
    with checks.open(artifact) as session:
        for info in session.states():
            if info.role == "parameter":
                fan_in = max(int(np.prod(info.shape[1:])), 1)
                spread = 1 / np.sqrt(fan_in)
                session.set_state(info, random.uniform(-spread, spread, info.shape))
        session.derive()
        steps.bind(session, "step", batch)
        (loss,) = [i for i in session.outputs("step") if i.role == "loss"]

        def run(count):
            begin = time.perf_counter()
            for _ in range(count):
                session.run("step")
            session.output("step", loss)
            return (time.perf_counter() - begin) * 1000 / count

        run(BENCH_WARM_UP)
        return statistics.median(run(BENCH_STEPS) for _ in range(BENCH_ROUNDS))


def time_torch(entry, how):
    code, text = output_of(
        *(sys.executable, HERE / "torch_steps.py", HERE / entry["onnx"]),
        *(how, entry["precision"], entry["batch"]),
        *(BENCH_WARM_UP, BENCH_STEPS, BENCH_ROUNDS),
        timeout=120,
    )
    return float(text.strip().splitlines()[-1]) if code == 0 else text[-500:]


def bench(checks):
    results = []
    for entry in checks.manifest["bench"]:
        result = {k: entry[k] for k in ("model", "batch", "precision")}
        result["ok"] = True
        for contractions, artifact in entry["artifacts"].items():
            name = f"mpc_{contractions}_ms"
            try:
                result[name] = time_mpc(checks, entry, artifact)
            except mpc_runtime.Error as error:
                result.update({name: str(error), "ok": False})
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
