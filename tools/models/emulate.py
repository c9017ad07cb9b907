"""Trains the small models of families.py on an emulated GPU and on the CPU.

    emulate.py [--families NAME,...] [--precisions MODE,...] [--batch N]
               [--steps N] [--loss-scale SCALE] [--target TARGET]
               [--build FOLDER]

Each model takes a few steps on the GPU of test/emulator and on the CPU. Prints
the differences of the losses. Needs export.py's packages, and a build with its
tests. ResNet-50 takes minutes per step. With few samples, BatchNormalization of
one number per channel amplifies rounding differences. Therefore 64-true shows
that a model is right, and the other precisions that it compiles and runs. With
two samples the gradients of MobileNetV2 and ResNet-50 are 1e6 and more, beyond
float16: 16-mixed needs four. Exits with 1 if a run fails (its cell names the
device), or if losses differ in 64-true.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from export import export, make_inputs, make_labels
from families import FAMILIES

PRECISIONS = "64-true,32-true,bf16-mixed,16-mixed"
# Relative bound on the losses of 64-true.
BOUND = 1e-6


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).parents[2]
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--precisions", default=PRECISIONS)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2)
    # Two steps are too few to find a scale.
    parser.add_argument("--loss-scale", default="none")
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--build", type=pathlib.Path, default=root / "build")
    return parser.parse_args()


def prepare(name, batch, folder):
    """Writes the family's small model and one batch as files. Returns their
    flags."""
    family = FAMILIES[name]["small"]()
    torch.manual_seed(0)
    random = np.random.RandomState(0)
    inputs = make_inputs(family, batch, random)
    labels = make_labels(family, batch, random)
    # Redirect the exporter's messages.
    with contextlib.redirect_stdout(sys.stderr):
        export(family.make(), inputs, folder / "model.onnx", "dynamo", 18)
    np.savez(folder / "data.npz", **inputs, target=labels)
    flags = ["--loss", family.loss]
    for key, array in family.inputs.items():
        if array.axis:
            flags += ["--batch-axis", f"{key}={array.axis}"]
    return flags


def train(arguments, folder, device, precision, flags):
    """Returns the losses of all steps on that device; None if the run failed,
    which is printed."""
    metrics = folder / f"{device}.jsonl"
    command = [arguments.build / "bin" / "mpc", "train", folder / "model.onnx"]
    command += ["--data", folder / "data.npz", "--no-shuffle", *flags]
    command += ["--optimizer", "adamw", "--batch-size", arguments.batch]
    command += ["--max-steps", arguments.steps, "--epochs", arguments.steps]
    command += ["--precision", precision, "--device", device]
    command += ["--metrics", metrics, "--overwrite-metrics"]
    command += ["--output", folder / "trained.onnx"]
    command += ["--loss-scale", arguments.loss_scale]
    if device == "cuda":
        command += ["--target", arguments.target]
    process = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "MPC_CUDA_LIBRARY_PATH": str(arguments.build / "test" / "emulator"),
            "MPC_EMULATOR_DEVICE": arguments.target,
        },
    )
    if process.returncode != 0:
        print(process.stderr, file=sys.stderr)
        return None
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [float(e["loss"]) for e in events if e["event"] == "train"]


def compare(arguments, name, folder):
    """Prints a family's row. Returns true if all of it was right."""
    flags = prepare(name, arguments.batch, folder)
    cells, isRight = [], True
    for precision in arguments.precisions.split(","):
        losses = {
            device: train(arguments, folder, device, precision, flags)
            for device in ("cpu", "cuda")
        }
        failed = [device for device, of in losses.items() if of is None]
        if failed:
            cells.append(f"failed on {' and '.join(failed)}")
            isRight = False
            continue
        ratio = np.array(losses["cuda"]) / np.array(losses["cpu"])
        difference = np.max(np.abs(ratio - 1))
        isRight &= bool(precision != "64-true" or difference < BOUND)
        cells.append(f"{difference:.0e}")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return isRight


def main():
    arguments = parse_arguments()
    precisions = arguments.precisions.split(",")
    print(f"| family | {' | '.join(precisions)} |")
    print("|---" * (len(precisions) + 1) + "|", flush=True)
    isRight = True
    for name in arguments.families.split(","):
        with tempfile.TemporaryDirectory() as folder:
            isRight &= compare(arguments, name, pathlib.Path(folder))
    return 0 if isRight else 1


if __name__ == "__main__":
    sys.exit(main())
