"""Trains the digits with installed wheels, where nothing else of mpc is.

    smoke.py FOLDER

FOLDER has digits-cnn.onnx, the archives of digits, and perhaps the artifact
digits.mpc. tools/wheels --try runs this file in a place without LLVM. Models
are compiled if the wheel mpc-compiler is installed.

SPDX-License-Identifier: Apache-2.0
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig
import time

import numpy as np

import mpc_runtime as mpc


def check_runtime():
    """Checks that the library in the wheel loads and answers."""
    assert mpc.version().count(".") == 2
    try:
        mpc.open(__file__)
    except mpc.InvalidInputError as error:
        assert "not a .mpc artifact" in str(error)
    else:
        raise AssertionError("a Python file was taken for an artifact")


def train_by_command(folder):
    """Trains with `mpc train`, and returns the accuracy."""
    command = pathlib.Path(sysconfig.get_path("scripts")) / "mpc"
    assert mpc.find_command() == str(command), mpc.find_command()
    start = time.perf_counter()
    subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL)
    print(f"mpc --help: {1000 * (time.perf_counter() - start):.0f} ms")
    training = mpc.train(
        folder / "digits-cnn.onnx",
        folder / "digits-train.npz",
        val_data=folder / "digits-test.npz",
        output=folder / "trained.onnx",
        loss="softmax_cross_entropy",
        optimizer="adamw",
        batch_size=32,
        epochs=3,
        precision="bf16-mixed",
        seed=1,
    )
    evaluations = [e for e in training.wait() if e["event"] == "eval"]
    return evaluations[-1]["eval_accuracy"]


def compile_artifact(folder):
    return mpc.compile(
        folder / "digits-cnn.onnx",
        loss="softmax_cross_entropy",
        optimizer="adamw",
        batch_size=32,
    )


def train_by_session(folder, artifact):
    """Trains with a session, and returns the accuracy on the same digits."""
    with np.load(folder / "digits-train.npz") as arrays:
        data = dict(arrays)
    batches = [
        {name: array[i : i + 32] for name, array in data.items()}
        for i in range(0, len(data["target"]) - 31, 32)
    ]
    with mpc.Session(artifact) as session, mpc.Trainer(session) as trainer:
        for _ in range(3):
            for batch in batches:
                trainer.step(batch)
        session.save(folder / "trained.safetensors")
        return session.evaluate(data)["accuracy"]


def main():
    folder = pathlib.Path(sys.argv[1])
    check_runtime()
    print(f"Python {sys.version.split()[0]}, {os.confstr('CS_GNU_LIBC_VERSION')}")
    accuracies = {}
    if importlib.util.find_spec("mpc_compiler"):
        accuracies["mpc train"] = train_by_command(folder)
        artifact = compile_artifact(folder)
        accuracies["a compiled artifact"] = train_by_session(folder, artifact)
    if (folder / "digits.mpc").exists():
        artifact = mpc.open(folder / "digits.mpc")
        accuracies["an opened artifact"] = train_by_session(folder, artifact)
    for name, accuracy in accuracies.items():
        print(f"{name}: accuracy {accuracy:.2%}")
        assert accuracy > 0.9
    print("the wheels work")


if __name__ == "__main__":
    main()
