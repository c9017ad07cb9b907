"""Counts the bytes that a training step loads and stores, from its plan.

    bytes_bench.py [--mpc PATH] MODEL.onnx [DEEPER.onnx] [-- OPTION...]

Compiles each model up to `--emit=plan` and adds up every operand of every step
of the program `step`, in MB of 10^6 bytes. It separates memory that all workers
share (state, inputs and the arena) from a worker's private memory, where an
iteration of a parallel loop keeps its values. With two models, the second one
layer deeper, the difference is a layer. Options after `--` go to `mpc compile`.

    tools/bench/transformer_torch.py export three.onnx 3
    tools/bench/transformer_torch.py export four.onnx 4
    tools/bench/bytes_bench.py three.onnx four.onnx -- \\
        --batch-size 8 --loss softmax_cross_entropy --optimizer adamw \\
        --precision bf16-mixed --target sapphirerapids

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import math
import pathlib
import re
import subprocess
import sys

from plans import ROOT, bytes_of, split_options

STEPS = r"plan\.(?:launch|matmul|conv|copy)\b(.*)"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpc", default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    arguments, options = split_options(sys.argv[1:])
    parsed = parser.parse_args(arguments)
    if len(parsed.models) > 2:
        parser.error("expected one model, or one and a deeper one")
    return parsed, options


Loop = collections.namedtuple("Loop", "indent count is_parallel")


class Counter:
    """Counts loads and stores of a program, line by line."""

    def __init__(self):
        self.shared = self.private = 0
        self.sizes, self.is_private = {}, {}
        self.loops = []  # the loops around the line, the outermost first

    def read(self, line):
        line = line.split(" loc(")[0]
        buffer = re.match(r" *(%\w+) = plan\.(\w+)(?: (%\w+))?", line)
        loop = re.match(r"( *)plan\.for (\d+)", line)
        step = re.match(" *" + STEPS, line)
        if buffer:
            self.add_buffer(*buffer.groups(), line)
        elif loop:
            self.loops.append(Loop(loop[1], int(loop[2]), " parallel " in line))
        elif self.loops and line.startswith(self.loops[-1].indent + "}"):
            self.loops.pop()
        elif step:
            self.add_step(step[1])
        elif re.match(r" *plan\.if\b", line):
            sys.exit(f"what a condition moves is not known: {line.strip()}")

    def add_buffer(self, name, kind, source, line):
        # A view or a part has two types: its source's and its own.
        types = re.findall(r"memref<([^,>]*)", line)
        self.sizes[name] = bytes_of(types[-1])
        in_parallel = any(loop.is_parallel for loop in self.loops)
        self.is_private[name] = (
            self.is_private[source] if source else kind == "arena" and in_parallel
        )

    def add_step(self, operands):
        times = math.prod(loop.count for loop in self.loops)
        for name in re.findall(r"%\w+", operands):
            if self.is_private[name]:
                self.private += self.sizes[name] * times
            else:
                self.shared += self.sizes[name] * times


def count(mpc, model, options):
    command = [mpc, "compile", model, "--emit=plan", "-o", "-", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{model}: mpc compile failed")
    program = done.stdout.split("plan.program @step")[1].split("plan.program @")[0]
    counter = Counter()
    for line in program.splitlines()[1:]:
        counter.read(line)
    return counter.shared / 1e6, counter.private / 1e6


def main():
    given, options = parse_arguments()
    rows = [(model.name, *count(given.mpc, model, options)) for model in given.models]
    if len(rows) == 2:
        differences = (rows[1][i] - rows[0][i] for i in (1, 2))
        rows.append(("the deeper one less the other", *differences))
    print("| model | shared memory, MB | workers' own, MB |")
    print("|---|---|---|")
    for name, shared, private in rows:
        print(f"| {name} | {shared:.1f} | {private:.1f} |")


if __name__ == "__main__":
    main()
