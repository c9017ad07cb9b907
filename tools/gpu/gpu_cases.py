"""Runs the stages that consist of cases: timed steps and kernels, operators,
model families, loss curves, storms.

Several processes run side by side, and each runs cases until one fails. After a
fault the GPU does no more work for that process, and a kernel that never ends
blocks the process. Then a new process continues with the next case.

SPDX-License-Identifier: Apache-2.0
"""

import concurrent.futures
import contextlib
import faulthandler
import inspect
import json
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

import capi
import processes
import report
import roof
import steps

# Number of processes that use the GPU at the same time.
MOST_SHARES = 8
# Enough, unless every case fails for the same reason.
MOST_PROCESSES = 30
# Only a hanging case takes longer.
SECONDS_PER_CASE = 60
# The relative change of a loss by another order of sums: some roundings of fp32
# or float64. If contractions read 16 bits, one of their operands may round to
# the other side.
ROUNDING = {
    "64-true": 8 * 2.0**-53,
    "32-true": 8 * 2.0**-24,
    "bf16-mixed": 2.0**-8,
    "16-mixed": 2.0**-11,
}


def run_op(checks, entry):
    """Returns the largest error in units of its bound; infinite for a NaN."""
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
    excess = (error / np.maximum(bound, 2.0**-1000)).max(initial=0)
    if not np.isfinite(error).all():
        excess = np.inf
    return {"ok": bool(excess <= 1), "times_bound": float(excess)}


def split(arrays):
    count = len(arrays["target"])
    return [{k: v[i] for k, v in arrays.items()} for i in range(count)]


# Later losses prove nothing: a rounding that flips a relu moves the loss by as
# much as a few training steps.
FIRST_STEPS = 5


def reference(manifest, entry, precision):
    """Returns the entry of the same model in another precision."""
    return next(
        e
        for e in manifest["curves"]
        if (e["model"], e["precision"]) == (entry["model"], precision)
    )


def curve_bound(manifest, entry):
    """Returns bounds for the losses of the first steps: four times the effect
    of this precision on the CPU so far, plus a few roundings. The effect of
    float64 is unknown, so the bound is fp32's divided by the ratio of
    roundings."""

    def on_the_cpu(precision):
        losses = reference(manifest, entry, precision)["cpu"]["loss"]
        return np.array(losses[:FIRST_STEPS])

    exact = on_the_cpu("64-true")
    if entry["precision"] == "64-true":
        moved = np.abs(on_the_cpu("32-true") - exact) * 2.0**-29
    else:
        moved = np.abs(on_the_cpu(entry["precision"]) - exact)
    rounding = ROUNDING[entry["precision"]] * np.abs(exact)
    return 4 * np.maximum.accumulate(moved) + rounding


def moments_excess(checks, entry, actual):
    """Returns the largest error of the first step's gradients, as stored in the
    optimizer's state, in units of its bound. Each tensor is compared as a
    whole, by the rule of curve_bound."""

    def on_the_cpu(precision):
        return checks.arrays(
            reference(checks.manifest, entry, precision)["moments"]
        )

    exact, own = on_the_cpu("64-true"), on_the_cpu(entry["precision"])
    single = on_the_cpu("32-true")
    worst = 0.0
    for name, value in actual.items():
        if entry["precision"] == "64-true":
            moved = np.linalg.norm(single[name] - exact[name]) * 2.0**-29
        else:
            moved = np.linalg.norm(own[name] - exact[name])
        rounding = ROUNDING[entry["precision"]] * np.linalg.norm(exact[name])
        error = np.linalg.norm(value - own[name])
        # A tensor that is zero everywhere, such as after a skipped step, must
        # stay zero.
        worst = max(worst, error / max(4 * moved + rounding, 2.0**-1000))
    return float(np.nan_to_num(worst, nan=np.inf))


def run_curve(checks, entry):
    """Runs the case twice and compares the bits."""
    batches = split(checks.arrays(entry["arrays"]))
    digests = []
    for _ in range(2):
        with checks.open(entry["artifact"]) as session:
            loss = steps.run_steps(session, batches[:1])["loss"]
            moments = steps.moments(session)
            loss += steps.run_steps(session, batches[1:])["loss"]
            digests.append(steps.digest(session))
    error = np.abs(np.array(loss) - np.array(entry["cpu"]["loss"]))
    bound = curve_bound(checks.manifest, entry)
    excess = np.nan_to_num(error[: len(bound)] / bound, nan=np.inf).max()
    gradients = moments_excess(checks, entry, moments)
    same_bits = digests[0] == digests[1]
    return {
        "ok": bool(excess <= 1 and gradients <= 1 and np.isfinite(loss).all())
        and same_bits,
        "times_bound": float(excess),
        "gradients_times_bound": gradients,
        "largest_difference": float(error.max()),
        "last_loss": float(loss[-1]),
        "same_bits": same_bits,
    }


def run_family(checks, entry):
    """Compares the losses of a few steps of SGD with PyTorch's, in units of the
    bound."""
    arrays = checks.arrays(entry["arrays"])
    size, axes = entry["batch_size"], entry["batch_axes"]
    batches = [
        {
            name: values.take(range(i * size, (i + 1) * size), axes.get(name, 0))
            for name, values in arrays.items()
        }
        for i in range(len(entry["expected"]))
    ]
    with checks.open(entry["artifact"]) as session:
        losses = steps.run_steps(session, batches, entry["lr"])["loss"]
    error = np.abs(np.array(losses) / entry["expected"] - 1) / entry["bound"]
    excess = float(np.nan_to_num(error, nan=np.inf).max())
    return {"ok": excess <= 1, "times_bound": excess}


def run_storm(checks, entry):
    """The skipped steps, the scale, and the finite losses must equal the CPU's,
    and some step must be skipped."""
    with checks.open(entry["artifact"]) as session:
        run = steps.run_steps(session, split(checks.arrays(entry["arrays"])))
    cpu = entry["cpu"]
    equal = {r: run[r] == cpu[r] for r in ("finite", "loss_scale") if r in cpu}
    numbers = np.isfinite(run["loss"])
    equal["numbers"] = bool((numbers == np.isfinite(cpu["loss"])).all())
    skipped = run.get("finite", []).count(0.0)
    hit = skipped > 0 or not numbers.all()
    return {"ok": hit and all(equal.values()), "skipped": skipped, **equal}


def draw(random, shape, high):
    if high is None:
        return random.standard_normal(shape, np.float32)
    return random.integers(0, high, shape)


def draw_weights(session, random):
    """Draws weights by each tensor's fan-in. Vectors are ones, so that no
    norm's scale is zero."""
    for info in session.states():
        if info.role != "parameter":
            continue
        if len(info.shape) > 1:
            spread = 1 / np.sqrt(max(int(np.prod(info.shape[1:])), 1))
            drawn = random.random(info.shape, np.float32)
            drawn -= 0.5
            drawn *= 2 * np.float32(spread)
            session.set_state(info, drawn)
        else:
            session.set_state(info, np.ones(info.shape))
    session.derive()


def open_model(checks, entry):
    """Opens a model of `timed` with drawn weights and one drawn batch. Also
    returns the seconds from the file to the end of the first step, without
    drawing."""
    random = np.random.default_rng(0)
    batch = {
        name: draw(random, array["shape"], array["high"])
        for name, array in entry["arrays"].items()
    }
    begin = time.perf_counter()
    session = checks.open(entry["artifact"])
    opened = time.perf_counter()
    draw_weights(session, random)
    steps.bind(session, "step", batch)
    drawn = time.perf_counter()
    session.run("step")
    read_scalars(session)
    return session, batch, time.perf_counter() - drawn + opened - begin


def read_scalars(session):
    return {
        info.role: float(session.output("step", info))
        for info in session.outputs("step")
        if info.shape == ()
    }


def same_bits(session):
    """True if a few steps from one state, run twice, give the same state."""
    infos = session.states()
    begin = [session.state(info) for info in infos]

    def run_from_the_beginning():
        for info, value in zip(infos, begin):
            session.set_state(info, value)
        session.derive()
        for _ in range(3):
            session.run("step")

    run_from_the_beginning()
    first = [session.state(info) for info in infos]
    run_from_the_beginning()
    return all(
        value.tobytes() == session.state(info).tobytes()
        for info, value in zip(infos, first)
    )


# Copying a larger batch takes the host so long that the copy would dominate.
LARGEST_FED = 200 << 20


def time_steps(checks, entry):
    """Yields the times known so far, repeatedly. A fed batch is copied while
    the GPU waits, unlike in `mpc train`, which copies the next batch while a
    step runs."""
    session, batch, start = open_model(checks, entry)
    with session:

        def run(count):
            """Reads scalars after each step."""
            for _ in range(count):
                session.run("step")
                read_scalars(session)

        def run_fed(count):
            for _ in range(count):
                steps.bind(session, "step", batch)
                run(1)

        def run_alone(count):
            """One read waits for all steps."""
            for _ in range(count):
                session.run("step")
            read_scalars(session)

        result = {"start_seconds": start, "ms": steps.milliseconds(run)}
        result["bytes"] = session.memory_bytes()
        result["loss"] = read_scalars(session)["loss"]
        result["ok"] = bool(np.isfinite(result["loss"]))
        yield result
        result["alone_ms"] = steps.milliseconds(run_alone)
        if sum(array.nbytes for array in batch.values()) <= LARGEST_FED:
            result["fed_ms"] = steps.milliseconds(run_fed)
        yield result
        result["same_bits"] = same_bits(session)
        result["ok"] = result["ok"] and result["same_bits"]
        yield result


TIMED_RUNS = 20


def time_kernels(checks, entry):
    """Measures the median time of each step of the plan, next to the data that
    the step moves and its multiplications."""
    session, _, _ = open_model(checks, entry)
    with session:
        for _ in range(3):
            session.run_timed("step")
        runs = [session.run_timed("step") for _ in range(TIMED_RUNS)]
        function = session.plan["functions"]["step"]
    seconds = np.median(runs, axis=0)
    gpu = roof.find_gpu(checks.gpu_name())
    rows = []
    for step, taken in zip(function["steps"], seconds):
        moved, operations, kind = roof.work_of(step, function["buffers"])
        row = {
            "step": step.get("name", step["op"]),
            "op": step["op"],
            "us": round(float(taken) * 1e6, 3),
            "bytes": moved,
            "operations": operations,
            "kind": kind,
        }
        if gpu:
            least = roof.seconds_at_least(step, function["buffers"], gpu)
            row["roof_us"] = round(least * 1e6, 3)
        rows.append(row)
    total = {"us": sum(row["us"] for row in rows)}
    if gpu:
        total["roof_us"] = sum(row["roof_us"] for row in rows)
        total["predicted_us"] = roof.predict(function, gpu)["likely"] * 1e6
    return {"ok": True, "steps": len(rows), **total, "rows": rows}


# Makes one rank reduce by NCCL too, so that the cost of the reductions shows on
# one GPU.
BY_NCCL = "MPC_CUDA_NCCL"


@contextlib.contextmanager
def variables(**values):
    """Sets variables of the environment, which the runtime reads."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def find_library(log):
    """Returns the version of NCCL and its path from the runtime's log."""
    lines = log.read_text().splitlines() if log.exists() else []
    found = [line for line in lines if line.startswith("NCCL ")]
    return found[-1] if found else None


def list_reduced(step):
    """Returns the buffers that a step of the plan reduces over ranks."""
    if step["op"] == "all_reduce":
        return [step["buffer"]]
    if step["op"] == "reduce_scatter":
        return [part["buffer"] for part in step["parts"]]
    return []


def time_ranks(checks, entry):
    """Times a step of one rank whose gradients go through NCCL, in turns with a
    step without reductions. With a sharded optimizer, the new weights go through
    NCCL too. One rank changes no bit of the gradients."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        with variables(MPC_CUDA_LOG=str(log), **{BY_NCCL: "1"}):
            ranks, _, _ = open_model(checks, entry)
        library = find_library(log)
    plain, _, _ = open_model(checks, entry)
    alone, _, _ = open_model(checks, {**entry, "artifact": entry["alone"]})
    with ranks, plain, alone:

        def time_step(session):
            def run(count):
                for _ in range(count):
                    session.run("step")
                read_scalars(session)

            return steps.milliseconds(run)

        plan = ranks.plan["functions"]["step"]
        reduced = [
            sum(roof.bytes_of(plan["buffers"][index]) for index in list_reduced(step))
            for step in plan["steps"]
            if list_reduced(step)
        ]
        # Both have the same weights and batch, and have run one step. Another
        # step is captured, and the last ones are launches of the graph.
        for session in (ranks, plain):
            for _ in range(3):
                session.run("step")
        same_bits = steps.digest(ranks) == steps.digest(plain)
        times = [(time_step(alone), time_step(ranks)) for _ in range(TURNS)]
    alone_ms, ranks_ms = np.median(times, axis=0)
    alone_times = [pair[0] for pair in times]
    return {
        "ok": same_bits and bool(reduced),
        "library": library,
        "reductions": len(reduced),
        "reduced_bytes": sum(reduced),
        "alone_ms": float(alone_ms),
        "ranks_ms": float(ranks_ms),
        "cost_percent": float(100 * (ranks_ms / alone_ms - 1)),
        # The clock shows no smaller cost.
        "spread_percent": float(
            100 * (max(alone_times) - min(alone_times)) / alone_ms
        ),
        "same_bits": same_bits,
    }


# The measurements of each kind of step, in turns.
TURNS = 3


RUN = {
    "ops": run_op,
    "families": run_family,
    "curves": run_curve,
    "storm": run_storm,
    "steps": time_steps,
    "kernels": time_kernels,
    "ranks": time_ranks,
}
# These stages have the GPU to themselves.
TIMED = ("steps", "kernels", "ranks")


def list_cases(manifest, kind):
    """Kernels are timed in one batch size of each model. Steps are also timed
    with attention by products."""
    if kind == "kernels":
        return [e for e in manifest["timed"] if not is_variant(e)]
    if kind == "steps":
        return [*manifest["timed"], *manifest.get("products", [])]
    return manifest[kind]


def is_variant(entry):
    """True for a model that is also timed in a more usual batch size."""
    return "_" in entry["size"]


def name_of(case):
    return {
        key: case[key]
        for key in ("name", "model", "precision", "contractions")
        if key in case
    }


def run_here(checks, kind, first, stride):
    """Runs every `stride`th case from `first` on, and prints a line of JSON for
    each, until a case cannot run. A long case also prints intermediate lines,
    for readers of a run that was cut off."""
    for case in list_cases(checks.manifest, kind)[first::stride]:
        faulthandler.dump_traceback_later(SECONDS_PER_CASE, exit=True)
        result = {}
        try:
            known = RUN[kind](checks, case)
            for result in known if inspect.isgenerator(known) else [known]:
                note(checks, kind, case, result)
        except capi.Error as error:
            result = {**result, "ok": False, "error": str(error)}
            note(checks, kind, case, result)
        print(json.dumps(result), flush=True)
        if "error" in result:
            break
    faulthandler.cancel_dump_traceback_later()


def run_share(checks, kind, first, stride):
    """Returns a result for every `stride`th case from `first` on. Processes run
    one after the other, as many as needed, while time is left."""
    cases = list_cases(checks.manifest, kind)[first::stride]
    results, why = [], "too many failed before"
    for _ in range(MOST_PROCESSES):
        code, out, err = processes.run(
            [
                *(sys.executable, checks.program, "--library", checks.library),
                *("--device", checks.device, "--lines", checks.lines),
                *("--cases", kind),
                *("--first", str(first + stride * len(results))),
                *("--stride", str(stride)),
            ],
            checks.seconds_left(),
        )
        lines = out.splitlines(keepends=True)
        results += [json.loads(line) for line in lines if line.endswith("\n")]
        if code is None:
            why = "no time was left"
        elif code != 0:
            lines = err.strip().splitlines() or [""]
            died = f"exit code {code}: {lines[0]} ... {lines[-1]}"
            # Drops the last result if the process dies during exit.
            del results[len(cases) - 1 :]
            failed = {"ok": False, "error": died}
            note(checks, kind, cases[len(results)], failed)
            results.append(failed)
        if code is None or len(results) == len(cases):
            break
    missing = {"ok": False, "error": f"not run: {why}"}
    for case in cases[len(results) :]:
        note(checks, kind, case, missing)
    return results + [missing] * (len(cases) - len(results))


def note(checks, kind, case, result):
    report.append(checks.lines, kind, {**name_of(case), **result})


def run_apart(checks, kind):
    """Returns a result for each case. Untimed cases run side by side, because
    most of their time is the driver's compilation of kernels."""
    count = len(list_cases(checks.manifest, kind))
    stride = 1 if kind in TIMED else min(MOST_SHARES, os.cpu_count() or 1)
    results = [None] * count
    with concurrent.futures.ThreadPoolExecutor(stride) as pool:
        shares = [
            pool.submit(run_share, checks, kind, first, stride)
            for first in range(min(stride, count))
        ]
        for first, share in enumerate(shares):
            results[first::stride] = share.result()
    return results
