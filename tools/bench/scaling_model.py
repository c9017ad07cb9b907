"""Fits a model of step time against ranks to figures of tools/bench/ranks, and
prints the tables of docs/distributed/scaling.md.

    scaling_model.py FIGURES.json [--page PAGE.md]

--page replaces the text between the marks "<!-- fit -->" and "<!-- end -->" of
the page, and between "<!-- prediction -->" and "<!-- end -->".

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import dataclasses
import json
import math
import pathlib
import re

import numpy as np

BUCKET = 25 << 20


def volume(ranks):
    """The bytes that a rank sends for each byte that is reduced."""
    return 2 * (ranks - 1) / ranks


def sharing(ranks, cpus):
    """The number of ranks on a CPU."""
    return max(1, ranks / cpus)


#
# CPUs: a fit
#


@dataclasses.dataclass
class Reductions:
    """The time of an all-reduce of S bytes over R ranks, s on a CPU:

        latency[R] + s * volume(R) * S / bandwidth
    """

    latency: dict  # ms, by the number of ranks
    bandwidth: float  # bytes/ms
    cpus: int

    def predict(self, ranks, size):
        work = sharing(ranks, self.cpus) * volume(ranks) * size
        return self.latency[ranks] + work / self.bandwidth


def fit_reductions(times, cpus):
    """Minimizes the squares of the relative errors, without negative
    parameters."""
    times = [time for time in times if time["type"] == "f32"]
    counts = sorted({time["ranks"] for time in times})
    rows = [
        [
            *(float(time["ranks"] == count) for count in counts),
            sharing(time["ranks"], cpus) * volume(time["ranks"]) * time["bytes"],
        ]
        for time in times
    ]
    matrix = np.array(rows) / np.array([time["ms"] for time in times])[:, None]
    # In units of the columns: they differ by many powers of ten.
    scale = np.abs(matrix).max(axis=0)
    used = list(range(len(scale)))
    while True:
        columns = (matrix / scale)[:, used]
        found, *_ = np.linalg.lstsq(columns, np.ones(len(times)), rcond=None)
        if (found >= 0).all():
            break
        used.pop(int(found.argmin()))
    parameters = np.zeros(len(scale))
    parameters[used] = found / scale[used]
    *latency, inverse = map(float, parameters)
    return Reductions(dict(zip(counts, latency)), 1 / inverse, cpus)


@dataclasses.dataclass
class Steps:
    """The time of a step of R ranks, s on a CPU:

        s * alone * (1 + slowdown) + (1 - hidden) * all-reduce

    `slowdown` is the effect of neighbours that share memory, caches and clock:
    that of processes side by side, per busy CPU beyond the first."""

    alone: float  # ms
    slowdown: float
    hidden: float
    reduction: dict  # ms, by the number of ranks
    cpus: int

    def predict(self, ranks):
        compute = sharing(ranks, self.cpus) * self.alone * (1 + self.slowdown)
        return compute + (1 - self.hidden) * self.reduction[ranks]


def buckets_of(size):
    return max(1, math.ceil(size / BUCKET))


def fit_steps(rows, reductions):
    """Fits the rows of one model."""
    cpus = rows[0]["cpus"]
    alone = float(np.median([row["alone_ms"] for row in rows]))
    slowdown = max(
        0.0,
        np.mean(
            [row["apart_ms"] / alone / sharing(row["ranks"], cpus) for row in rows]
        )
        - 1,
    )
    reduction = {}
    for row in rows:
        count = buckets_of(row["reduced_bytes"])
        size = row["reduced_bytes"] / count
        reduction[row["ranks"]] = count * reductions.predict(row["ranks"], size)
    steps = Steps(alone, float(slowdown), 0.0, reduction, cpus)
    exposed = np.array(
        [
            row["together_ms"]
            - sharing(row["ranks"], cpus) * alone * (1 + slowdown)
            for row in rows
        ]
    )
    times = np.array([reduction[row["ranks"]] for row in rows])
    share = float(exposed @ times / (times @ times))
    steps.hidden = min(1.0, max(0.0, 1 - share))
    return steps


def table(heads, rows):
    lines = [heads, "|".join(["---"] * len(heads.split("|"))), *rows]
    return "\n".join(f"| {line.replace('|', ' | ')} |" for line in lines)


def describe_fit(figures):
    cpus = figures["steps"][0]["cpus"]
    reductions = fit_reductions(figures["reductions"], cpus)
    latency = ", ".join(
        f"{1000 * ms:.1f} us for {count} ranks"
        for count, ms in reductions.latency.items()
    )
    text = [
        f"Measured on: {figures['machine']}, of which {cpus} run ranks; "
        f"{figures['precision']}.",
        f"Bandwidth {reductions.bandwidth / 1e6:.2f} GB/s a rank; latency {latency}.",
    ]
    rows = []
    for time in figures["reductions"]:
        if time["type"] != "f32":
            continue
        peer = next(
            t
            for t in figures["reductions"]
            if t["type"] == "mpi"
            and (t["ranks"], t["bytes"]) == (time["ranks"], time["bytes"])
        )
        ms = reductions.predict(time["ranks"], time["bytes"])
        rows.append(
            f"{time['ranks']}|{time['bytes'] / 1024:.0f}|{time['ms']:.4f}|{ms:.4f}"
            f"|{100 * (ms / time['ms'] - 1):+.0f} %|{time['gb_s']:.2f}"
            f"|{peer['ms'] / time['ms']:.2f}"
        )
    text.append(
        table(
            "ranks|KiB|measured, ms|model, ms|error|GB/s|time of MPI_Allreduce / "
            "time of mpc",
            rows,
        )
    )
    rows, facts = [], []
    for name in dict.fromkeys(row["model"] for row in figures["steps"]):
        own = [row for row in figures["steps"] if row["model"] == name]
        steps = fit_steps(own, reductions)
        facts.append(
            f"{own[0]['title']}|{steps.alone:.2f}|{100 * steps.slowdown:.1f} %"
            f"|{100 * steps.hidden:.0f} %"
        )
        for row in own:
            ms = steps.predict(row["ranks"])
            rows.append(
                f"{row['title']}, {row['batch']}|{row['ranks']}"
                f"|{row['wire_bytes'] / 1e6:.2f}|{row['together_ms']:.2f}|{ms:.2f}"
                f"|{100 * (ms / row['together_ms'] - 1):+.1f} %|{row['ratio']:.2f}"
                f"|{row['apart_ratio']:.2f}"
            )
    text.append(
        table("model|step of one rank, ms|slowdown by neighbours|hidden", facts)
    )
    text.append(
        table(
            "model, batch of a rank|ranks|sent, MB/step|step, ms|model, ms|error"
            "|speed against one rank|speed side by side",
            rows,
        )
    )
    return "\n\n".join(text)


#
# GPUs: a prediction
#


@dataclasses.dataclass
class Network:
    """Published figures of GPUs of type H100."""

    ranks: int
    bandwidth: float  # bytes/ms, as nccl-tests counts "busbw"
    latency: float  # ms of an all-reduce of few bytes


# https://github.com/NVIDIA/nccl-tests/issues/290: 476 GB/s in a machine of 8,
# and 46 to 48 GB/s for each of the 8 network adapters of a machine.
# https://github.com/NVIDIA/nccl/issues/652: 63 to 71 us for 4 bytes over 256
# A100. The latency inside a machine is an assumption.
NETWORKS = (Network(8, 476e6, 0.030), Network(64, 8 * 47e6, 0.067))


@dataclasses.dataclass
class Job:
    title: str
    step: float  # ms of one GPU, docs/measured/gpu.md
    parameters: float


JOBS = (
    Job("ResNet-50, 64 images", 12.5, 25.6e6),
    Job("GPT-2 124M, 16 x 512 tokens", 38.5, 124.4e6),
)
FORWARD = 1 / 3  # of a step; the rest is the backward pass


def predict_step(job, network, bucket, width=4):
    """Runs the reductions of equal buckets one after the other. A bucket is
    ready when backward has made its gradients, at a steady rate."""
    size = job.parameters * width
    count = max(1, math.ceil(size / bucket))
    each = network.latency + volume(network.ranks) * size / count / network.bandwidth
    end = 0.0
    for index in range(count):
        ready = job.step * (FORWARD + (1 - FORWARD) * (index + 1) / count)
        end = max(end, ready) + each
    return end


def describe_prediction():
    rows = []
    for job in JOBS:
        for network in NETWORKS:
            cells = []
            for mib in (1, 25, 100):
                step = predict_step(job, network, mib << 20)
                cells.append(f"{step:.2f}")
            step = predict_step(job, network, BUCKET)
            late = job.step + network.latency
            late += volume(network.ranks) * job.parameters * 4 / network.bandwidth
            rows.append(
                f"{job.title}|{network.ranks}|{'|'.join(cells)}|{late:.2f}"
                f"|{100 * job.step / step:.1f} %"
                f"|{network.ranks * job.step / step:.1f}"
            )
    return table(
        "model, batch of a GPU|GPUs|step with buckets of 1 MiB, ms|25 MiB (default)"
        "|100 MiB|one all-reduce after backward, ms|efficiency with 25 MiB"
        "|speed against one GPU",
        rows,
    )


def replace(text, mark, content):
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(\n<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"the page has no mark <!-- {mark} -->")
    return pattern.sub(lambda found: found[1] + content + found[2], text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
    options = parser.parse_args()
    fit = describe_fit(json.loads(options.figures.read_text()))
    prediction = describe_prediction()
    print(f"{fit}\n\n{prediction}")
    if options.page:
        text = replace(options.page.read_text(), "fit", fit)
        options.page.write_text(replace(text, "prediction", prediction))


if __name__ == "__main__":
    main()
