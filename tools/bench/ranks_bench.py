"""Times training steps of several ranks beside one rank, one thread each.

    ranks_bench.py [--ranks N,...] [--models NAME,...] [--rounds N]
                   [--steps N] [--warm-up N] [--cpus LIST] [--precision MODE]
                   [--reduce-seconds S] [--min-ratio R] [--figures FILE.json]

In each round, these contenders run in turn, each rank on a CPU of its own:

- one rank alone;
- N processes side by side that do not know of each other;
- N ranks, started by mpirun.

All take batches of equal size. A row has the medians over the rounds:

- samples a second of one rank and of N ranks, and their ratio;
- the ratio of N processes side by side: a machine whose cores share caches,
  memory and clock does not reach N, even if nothing is exchanged;
- the same ratio if each step takes as long as in the slowest process. Ranks wait
  for the slowest of them, so no exchange reaches more on this machine;
- the bytes that a rank sends in a step, and the time and speed of an all-reduce
  of so many bytes, by mpc-rank-times. Speed counts as in nccl-tests. "MPI" is
  the speed of MPI_Allreduce in the same run;
- the part of the all-reduce that does not lengthen the step: it is hidden
  behind the backward pass.

If there are more ranks than CPUs, ranks share CPUs, and so do the processes
side by side. Exits with 1 if a ratio is less than R for ranks that share no
CPU; R is 0.925 N by default, 1.85 for two ranks.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

import numpy as np

import rank_models
import rounds

TIMES = rounds.BUILD / "bin" / "mpc-rank-times"
BUCKET = 25 << 20  # the bytes of plan.all_reduce steps
LATENCY_BYTES = 1024
SIZES = (LATENCY_BYTES, 64 << 10, 1 << 20, 4 << 20, BUCKET)
# Open MPI asks root twice.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def parse_options():
    parser = rounds.make_parser(__doc__.splitlines()[0], warm_up=2)
    parser.set_defaults(rounds=3, steps=5)
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--models", default="resnet50,bert")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--reduce-seconds", type=float, default=2)
    parser.add_argument("--min-ratio", type=float)
    parser.add_argument("--figures", type=pathlib.Path)
    options = rounds.finish_options(parser)
    options.cpus = sorted(options.cpus)
    options.ranks = [int(count) for count in options.ranks.split(",")]
    return options


def pinned(options, rank, command):
    cpu = options.cpus[rank % len(options.cpus)]
    return ["taskset", "-c", str(cpu), *map(str, command)]


def launch(options, commands):
    """Returns the start of a run of a rank for each command."""
    line = ["mpirun"]
    for rank, command in enumerate(commands):
        line += [":"] * (rank > 0) + ["-n", "1", *pinned(options, rank, command)]
    version = subprocess.run(
        ["mpirun", "--version"], capture_output=True, text=True, env=ENVIRONMENT
    )
    if "Open MPI" in version.stdout:
        line[1:1] = ["--oversubscribe", "--bind-to", "none"]
    return line


def run_all(commands):
    """Runs processes at the same time. Returns their outputs."""
    processes = [
        subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        for command in commands
    ]
    outputs = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, outputs):
        if process.returncode != 0:
            raise rounds.Failed(f"{process.args[0]} failed:\n{errors}")
    return [output for output, _ in outputs]


class Training:
    """The runs of one model."""

    def __init__(self, options, name, ranks):
        self.options, self.model = options, rank_models.MODELS[name]
        self.path = rounds.FOLDER / f"{name}.onnx"
        self.data = rounds.FOLDER / f"{name}.npz"
        random = np.random.default_rng(0)
        self.model.write(self.path, self.data, self.model.batch * ranks, random)

    def command(self, index):
        metrics = rounds.FOLDER / f"metrics{index}.jsonl"
        metrics.unlink(missing_ok=True)
        steps = self.options.warm_up + self.options.steps
        return metrics, [
            *(rounds.MPC, "train", self.path, "--data", self.data),
            *("--loss", "softmax_cross_entropy", *self.model.optimizer),
            *("--batch-size", self.model.batch, "--epochs", steps),
            *("--max-steps", steps, "--precision", self.options.precision),
            *("--device", "cpu", "--threads", 1, "--metrics", metrics),
        ]

    def read(self, metrics):
        """Returns the milliseconds of each step, and the last event."""
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        events = [line for line in lines if line["event"] == "train"]
        return [e["step_ms"] for e in events[self.options.warm_up :]], events[-1]

    def time_apart(self, count):
        """Returns the milliseconds of a step of `count` processes side by side:
        their mean, and of the slowest in each step."""
        made = [self.command(index) for index in range(count)]
        run_all(
            pinned(self.options, index, command)
            for index, (_, command) in enumerate(made)
        )
        times = [self.read(metrics)[0] for metrics, _ in made]
        return (
            statistics.mean(map(statistics.median, times)),
            statistics.median(map(max, zip(*times))),
        )

    def time_ranks(self, count):
        """Returns the milliseconds of `count` ranks, and the bytes that a rank
        sends in a step."""
        metrics, command = self.command(0)
        run_all([launch(self.options, [command] * count)])
        times, event = self.read(metrics)
        return statistics.median(times), event["wire_bytes"]


def time_reductions(options, count, sizes):
    """Returns a list of mpc-rank-times's results."""
    command = [TIMES, options.reduce_seconds, *sizes]
    (output,) = run_all([launch(options, [command] * count)])
    return [json.loads(line) for line in output.splitlines() if line[:1] == "{"]


def find(times, size, kind):
    return next(t for t in times if (t["bytes"], t["type"]) == (size, kind))


def reduce_ms(times, total):
    """Returns the milliseconds of `total` bytes in buckets of f32."""
    size = max(s for s in SIZES if s <= max(total, LATENCY_BYTES))
    return find(times, size, "f32")["ms"] * total / size


def compare(options, name, count, times):
    training = Training(options, name, count)
    alone, apart, slowest, together, wire = [], [], [], [], 0
    for index in range(options.rounds):
        alone.append(training.time_apart(1)[0])
        mean, longest = training.time_apart(count)
        apart.append(mean)
        slowest.append(longest)
        milliseconds, wire = training.time_ranks(count)
        together.append(milliseconds)
        print(
            f"round {index + 1}/{options.rounds}: {name}, {count} ranks: alone"
            f" {alone[-1]:.1f} ms, side by side {apart[-1]:.1f} ms (slowest"
            f" {slowest[-1]:.1f}), together {together[-1]:.1f} ms",
            file=sys.stderr,
        )
    total = wire * count // (2 * (count - 1))
    reduction = reduce_ms(times, total)
    median = statistics.median

    def ratio(times):
        return median(count * a / t for a, t in zip(alone, times))

    exposed = median(t - a for t, a in zip(together, apart))
    return {
        "model": name,
        "title": training.model.title,
        "batch": training.model.batch,
        "ranks": count,
        "cpus": len(options.cpus),
        "alone_ms": median(alone),
        "apart_ms": median(apart),
        "together_ms": median(together),
        "ratio": ratio(together),
        "apart_ratio": ratio(apart),
        "slowest_ratio": ratio(slowest),
        "wire_bytes": wire,
        "reduced_bytes": total,
        "reduce_ms": reduction,
        "hidden": min(1, max(0, 1 - exposed / reduction)),
    }


HEADS = (
    "model, batch of a rank|ranks|1 rank, samples/s|N ranks, samples/s|ratio|"
    "ratio side by side|if the slowest sets the pace|sent, MB/step|"
    "all-reduce, ms|all-reduce, GB/s|MPI, GB/s|hidden"
)


def print_row(row, times):
    size = max(s for s in SIZES if s <= max(row["reduced_bytes"], LATENCY_BYTES))
    per_second = 1000 * row["batch"]
    cells = (
        f"{row['title']}, {row['batch']}",
        row["ranks"],
        f"{per_second / row['alone_ms']:.2f}",
        f"{per_second * row['ranks'] / row['together_ms']:.2f}",
        f"**{row['ratio']:.2f}**",
        f"{row['apart_ratio']:.2f}",
        f"{row['slowest_ratio']:.2f}",
        f"{row['wire_bytes'] / 1e6:.2f}",
        f"{row['reduce_ms']:.2f}",
        f"{find(times, size, 'f32')['gb_s']:.2f}",
        f"{find(times, size, 'mpi')['gb_s']:.2f}",
        f"{100 * row['hidden']:.0f} %",
    )
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def find_machine():
    with open("/proc/cpuinfo") as info:
        names = [line for line in info if line.startswith("model name")]
    name = names[0].split(":")[1].strip() if names else platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def main():
    options = parse_options()
    rounds.FOLDER.mkdir(parents=True, exist_ok=True)
    heads = HEADS.split("|")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    rows, reductions, slow = [], [], []
    for count in options.ranks:
        times = time_reductions(options, count, SIZES)
        reductions += times
        for name in options.models.split(","):
            rows.append(compare(options, name, count, times))
            print_row(rows[-1], times)
            least = options.min_ratio
            least = 0.925 * count if least is None else least
            if count <= len(options.cpus) and rows[-1]["ratio"] < least:
                slow.append(f"{name}, {count} ranks: ratio less than {least:g}")
    if options.figures:
        figures = {
            "machine": find_machine(),
            "precision": options.precision,
            "steps": rows,
            "reductions": reductions,
        }
        options.figures.write_text(json.dumps(figures, indent=1) + "\n")
    for line in slow:
        print(line, file=sys.stderr)
    sys.exit(bool(slow))


if __name__ == "__main__":
    try:
        main()
    except rounds.Failed as failed:
        sys.exit(str(failed))
