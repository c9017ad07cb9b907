"""Runs contenders in turn and prints a table, for all benchmarks.

Every round runs each contender once, in turn, in a separate process on the same
CPUs with one thread per CPU. A round's number is the median of its steps; the
table has the median of the rounds and their range.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("MPC_BUILD_DIR", ROOT / "build"))
MPC = BUILD / "bin" / "mpc"
FOLDER = BUILD / "bench"


def make_parser(description, warm_up):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=warm_up)
    parser.add_argument("--cpus", default="0,1")
    parser.add_argument("--only", help="contenders whose names have this")
    return parser


def parse_options(description, warm_up):
    return finish_options(make_parser(description, warm_up))


def finish_options(parser):
    options = parser.parse_args()
    options.cpus = {int(cpu) for cpu in options.cpus.split(",")}
    return options


class Failed(Exception):
    """A contender that failed, with its output."""


def execute(command, cpus):
    process = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    if process.returncode != 0:
        raise Failed(f"{command[0]} failed:\n{process.stderr}")
    return process.stdout


def train(
    options, model, data, batch, precision, *flags, loss="softmax_cross_entropy"
):
    """Returns the milliseconds of mpc's steps on one batch."""
    metrics = FOLDER / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    command = [
        *(MPC, "train", model, "--data", data),
        *("--loss", loss, "--batch-size", batch),
        *("--epochs", options.warm_up + options.steps),
        *("--precision", precision, "--threads", len(options.cpus)),
        *("--metrics", metrics, "--output", FOLDER / "trained.onnx"),
        *flags,
    ]
    execute(command, options.cpus)
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    times = [e["step_ms"] for e in events if e["event"] == "train"]
    return times[options.warm_up :]


def export(options, name, **arrays):
    """Writes NAME.onnx by NAME_torch.py, and one batch of data, in the folder."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    script, model = HERE / f"{name}_torch.py", FOLDER / f"{name}.onnx"
    execute([sys.executable, script, "export", model], options.cpus)
    np.savez(FOLDER / f"{name}.npz", **arrays)


def run_torch(options, script, how, precision):
    """Returns the milliseconds of PyTorch's steps, printed by a script in this
    folder."""
    command = [sys.executable, HERE / script, how, precision]
    command += [options.warm_up, options.steps, len(options.cpus)]
    return json.loads(execute(command, options.cpus))


def list_contenders(options, name, batch, flags, torch):
    """Returns mpc in two modes, on NAME.onnx and NAME.npz of the folder, and
    PyTorch by NAME_torch.py. `torch` lists pairs of a precision and a way to
    run."""

    def mpc(precision):
        model, data = FOLDER / f"{name}.onnx", FOLDER / f"{name}.npz"
        return lambda: train(options, model, data, batch, precision, *flags)

    contenders = {
        f"mpc {precision}": mpc(precision)
        for precision in ("32-true", "bf16-mixed")
    }
    for precision, how in torch:
        contenders[f"PyTorch {precision} {how}"] = functools.partial(
            run_torch, options, f"{name}_torch.py", how, precision
        )
    return contenders


def compare(title, options, contenders, ours):
    """Times all `contenders` and prints a table, relative to `ours`. Returns
    the medians. Names failed contenders and leaves them out."""
    names = [n for n in contenders if not options.only or options.only in n]
    medians = {name: [] for name in names}
    for i in range(options.rounds):
        for name in list(medians):
            try:
                medians[name].append(statistics.median(contenders[name]()))
            except Failed as failed:
                print(f"{name}: {failed}", file=sys.stderr)
                del medians[name]
                continue
            print(
                f"round {i + 1}/{options.rounds}: {name}"
                f" {medians[name][-1]:.1f} ms",
                file=sys.stderr,
            )
    if not medians:
        sys.exit("no contender came to its end")
    print(f"\n{title}, {len(options.cpus)} threads\n")
    if ours not in medians:
        ours = next(iter(medians))
    base = statistics.median(medians[ours])
    print(f"{'':24}{'ms/step':>9}{'range':>16}{'vs ' + ours:>20}")
    for name, values in medians.items():
        middle = statistics.median(values)
        span = f"{min(values):.1f}-{max(values):.1f}"
        row = f"{name:24}{middle:9.1f}{span:>16}{middle / base:19.2f}x"
        print(row, flush=True)
    return {name: statistics.median(values) for name, values in medians.items()}
