"""Lion and Muon in mixed precision: a skipped step changes nothing, a resumed
run has the bits of a whole one, and Muon's products are low.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import mpctest

MODEL = mpctest.MODELS / "mlp.onnx"
TRAIN = mpctest.DIGITS / "digits-train.npz"
RUN = ["--loss", "softmax_cross_entropy", "--batch-size", 64, "--lr", 1e-3]
OPTIMIZERS = ["lion", "muon"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_skipped_step_changes_nothing(optimizer, tmp_path):
    with np.load(TRAIN) as file:
        arrays = {name: file[name][: 3 * 64].astype(np.float32) for name in file}
    # Values that overflow float16 in the second of three batches.
    loud = {name: value.copy() for name, value in arrays.items()}
    loud["image"][64:128] += 1e6
    quiet = {name: np.delete(v, np.s_[64:128], axis=0) for name, v in arrays.items()}
    flags = [*RUN, "--optimizer", optimizer, "--precision", "16-mixed", "--loss-scale", 1024]
    metrics, skipping = mpctest.train(MODEL, loud, tmp_path / "loud", *flags)
    _, others = mpctest.train(MODEL, quiet, tmp_path / "quiet", *flags)
    assert [m["skipped"] for m in metrics if m["event"] == "train"] == [0, 1, 0]
    for name, value in others.items():
        np.testing.assert_array_equal(value, skipping[name], name)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_resumed_run_gives_the_same_bits(optimizer, precision, tmp_path):
    found = []
    for name, steps in [("whole", [12]), ("parts", [5, 12])]:
        output, folder = tmp_path / f"{name}.safetensors", tmp_path / name
        for limit in steps:
            mpctest.mpc_ok(
                *("train", MODEL, "--data", TRAIN, *RUN, "--optimizer", optimizer),
                *("--precision", precision, "--max-steps", limit, "--output", output),
                *("--checkpoint-dir", folder, "--resume", "auto", *mpctest.TARGET),
            )
        found.append(output.read_bytes())
    assert found[0] == found[1]
    (last,) = (tmp_path / "whole").glob("step-12/state.safetensors")
    state = load_file(last)
    moment = "fc1.weight.m" if optimizer == "lion" else "fc1.weight.velocity"
    assert state[moment].any() and state[moment].dtype == np.float32
    # AdamW trains the last layer beside Muon.
    assert ("fc3.weight.v" in state) == (optimizer == "muon")


@pytest.mark.parametrize("precision,low", [("bf16-mixed", "bf16"), ("32-true", None)])
def test_products_of_muon_follow_the_policy(precision, low):
    text = mpctest.mpc_ok(
        *("explain", MODEL, *RUN[:4], "--optimizer", "muon", "--precision", precision),
        *("--format", "jsonl", *mpctest.TARGET),
    ).stdout
    records = [json.loads(line) for line in text.splitlines()]
    products = [
        record
        for record in records
        if record.get("nodes") == ["fc1.weight#update"] and record["op"] == "matmul"
    ]
    assert products
    for record in products:
        assert record["phase"] == "optimizer"
        if low:
            assert (record["compute"], record["reason"]) == (low, "allow_list")
        else:
            assert record["compute"] == "f32"
    steps = [record for record in records if record.get("op") == "sgd"]
    assert steps and all(record["compute"] == "f32" for record in steps)
