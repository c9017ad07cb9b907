"""Makes ONNX Runtime's training artifacts for LeNet, and ONNX Runtime's losses.

    pip install onnxruntime-training==1.19.2 onnx==1.16.2 'torch<2.5' 'numpy<2'
    python make_artifacts.py

The last published onnxruntime-training (Python 3.11) generates
training_model.onnx, eval_model.onnx and optimizer_model.onnx, and runs them for
the reference. parameters.npz holds the initial parameters by name, losses.json
the loss of every micro-step for accumulation over 1 and 4 micro-batches. Images
are the digits in file order, each pixel repeated 4x4.

SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer

HERE = pathlib.Path(__file__).parent
DATA = HERE.parent
BATCH_SIZE = 16
STEPS = 20
LEARNING_RATE = 0.001


def make_artifacts(folder):
    model = onnx.load(DATA / "models" / "lenet.onnx")
    parameters = {
        init.name: numpy_helper.to_array(init)
        for init in model.graph.initializer
        if init.name.endswith((".weight", ".bias"))
    }
    artifacts.generate_artifacts(
        model,
        requires_grad=list(parameters),
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
    )
    for name in ("training_model", "eval_model", "optimizer_model"):
        path = folder / f"{name}.onnx"
        (HERE / path.name).write_bytes(path.read_bytes())
    np.savez_compressed(HERE / "parameters.npz", **parameters)


def losses(folder, accumulate):
    """Returns the loss of every micro-step over STEPS optimizer steps."""
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(
        str(folder / "training_model.onnx"),
        state,
        str(folder / "eval_model.onnx"),
    )
    optimizer = Optimizer(str(folder / "optimizer_model.onnx"), module)
    optimizer.set_learning_rate(LEARNING_RATE)
    module.train()
    digits = np.load(DATA / "digits" / "digits-train.npz")
    images = digits["image"].repeat(4, axis=2).repeat(4, axis=3)
    images = images.astype(np.float32)
    targets = digits["target"].astype(np.int64)
    batches = len(targets) // BATCH_SIZE
    result = []
    for micro_step in range(STEPS * accumulate):
        first = micro_step % batches * BATCH_SIZE
        rows = slice(first, first + BATCH_SIZE)
        result.append(float(module(images[rows], targets[rows])))
        if (micro_step + 1) % accumulate == 0:
            optimizer.step()
            module.lazy_reset_grad()
    return result


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_artifacts(folder)
        reference = {
            "onnxruntime": onnxruntime.__version__,
            "batch_size": BATCH_SIZE,
            "steps": STEPS,
            "lr": LEARNING_RATE,
            "optimizer": "adamw",
            "losses": {str(n): losses(folder, n) for n in (1, 4)},
        }
    text = json.dumps(reference, indent=1)
    (HERE / "losses.json").write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
