"""Writes one file of each kind that mpc writes, with the mpc of build/, into a
folder of its version. A new version adds a folder and leaves the others as they
are: test_versions.py proves that today's mpc reads all of them.

    make_versions.py    (needs test/requirements.txt)

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import helper

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parents[1]))
import mpctest  # noqa: E402

# Any x86-64 CPU runs the artifact.
COMPILE = "--loss softmax_cross_entropy --optimizer adamw --batch-size 8"
TRAIN = "--data data.npz --val-data data.npz --lr 0.01 --epochs 2 --threads 1 -q"


def make_model(folder):
    random = np.random.default_rng(0)
    weights = {
        "fc1": random.normal(0, 0.5, (4, 8)).astype(np.float32),
        "fc2": random.normal(0, 0.5, (8, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "fc1"], ["h"], "fc1"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "fc2"], ["y"], "fc2"),
    ]
    x, y = {"x": (np.float32, ["n", 4])}, {"y": (np.float32, ["n", 3])}
    onnx.save(mpctest.make_model(nodes, x, y, weights), folder / "model.onnx")
    values = random.normal(size=(32, 4)).astype(np.float32)
    np.savez(folder / "data.npz", x=values, target=values[:, :3].argmax(1))


def main():
    version = mpctest.mpc_ok("--version").stdout.split()[1]
    folder = HERE / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    make_model(folder)

    def mpc(command):
        subprocess.run([mpctest.MPC, *command.split()], cwd=folder, check=True)

    mpc(f"compile model.onnx {COMPILE} --target x86-64 -o model.mpc")
    outputs = "--checkpoint-dir checkpoints --metrics run.jsonl"
    mpc(f"train model.mpc {TRAIN} {outputs} --output trained.safetensors")
    # The lock of the finished run.
    for lock in (folder / "checkpoints").glob(".*"):
        lock.unlink()
    (folder / "policy.json").write_text(
        '{"preset": "torch",\n'
        ' "table": [{"op": "Relu", "fp16": "deny", "bf16": "deny", "reason": "a row"}],\n'
        ' "rules": [{"op": "MatMul", "node": "^fc2$", "class": "deny", "reason": "a rule"}]}\n'
    )
    flags = COMPILE.replace("--", "\n").split("\n")[1:]
    with open(folder / "flags.toml", "w") as file:
        for flag in flags:
            name, value = flag.split()
            quoted = value if value[0].isdigit() else f'"{value}"'
            file.write(f"{name} = {quoted}\n")


if __name__ == "__main__":
    main()
