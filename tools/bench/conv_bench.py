"""Times single convolutions, forward and both gradients, in mpc's runtime and
in PyTorch. Prints the slowest in mpc, relative to PyTorch, first.

    conv_bench.py [--shapes LIST,...] [--only TEXT] [--kinds KIND,...]
                  [--types TYPE,...] [--rounds N] [--seconds S] [--cpu N]
                  [--against PROGRAM] [--max-ratio R]

LIST is families (the convolutions of tools/models at full size), networks
(convolutions of other networks), odd, or quick. PyTorch is timed in both of its
memory formats, and the faster counts. --against PROGRAM times the
mpc-conv-times of another build in its place. Contenders take turns on one CPU,
one thread each, and their processor time counts. Shapes for which mpc is slower
are timed in N rounds, and the median counts. With --max-ratio the exit code is
1 if mpc takes longer than R times the others' time for any shape.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys

import conv_shapes
import rounds

KINDS = ("forward", "input_grad", "weight_grad")
TYPES = ("f32", "bf16")
TORCH = rounds.HERE / "convs_torch.py"
MPC = {"mpc": [rounds.BUILD / "bin" / "mpc-conv-times"]}
PYTORCH = {
    "PyTorch NCHW": [sys.executable, TORCH, "contiguous"],
    "PyTorch NHWC": [sys.executable, TORCH, "channels_last"],
}


class Contender:
    """A process that times the convolutions that it is given."""

    def __init__(self, command, cpu):
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
        )

    def measure(self, line):
        """Returns the milliseconds of one run."""
        try:
            print(line, file=self.process.stdin, flush=True)
            return float(self.process.stdout.readline())
        except (BrokenPipeError, ValueError):
            sys.exit(f"{self.process.args[0]} failed at: {line}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(options, contenders, line):
    """Returns the milliseconds of each contender, by name."""
    times = {name: [] for name in contenders}
    medians, running = {}, list(times)
    for i in range(options.rounds):
        for name in running:
            times[name].append(contenders[name].measure(line))
            medians[name] = statistics.median(times[name])
        best = min(medians, key=medians.get)
        if best == "mpc":
            break
        if i == 0:
            running = ["mpc", best]
    return medians


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="families,networks,odd")
    parser.add_argument("--only", default="", help="shapes whose names have this")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument("--against")
    parser.add_argument("--max-ratio", type=float)
    options = parser.parse_args()
    for name, known in (
        *(("shapes", conv_shapes.LISTS), ("kinds", KINDS), ("types", TYPES)),
    ):
        values = getattr(options, name).split(",")
        setattr(options, name, values)
        for value in values:
            if value not in known:
                parser.error(
                    f"--{name}: expected some of {', '.join(known)}, found"
                    f" '{value}'"
                )
    return options


def main():
    options = parse_options()
    others = {"other": [options.against]} if options.against else PYTORCH
    contenders = {
        name: Contender(command, options.cpu)
        for name, command in {**MPC, **others}.items()
    }
    rows = []
    convs = [
        conv
        for conv in conv_shapes.list_convs(options.shapes)
        if options.only in str(conv)
    ]
    for conv, kind, dtype in itertools.product(
        convs, options.kinds, options.types
    ):
        line = f"{kind} {dtype} {options.seconds} {conv.line}"
        times = measure(options, contenders, line)
        best = min(times[name] for name in times if name != "mpc")
        rows.append((times["mpc"] / best, conv, kind, dtype, times))
        print(f"{rows[-1][0]:5.2f} x  {conv}: {kind} {dtype}", file=sys.stderr)
    for contender in contenders.values():
        contender.close()
    if not rows:
        sys.exit(f"no convolution has '{options.only}' in its name")

    rows.sort(key=lambda row: row[0], reverse=True)
    print(f"| convolution | | | {' | '.join(f'{n} ms' for n in contenders)}"
          " | mpc against the faster |")
    print("|---" * (4 + len(contenders)) + "|")
    for ratio, conv, kind, dtype, times in rows:
        milliseconds = " | ".join(f"{times[name]:.3f}" for name in contenders)
        print(f"| {conv} | {kind} | {dtype} | {milliseconds} | {ratio:.2f} x |")
    mean = statistics.geometric_mean(row[0] for row in rows)
    print(f"\n{len(rows)} convolutions, geometric mean {mean:.2f} x")
    for limit in (1.1, 1.5, 2, 5):
        above = sum(row[0] > limit for row in rows)
        print(f"above {limit} x: {above}")
    if options.max_ratio and rows[0][0] > options.max_ratio:
        sys.exit(1)


if __name__ == "__main__":
    main()
