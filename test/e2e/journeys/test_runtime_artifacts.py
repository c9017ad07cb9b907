"""A user trains with a folder of ONNX Runtime's training artifacts, which
brings its own optimizer.

SPDX-License-Identifier: Apache-2.0
"""

import shutil

import journey
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import mpctest

ARTIFACTS = mpctest.DATA / "ort-lenet"
LENET = mpctest.MODELS / "lenet.onnx"


def digits(path):
    data = np.load(path)
    image = data["image"].repeat(4, axis=2).repeat(4, axis=3)
    return {
        "image": image.astype(np.float32),
        "labels": data["target"].astype(np.int64),
    }


@pytest.mark.parametrize("mode", ["32-true", "bf16-mixed"])
def test_journey(mode, tmp_path):
    train = digits(journey.TRAIN)
    journey.save_arrays(tmp_path / "train.npz", **train)
    command = ["train", ARTIFACTS, "--data", tmp_path / "train.npz"]
    command += ["--batch-size", 32]

    # The error names each parameter without a value once, with the remedy.
    text = journey.refused(journey.INVALID, *command)
    assert text.count("'conv1.weight'") == 1
    assert text.count("error:") == 1
    assert "--weights" in text

    # mpc refuses a flag without effect.
    command += ["--weights", LENET]
    for flag in (
        ["--optimizer", "sgd"],
        ["--beta1", 0.5],
        ["--weight-decay", 0.3],
        ["--as-exported"],
    ):
        text = journey.refused(journey.USAGE, *command, *flag)
        assert flag[0] in text and "leave the flag out" in text

    # mpc refuses a model that cannot receive the weights before the first step.
    metrics = tmp_path / "m.jsonl"
    command += ["--epochs", 2, "--metrics", metrics, "--precision", mode]
    command += ["--output", tmp_path / "trained.onnx", "--export-model"]
    text = journey.refused(
        journey.INVALID, *command, ARTIFACTS / "eval_model.onnx"
    )
    assert "cannot receive" in text and not metrics.exists()

    mpctest.mpc_ok(*command, LENET)
    losses = mpctest.losses(mpctest.read_metrics(metrics))
    assert len(losses) == 2 * (len(train["labels"]) // 32)
    test = digits(journey.TEST)
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    (scores,) = session.run(None, {"image": test["image"]})
    assert journey.accuracy(scores, test["labels"]) > 0.8


class Flatbuffer:
    """Builds a flatbuffer. Referenced objects follow the objects that refer to
    them."""

    def __init__(self, kind):
        self.bytes = bytearray(4) + kind

    def put(self, at, value):
        self.bytes[at : at + 4] = value.to_bytes(4, "little")

    def point(self, slot):
        self.put(slot, len(self.bytes) - slot)

    def table(self, fields):
        """Adds a table of 4-byte zeros. Returns the offsets of table and fields."""
        start = len(self.bytes)
        halves = [4 + 2 * fields, 4 + 4 * fields, *range(4, 4 + 4 * fields, 4)]
        for half in halves:
            self.bytes += half.to_bytes(2, "little")
        table = len(self.bytes)
        self.bytes += (table - start).to_bytes(4, "little") + bytes(4 * fields)
        return table, list(range(table + 4, len(self.bytes), 4))

    def vector(self, slot, count, content):
        self.point(slot)
        self.bytes += count.to_bytes(4, "little") + content


def write_checkpoint(path, arrays):
    """Writes float32 arrays as ONNX Runtime's checkpoint of trained parameters."""
    buffer = Flatbuffer(b"ODTC")
    root, (_, module_slot) = buffer.table(2)
    buffer.put(0, root)
    module, (trained_slot, *_) = buffer.table(4)
    buffer.put(module_slot, module - module_slot)
    buffer.vector(trained_slot, len(arrays), b"")
    first = len(buffer.bytes)
    buffer.bytes += bytes(4 * len(arrays))
    for i, (name, array) in enumerate(arrays.items()):
        slot = first + 4 * i
        table, (name_slot, _, dims, element, raw) = buffer.table(5)
        buffer.put(slot, table - slot)
        buffer.put(element, 1)
        buffer.vector(name_slot, len(name), name.encode())
        shape = np.array(array.shape, np.int64).tobytes()
        buffer.vector(dims, array.ndim, shape)
        buffer.vector(raw, array.nbytes, array.tobytes())
    path.write_bytes(buffer.bytes)


def test_weights_are_those_of_the_checkpoint_beside_the_artifacts(tmp_path):
    """mpc reads the checkpoint without --weights. It does not follow links."""
    folder = tmp_path / "artifacts"
    shutil.copytree(ARTIFACTS, folder)
    model = onnx.load(LENET)
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    parameters = {k: v for k, v in arrays.items() if v.dtype == np.float32}
    write_checkpoint(tmp_path / "elsewhere", parameters)
    journey.save_arrays(tmp_path / "train.npz", **digits(journey.TRAIN))
    command = ["train", folder, "--data", tmp_path / "train.npz"]
    command += ["--batch-size", 32, "--max-steps", 5]
    command += ["--output", tmp_path / "trained.safetensors"]

    def train(*flags):
        metrics = tmp_path / "m.jsonl"
        process = mpctest.mpc_ok(
            *command, *flags, "--metrics", metrics, "--overwrite-metrics"
        )
        losses = mpctest.losses(mpctest.read_metrics(metrics))
        return losses, process.stdout + process.stderr

    expected, _ = train("--weights", LENET)
    (folder / "checkpoint").symlink_to(tmp_path / "elsewhere")
    assert "without values" in journey.refused(journey.INVALID, *command)
    (folder / "checkpoint").unlink()
    (tmp_path / "elsewhere").rename(folder / "checkpoint")
    losses, text = train()
    assert losses == expected
    assert f"10 of 10 parameters from {folder}/checkpoint" in text

    # A damaged checkpoint is reported as damaged.
    (folder / "checkpoint").write_bytes((folder / "checkpoint").read_bytes()[:-4])
    assert "damaged or truncated" in journey.refused(journey.INVALID, *command)

    # A file of another program with the same name is not a checkpoint.
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"')
    assert "without values" in journey.refused(journey.INVALID, *command)
