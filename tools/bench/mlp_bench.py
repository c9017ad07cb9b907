"""Times training steps of a 4 x 2048 perceptron in mpc and PyTorch.

    mlp_bench.py [--rounds N] [--steps N] [--cpus LIST]

Every round runs each contender once, in turn, in a process of its own on the
same CPUs with one thread a CPU. A round's number is the median of its steps;
the table has the median of the rounds and their range.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
MPC = ROOT / "build" / "bin" / "mpc"
FOLDER = ROOT / "build" / "bench"
WIDTH, BATCH, WARM_UP = 2048, 256, 5

sys.path.insert(0, str(ROOT / "test" / "data" / "models"))
import make_models  # noqa: E402  (found through the path above)


def prepare():
    """The model with its weights, and one batch of data, as files."""
    import onnx

    FOLDER.mkdir(parents=True, exist_ok=True)
    onnx.save(make_models.mlp((WIDTH,) * 5, (WIDTH,)), FOLDER / "mlp.onnx")
    random = np.random.RandomState(0)
    image = random.uniform(0, 16, (BATCH, WIDTH)).astype(np.float32)
    target = random.randint(0, 10, BATCH)
    np.savez(FOLDER / "data.npz", image=image, target=target)


def run_mpc(precision, steps, cpus):
    metrics = FOLDER / "metrics.jsonl"
    command = [
        *(MPC, "train", FOLDER / "mlp.onnx", "--data", FOLDER / "data.npz"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--lr", "1e-4", "--batch-size", str(BATCH)),
        *("--epochs", str(WARM_UP + steps), "--precision", precision),
        *("--threads", str(len(cpus)), "--metrics", metrics),
        *("--output", FOLDER / "trained.onnx"),
    ]
    execute(command, cpus)
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    times = [e["step_ms"] for e in events if e["event"] == "train"]
    return times[WARM_UP:]


def run_torch(how, precision, steps, cpus):
    script = HERE / "mlp_torch.py"
    command = [sys.executable, script, how, precision, steps, len(cpus)]
    return json.loads(execute([str(word) for word in command], cpus))


def execute(command, cpus):
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{process.stderr}")
    return process.stdout


CONTENDERS = {
    "mpc 32-true": lambda *run: run_mpc("32-true", *run),
    "mpc bf16-mixed": lambda *run: run_mpc("bf16-mixed", *run),
    "PyTorch fp32 eager": lambda *run: run_torch("eager", "fp32", *run),
    "PyTorch bf16 eager": lambda *run: run_torch("eager", "bf16", *run),
    "PyTorch bf16 compiled": lambda *run: run_torch("compiled", "bf16", *run),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--cpus", default="0,1")
    options = parser.parse_args()
    cpus = {int(cpu) for cpu in options.cpus.split(",")}

    prepare()
    medians = {name: [] for name in CONTENDERS}
    for i in range(options.rounds):
        for name, contender in CONTENDERS.items():
            times = contender(options.steps, cpus)
            medians[name].append(statistics.median(times))
            print(
                f"round {i + 1}/{options.rounds}: {name}"
                f" {medians[name][-1]:.1f} ms",
                file=sys.stderr,
            )

    ours = statistics.median(medians["mpc bf16-mixed"])
    print(f"\n4 x {WIDTH}, batch {BATCH}, AdamW, {len(cpus)} threads\n")
    print(f"{'':24}{'ms/step':>9}{'range':>16}{'vs mpc bf16-mixed':>20}")
    for name, values in medians.items():
        middle = statistics.median(values)
        span = f"{min(values):.1f}-{max(values):.1f}"
        print(f"{name:24}{middle:9.1f}{span:>16}{middle / ours:19.2f}x")


if __name__ == "__main__":
    main()
