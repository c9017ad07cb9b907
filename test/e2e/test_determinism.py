"""Same seed, same bits: repeated, and on any number of threads.

SPDX-License-Identifier: Apache-2.0
"""

import pytest

import mpctest

PRECISIONS = ["32-true", "64-true", "bf16-mixed", "16-mixed"]


def trained_bytes(model, precision, threads, folder):
    """The trained file after 200 steps, and the losses on the way."""
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


def test_another_seed_gives_other_bits(tmp_path):
    """The comparison above can fail."""
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
