"""Trains the digits model once in each precision and prints one table.

    digits_demo.py MPC FOLDER

Each run is `mpc train`, and the numbers come from its metrics file. The memory
excludes data and code. FOLDER receives trained models and metrics.

SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys

DATA = pathlib.Path(__file__).parent.parent / "test" / "data"
MODEL = DATA / "models" / "digits-cnn.onnx"
PRECISIONS = ["32-true", "bf16-mixed", "16-mixed"]
RECIPE = ["--loss", "softmax_cross_entropy", "--optimizer", "adamw"]
COLUMNS = [
    ("precision", "{}"),
    ("accuracy", "{:.2%}"),
    ("final loss", "{:.4f}"),
    ("ms/step", "{:.2f}"),
    ("state", "{:.0f} KiB"),
    ("activations", "{:.0f} KiB"),
    ("casts", "{}"),
    ("skipped steps", "{}"),
]


def train(mpc, folder, precision):
    """Runs `mpc train` and returns its metrics."""
    metrics = folder / f"{precision}.jsonl"
    command = [
        mpc,
        "train",
        MODEL,
        *RECIPE,
        *("--precision", precision),
        *("--data", DATA / "digits" / "digits-train.npz"),
        *("--val-data", DATA / "digits" / "digits-test.npz"),
        *("--lr", "0.001"),
        *("--batch-size", "32"),
        *("--epochs", "15"),
        *("--seed", "1"),
        *("--metrics", metrics, "--overwrite-metrics"),
        *("--output", folder / f"{precision}.onnx"),
    ]
    print("==>", " ".join(str(word) for word in command), flush=True)
    process = subprocess.run(command, check=False)
    if process.returncode != 0:
        sys.exit(f"mpc train failed with exit code {process.returncode}")
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def count_casts(mpc, precision):
    """Returns the number of casts in the kernels of a training step."""
    command = [
        mpc,
        "explain",
        MODEL,
        *RECIPE,
        *("--precision", precision),
        *("--batch-size", "32"),
    ]
    summary = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout
    return int(re.search(r", (\d+) casts?\b", summary).group(1))


def row(mpc, folder, precision):
    metrics = train(mpc, folder, precision)
    start = metrics[0]
    steps = [m for m in metrics if m["event"] == "train"]
    evaluation = [m for m in metrics if m["event"] == "eval"][-1]
    return [
        precision,
        evaluation["eval_accuracy"],
        steps[-1]["loss"],
        statistics.median(step["step_ms"] for step in steps),
        start["state_bytes"] / 1024,
        start["activation_bytes"] / 1024,
        count_casts(mpc, precision),
        steps[-1]["skipped_total"],
    ]


def main():
    mpc, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row(mpc, folder, precision) for precision in PRECISIONS]
    table = [[name for name, _ in COLUMNS]]
    for values in rows:
        table.append([form.format(v) for (_, form), v in zip(COLUMNS, values)])
    widths = [max(len(line[i]) for line in table) for i in range(len(COLUMNS))]
    print("\nHandwritten digits, held-back fifth (359 images):\n")
    for line in table:
        cells = [cell.rjust(width) for cell, width in zip(line, widths)]
        print("  ".join(cells))


if __name__ == "__main__":
    main()
