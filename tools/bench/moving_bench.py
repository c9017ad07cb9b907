"""Counts the plan steps of a training step that only move data.

    moving_bench.py [--mpc PATH] [--targets NAME,...] MODEL.onnx... [-- OPTION...]

Compiles each model up to `--emit=plan` for each target. Prints the number of
steps of the program `step`, and of steps that only move data, by kind: copies,
kernels of transposes, slices and joins, kernels that only cast. Options after
`--` go to `mpc compile`: a loss and, for some models, a batch size.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

from plans import ROOT, split_options

OPTIONS = "--optimizer adamw --precision bf16-mixed"
TARGETS = "x86-64-v4,sm_90"

# Ops that compute nothing. A kernel of only such ops only moves data.
MOVING = {
    *("mpc.transpose", "mpc.slice", "mpc.concat", "mpc.reshape", "mpc.expand"),
    *("mpc.pad", "amp.cast", "mpc.cast"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpc", default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("--targets", default=TARGETS)
    arguments, options = split_options(sys.argv[1:])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    return parser.parse_args(arguments), options


def find_movements(plan):
    """Returns the ops of each kernel that only moves data."""
    pattern = r"func\.func private @([\w$.]+)\(.*?\n(.*?)\n  \}"
    found = {}
    for name, body in re.findall(pattern, plan, re.S):
        ops = set(re.findall(r"= ((?:mpc|amp)\.\w+)", body)) - {"mpc.constant"}
        if ops and ops <= MOVING:
            found[name] = "+".join(sorted(op.split(".")[1] for op in ops))
    return found


def count_steps(plan):
    """Returns the number of steps of the program `step`, and the kinds of those
    that only move data."""
    movements = find_movements(plan)
    program = plan.split("plan.program @step")[1].split("plan.program @")[0]
    steps, moving = 0, collections.Counter()
    pattern = r"^ +plan\.(launch|matmul|conv|copy|for|if|check_indices|all_reduce)\b(?: @([\w$.]+))?"
    for kind, kernel in re.findall(pattern, program, re.M):
        steps += 1
        if kind == "copy":
            moving["copy"] += 1
        elif kind == "launch" and kernel in movements:
            moving[movements[kernel]] += 1
    return steps, moving


def main():
    arguments, options = parse_arguments()
    for model in arguments.models:
        for target in arguments.targets.split(","):
            command = ["compile", model, "-o", "-", "--emit=plan", *OPTIONS.split()]
            process = subprocess.run(
                [arguments.mpc, *command, "--target", target, *options],
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            )
            steps, moving = count_steps(process.stdout)
            listed = ", ".join(f"{n} {what}" for what, n in moving.most_common())
            total = sum(moving.values())
            print(f"{model.stem:24} {target:12} {steps:4} steps, {total} move", end="")
            print(f": {listed}" if total else "")


if __name__ == "__main__":
    main()
