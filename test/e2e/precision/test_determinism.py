"""The same seed gives the same bits, in repeated runs and with any number of
threads.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

pytestmark = pytest.mark.starts_mpc
PRECISIONS = ["32-true", "64-true", "bf16-mixed", "16-mixed"]


def trained_bytes(model, precision, threads, folder):
    """Returns the trained file after 200 steps, and the losses."""
    folder.mkdir()
    output, metrics = folder / "trained.onnx", folder / "metrics.jsonl"
    mpctest.mpc_ok(
        *("train", mpctest.MODELS / f"{model}.onnx"),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--batch-size", "32", "--max-steps", "200", "--seed", "7"),
        *("--precision", precision, "--threads", threads),
        *("--output", output, "--metrics", metrics),
    )
    losses = mpctest.losses(mpctest.read_metrics(metrics))
    assert len(losses) == 200
    return output.read_bytes(), losses


@pytest.mark.parametrize("model", ["digits-cnn", "mlp"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_repeats_bit_for_bit(model, precision, tmp_path):
    once = trained_bytes(model, precision, 1, tmp_path / "once")
    again = trained_bytes(model, precision, 1, tmp_path / "again")
    threaded = trained_bytes(model, precision, 2, tmp_path / "threaded")
    assert again[1] == once[1], "a second run gives other losses"
    assert threaded[1] == once[1], "two threads give other losses"
    assert again[0] == once[0] == threaded[0]


def wide_perceptron():
    """Returns a perceptron with rows of 1024, whose columns are summed in bands
    and in parts."""
    random = np.random.RandomState(3)
    weights = {
        f"w{i}": random.uniform(-0.05, 0.05, shape).astype(np.float32)
        for i, shape in enumerate([(16, 1024), (1024, 1024), (1024, 10)])
    }
    biases = {
        f"b{i}": np.zeros(size, np.float32) for i, size in enumerate([1024] * 2)
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["h0"], "first"),
        helper.make_node("Relu", ["h0"], ["h1"], "relu"),
        helper.make_node("Gemm", ["h1", "w1", "b1"], ["h2"], "second"),
        helper.make_node("Tanh", ["h2"], ["h3"], "tanh"),
        helper.make_node("MatMul", ["h3", "w2"], ["y"], "last"),
    ]
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, [512, 16])},
        {"y": (np.float32, [512, 10])},
        {**weights, **biases},
    )


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_wide_rows_repeat_bit_for_bit(precision, tmp_path):
    model, data = tmp_path / "wide.onnx", tmp_path / "wide.npz"
    onnx.save(wide_perceptron(), model)
    random = np.random.RandomState(4)
    x = random.normal(size=(1024, 16)).astype(np.float32)
    np.savez(data, x=x, target=random.randint(0, 10, 1024))
    trained = []
    for threads in (1, 2, 3):
        output = tmp_path / f"trained{threads}.onnx"
        mpctest.mpc_ok(
            *("train", model, "--data", data, "--output", output),
            *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
            *("--max-steps", "6", "--seed", "7", "--lr", "1e-3"),
            *("--precision", precision, "--threads", threads),
        )
        trained.append(output.read_bytes())
    assert trained[0] == trained[1] == trained[2]
    assert trained[0] != model.read_bytes()


def test_another_seed_gives_other_bits(tmp_path):
    """Negative control: the comparison above can fail."""
    losses = [
        mpctest.losses(train_with_seed(seed, tmp_path / str(seed)))
        for seed in (1, 2)
    ]
    assert losses[0] != losses[1]


def train_with_seed(seed, folder):
    folder.mkdir()
    metrics = folder / "metrics.jsonl"
    mpctest.mpc_ok(
        *("train", mpctest.MODELS / "mlp.onnx"),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--batch-size", "32", "--max-steps", "5", "--seed", seed),
        *("--output", folder / "trained.onnx", "--metrics", metrics),
    )
    return mpctest.read_metrics(metrics)
