"""Trains the small models of families.py on the tasks of tasks.py.

    learn.py [--families NAME,...] [--seeds N] [--steps N] [--mpc PATH]
             [--folder FOLDER] [-- FLAG...]

Trains in each precision from several seeds, and prints the losses on held-back
samples. A seed determines the initial weights, the order of samples and the
dropout, but not the samples. Needs export.py's packages. The whole program
takes hours on a CPU. FOLDER keeps finished measurements, so that the program
can be stopped.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import tasks
import torch
from export import export, make_inputs
from families import FAMILIES

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")
RATES = {"alexnet": 3e-4, "lstm": 5e-3, "dlrm": 3e-3}
# Factors of a family's number of steps: without normalizations AlexNet makes no
# progress for long.
LONGER = {"alexnet": 2}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).parents[2]
    parser.add_argument("--families", default=",".join(tasks.TASKS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--mpc", default=root / "build" / "bin" / "mpc")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=root / "build" / "learn"
    )
    parser.add_argument("flags", nargs="*")
    return parser.parse_args()


def write_model(name, seed, path):
    """Writes the family's small model with the weights of a seed."""
    family = FAMILIES[name]["small"]()
    torch.manual_seed(seed)
    module = family.make()
    inputs = make_inputs(family, family.batch, np.random.RandomState(0))
    export(module, inputs, path, "dynamo", 18)


def train(arguments, name, seed, precision):
    """Returns the loss on the held-back samples, after the last step."""
    folder = arguments.folder
    steps = arguments.steps * LONGER.get(name, 1)
    run = f"{name}-{seed}-{precision}-{steps}"
    metrics = folder / f"{run}.jsonl"
    if not metrics.exists():
        model = folder / f"{name}-{seed}.onnx"
        if not model.exists():
            write_model(name, seed, model)
        family = FAMILIES[name]["small"]()
        command = [arguments.mpc, "train", model]
        command += ["--data", folder / f"{name}-train.npz"]
        command += ["--val-data", folder / f"{name}-held.npz"]
        command += ["--loss", family.loss, "--batch-size", family.batch]
        command += ["--optimizer", "adamw", "--lr", RATES.get(name, 1e-3)]
        command += ["--lr-scheduler", "cosine", "--warmup-steps", 50]
        command += ["--gradient-clip-val", 1, "--seed", seed]
        command += ["--max-steps", steps, "--precision", precision]
        command += ["--metrics", folder / "unfinished.jsonl"]
        command += ["--overwrite-metrics", "--output", folder / "trained.onnx"]
        for key, array in family.inputs.items():
            if array.axis:
                command += ["--batch-axis", f"{key}={array.axis}"]
        command += arguments.flags
        process = subprocess.run(
            [str(word) for word in command],
            check=False,
            capture_output=True,
            text=True,
        )
        if process.returncode != 0:
            sys.exit(f"{run}: {process.stderr}")
        (folder / "unfinished.jsonl").rename(metrics)
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [event["eval_loss"] for event in events if event["event"] == "eval"][-1]


def measure(arguments, name):
    """Returns a row of the table: the mean of all seeds for each precision."""
    for part, arrays in zip(("train", "held"), tasks.load(name)):
        path = arguments.folder / f"{name}-{part}.npz"
        if not path.exists():
            np.savez(path, **arrays)
    losses = {precision: [] for precision in PRECISIONS}
    for seed in range(arguments.seeds):
        for precision in PRECISIONS:
            loss = train(arguments, name, seed, precision)
            losses[precision].append(loss)
            print(f"{name} {seed} {precision}: {loss:.5f}", file=sys.stderr)
    means = {key: statistics.mean(values) for key, values in losses.items()}
    spread = max(losses["32-true"]) - min(losses["32-true"])
    cells = [name, f"{means['32-true']:.4f}", f"{spread:.4f}"]
    for precision in PRECISIONS[1:]:
        change = means[precision] / means["32-true"] - 1
        cells += [f"{means[precision]:.4f}", f"{change:+.2%}"]
    return cells


def main():
    arguments = parse_arguments()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    head = ["family", "32-true", "range", "bf16-mixed", "", "16-mixed", ""]
    rows = [head, ["---"] * len(head)]
    for name in arguments.families.split(","):
        rows.append(measure(arguments, name))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
