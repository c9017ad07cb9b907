"""Times training steps in three precision modes, beside predicted times.

    modes_bench.py [--families NAME,...] [--size SIZE] [--seconds S] [--cpu N]
                   [-- FLAGS]
    modes_bench.py --model FILE.onnx [--seconds S] [--cpu N] [-- FLAGS]

The second form times one model. FLAGS are those of `mpc compile`, such as
`--target x86-64-v3`. Steps use AdamW and run on one thread. The modes take turns, step
by step, for S seconds. The time of a mode is the sum over the steps of its
plan, each at its lower quartile, so other processes on the machine hardly
matter. The table has milliseconds, and `yes` if the prediction orders the modes
as the measurement does: only modes that differ by more than a tenth count.
Exits with 1 if a prediction has another order.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import itertools
import json
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

import plans
import rounds

sys.path.append(str(rounds.ROOT / "tools" / "gpu"))
import capi  # noqa: E402

MODES = ("32-true", "bf16-mixed", "16-mixed")
FAMILIES = "alexnet,bert,dlrm,gpt2,lenet,lstm,mlp,mobilenet_v2,resnet50,unet,vit"
# Modes whose times differ less are equally fast.
DIFFERENCE = 1.1
WARM_UP = 3
FEWEST, MOST = 5, 2000


def make_input(session, info, random):
    """Returns random numbers, below the smallest size for indices and labels."""
    function = session.plan["functions"]["step"]
    port = next(p for p in function["inputs"] if p["name"] == info.name)
    if info.dtype.kind == "f":
        return random.standard_normal(info.shape).astype(info.dtype)
    sizes = [box["size"] for box in port.get("indices", [])]
    return random.integers(0, min(sizes, default=2), info.shape).astype(info.dtype)


def open_session(runtime, artifact):
    session = runtime.open(artifact, "cpu", threads=1)
    random = np.random.default_rng(0)
    for info in session.inputs("step"):
        is_scalar = not info.shape and info.dtype.kind == "f"
        array = (
            np.full((), 1e-4, info.dtype)  # a learning rate
            if is_scalar
            else make_input(session, info, random)
        )
        session.set_input("step", info.name, array)
    return session


def measure(artifacts, seconds):
    """Returns the milliseconds of a step by mode."""
    runtime = capi.Runtime(rounds.BUILD / "lib" / "libmpc_runtime.so")
    sessions = {m: open_session(runtime, a) for m, a in artifacts.items()}
    times = {mode: [] for mode in sessions}
    for session in sessions.values():
        for _ in range(WARM_UP):
            session.run("step")
    end = time.monotonic() + seconds
    while len(times[MODES[0]]) < FEWEST or (
        time.monotonic() < end and len(times[MODES[0]]) < MOST
    ):
        for mode, session in sessions.items():
            times[mode].append(session.run_timed("step"))
    for session in sessions.values():
        session.close()
    return {
        mode: float(np.min(t, axis=0).sum()) * 1e3
        for mode, t in times.items()
    }


def read_times(text):
    """Returns the milliseconds by mode that `mpc explain --format=times`
    prints."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: float(row[1]) / 1e3 for row in rows if row and row[0] in MODES}


def agrees(measured, predicted):
    """True if the prediction orders all modes that differ as measured."""
    return all(
        (measured[a] < measured[b]) == (predicted[a] < predicted[b])
        for a, b in itertools.combinations(MODES, 2)
        if max(measured[a] / measured[b], measured[b] / measured[a]) > DIFFERENCE
    )


def compare(name, model, flags, options):
    """Prints a row. Returns true if the orders agree."""
    flags = [model, "--optimizer", "adamw", *flags]
    cpus = {options.cpu}
    predicted = read_times(
        rounds.execute([rounds.MPC, "explain", *flags, "--format=times"], cpus)
    )
    with tempfile.TemporaryDirectory(dir=rounds.FOLDER) as folder:
        artifacts = {m: pathlib.Path(folder) / f"{m}.mpc" for m in MODES}
        for mode, artifact in artifacts.items():
            command = [rounds.MPC, "compile", *flags, "--precision", mode]
            rounds.execute([*command, "-o", artifact], cpus)
        measured = measure(artifacts, options.seconds)
    same = agrees(measured, predicted)
    cells = [f"{times[m]:.3f}" for times in (measured, predicted) for m in MODES]
    print(f"| {name} | {' | '.join(cells)} | {'yes' if same else 'no'} |", flush=True)
    return same


def export(name, size, options):
    """Writes the model of a family. Returns its file and its flags."""
    model, data = (rounds.FOLDER / f"{name}.{end}" for end in ("onnx", "npz"))
    script = rounds.HERE / "families_torch.py"
    command = [sys.executable, script, "export", name, size, model, data]
    family = json.loads(rounds.execute(command, {options.cpu}).splitlines()[-1])
    data.unlink()
    flags = ["--batch-size", family["batch"], "--loss", family["loss"]]
    for axis in family["axes"]:
        flags += ["--batch-axis", axis]
    return model, flags


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default=FAMILIES)
    parser.add_argument("--size", default="small")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--model", type=pathlib.Path)
    words, flags = plans.split_options(sys.argv[1:])
    options = parser.parse_args(words)
    os.sched_setaffinity(0, {options.cpu})
    rounds.FOLDER.mkdir(parents=True, exist_ok=True)
    heads = [f"{what} {m}, ms" for what in ("measured", "predicted") for m in MODES]
    print(f"| model | {' | '.join(heads)} | same order |")
    print("|" + "---|" * (len(heads) + 2), flush=True)
    if options.model:
        orders = [compare(options.model.stem, options.model, flags, options)]
    else:
        orders = []
        for name in options.families.split(","):
            model, family = export(name, options.size, options)
            orders.append(compare(name, model, [*family, *flags], options))
            model.unlink()
    sys.exit(not all(orders))


if __name__ == "__main__":
    main()
