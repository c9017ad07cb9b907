"""Trains a model once in each precision and prints one table.

    demo.py MPC FOLDER [--fashion IMAGES]

Trains on handwritten digits; with --fashion on Fashion-MNIST, whose four idx
files are in the folder IMAGES. Each run is `mpc train`, and the numbers come
from its metrics file. The memory excludes data and code. FOLDER receives
trained models and metrics.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

DATA = pathlib.Path(__file__).parent.parent / "test" / "data"
PRECISIONS = ["32-true", "bf16-mixed", "16-mixed"]
RECIPE = ["--loss", "softmax_cross_entropy", "--optimizer", "adamw"]
COLUMNS = [
    ("precision", "{}"),
    ("accuracy", "{:.2%}"),
    ("final loss", "{:.4f}"),
    ("ms/step", "{:.2f}"),
    ("time", "{:.0f} s"),
    ("state", "{:.0f} KiB"),
    ("activations", "{:.0f} KiB"),
    ("casts", "{}"),
    ("skipped steps", "{}"),
]


class Task(NamedTuple):
    title: str
    model: pathlib.Path
    batch_size: int
    flags: list  # of `mpc train`: data and training loop


DIGITS = Task(
    "Handwritten digits, held-back fifth (359 images)",
    DATA / "models" / "digits-cnn.onnx",
    32,
    [
        *("--data", DATA / "digits" / "digits-train.npz"),
        *("--val-data", DATA / "digits" / "digits-test.npz"),
        *("--lr", "0.001", "--epochs", "15"),
    ],
)

# Test accuracies of networks of two convolutions, from the benchmarks in the
# README of Fashion-MNIST (package dataset-fashion-mnist). The authors of the
# list have not tested the submitted results.
PUBLISHED = [
    (0.876, "2 Conv+pooling", "Kashif Rasul"),
    (0.916, "2 Conv+pooling", "Tensorflow's doc"),
    (0.919, "2 Conv, normalization and four augmentations", "Efthymiadis"),
    (0.922, "2 Conv, ~113K parameters, normalization", "Abel G."),
    (0.925, "2 Conv, <100K parameters", "hardmaru"),
    (0.934, "2 Conv+pooling+BN", "khanguyen1207"),
]


def fashion(images):
    """Returns the task of Fashion-MNIST. Its files are in the folder `images`."""

    def files(part):
        return [f"{part}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]

    def data(flag, part):
        names = zip(("image", "target"), files(part))
        return [f"{flag}={name}={images / file}" for name, file in names]

    return Task(
        "Fashion-MNIST, 60,000 images to train on, 10,000 to test",
        DATA / "models" / "fashion-cnn.onnx",
        128,
        [
            *data("--data", "train"),
            *data("--val-data", "t10k"),
            *("--augment", "flip"),
            *("--lr", "0.004", "--lr-scheduler", "one-cycle"),
            *("--weight-decay", "0.05", "--epochs", "3"),
        ],
    )


def train(mpc, folder, task, precision):
    """Runs `mpc train` and returns its metrics."""
    metrics = folder / f"{precision}.jsonl"
    command = [
        mpc,
        "train",
        task.model,
        *RECIPE,
        *("--precision", precision),
        *task.flags,
        *("--batch-size", str(task.batch_size)),
        *("--seed", "1"),
        *("--metrics", metrics, "--overwrite-metrics"),
        *("--output", folder / f"{precision}.onnx"),
    ]
    print("==>", " ".join(str(word) for word in command), flush=True)
    process = subprocess.run(command, check=False)
    if process.returncode != 0:
        sys.exit(f"mpc train failed with exit code {process.returncode}")
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def count_casts(mpc, task, precision):
    """Returns the number of casts in the kernels of a training step."""
    command = [
        mpc,
        "explain",
        task.model,
        *RECIPE,
        *("--precision", precision),
        *("--batch-size", str(task.batch_size)),
    ]
    summary = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout
    return int(re.search(r", (\d+) casts?\b", summary).group(1))


def row(mpc, folder, task, precision):
    begin = time.monotonic()
    metrics = train(mpc, folder, task, precision)
    seconds = time.monotonic() - begin
    start = metrics[0]
    steps = [m for m in metrics if m["event"] == "train"]
    evaluation = [m for m in metrics if m["event"] == "eval"][-1]
    return [
        precision,
        evaluation["eval_accuracy"],
        steps[-1]["loss"],
        statistics.median(step["step_ms"] for step in steps),
        seconds,
        start["state_bytes"] / 1024,
        start["activation_bytes"] / 1024,
        count_casts(mpc, task, precision),
        steps[-1]["skipped_total"],
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mpc", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--fashion", type=pathlib.Path, metavar="IMAGES")
    flags = parser.parse_args()
    task = fashion(flags.fashion) if flags.fashion else DIGITS
    flags.folder.mkdir(parents=True, exist_ok=True)
    rows = [row(flags.mpc, flags.folder, task, each) for each in PRECISIONS]
    table = [[name for name, _ in COLUMNS]]
    for values in rows:
        table.append([form.format(v) for (_, form), v in zip(COLUMNS, values)])
    widths = [max(len(line[i]) for line in table) for i in range(len(COLUMNS))]
    print(f"\n{task.title}:\n")
    for line in table:
        cells = [cell.rjust(width) for cell, width in zip(line, widths)]
        print("  ".join(cells))
    if flags.fashion:
        print("\nPublished accuracies, from the README of Fashion-MNIST:\n")
        for accuracy, network, author in PUBLISHED:
            print(f"{accuracy:.1%}  {network} ({author})")


if __name__ == "__main__":
    main()
