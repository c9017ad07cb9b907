"""A user tries mixed precision. Every mode learns, mpc explains each decision,
and the suggested change has its effect.

SPDX-License-Identifier: Apache-2.0
"""

import json

import journey
import numpy as np
import pytest

import mpctest

CNN = mpctest.MODELS / "digits-cnn.onnx"
COMPILE = [CNN, *journey.CLASSES, "--batch-size", 32, "--precision"]


def explain(*arguments):
    text = mpctest.mpc_ok("explain", *arguments, "--format", "jsonl").stdout
    records = [json.loads(line) for line in text.splitlines()]
    return {r["id"]: r for r in records if "id" in r}


@pytest.mark.parametrize(
    "mode", ["32-true", "bf16-mixed", "16-mixed", "64-true"]
)
def test_every_mode_learns(mode, tmp_path):
    metrics, _ = mpctest.train(
        *(CNN, journey.TRAIN, tmp_path, *journey.CLASSES, "--precision", mode),
        *("--optimizer", "adamw", "--batch-size", 32, "--max-steps", 40),
        *("--val-data", journey.TEST),
    )
    assert metrics[-2]["eval_accuracy"] > 0.9
    (start,) = [m for m in metrics if m["event"] == "start"]
    assert start["precision"] == mode


def test_journey(tmp_path):
    # The summary's counts equal the table's.
    text = mpctest.mpc_ok("explain", *COMPILE, "bf16-mixed").stdout
    header, *_, total = text.strip().splitlines()
    low = total.split()[2]
    assert header.startswith(f"bf16-mixed: {low} of {total.split()[1]} ops low")

    # A node has a name and a reason, and the suggested flag flips its decision.
    decisions = explain(*COMPILE, "bf16-mixed")
    one = explain(CNN, "conv1", *COMPILE[1:], "bf16-mixed")
    assert one["conv1"] == decisions["conv1"]
    assert decisions["conv1"]["compute"] == "bf16"
    flipped = explain(*COMPILE, "bf16-mixed", decisions["conv1"]["flip"])
    assert flipped["conv1"]["compute"] == "f32"
    assert flipped["conv1"]["reason"] == "keep_fp32"
    assert "conv2" not in decisions["conv1"]["follows"]
    others = [{**each["conv2"], "follows": None} for each in (flipped, decisions)]
    assert others[0] == others[1]

    # The printed policy reads back to the same decisions. A rule in the policy
    # changes them. The error for an unknown rule lists the known ones.
    policy = tmp_path / "policy.json"
    policy.write_text(mpctest.mpc_ok("explain", "--print-policy").stdout)
    same = explain(*COMPILE, "bf16-mixed", "--policy", policy)
    assert {k: v["compute"] for k, v in same.items()} == {
        k: v["compute"] for k, v in decisions.items()
    }
    rule = {"node": "^fc2$", "class": "deny", "reason": "as I say"}
    policy.write_text(json.dumps({"rules": [rule]}))
    changed = explain(*COMPILE, "bf16-mixed", "--policy", policy)
    assert changed["fc2"]["compute"] == "f32"
    assert changed["fc2"]["why"] == "as I say"
    for wrong, nearest in (({"node": "^fc9$"}, "fc"), ({"op": "Softplus"}, "")):
        policy.write_text(json.dumps({"rules": [{**rule, **wrong}]}))
        if "op" in wrong:
            policy.write_text(json.dumps({"rules": [{**wrong, "class": "deny"}]}))
        text = journey.refused(
            *(journey.USAGE, "explain", *COMPILE, "bf16-mixed"),
            *("--policy", policy),
        )
        assert "rules[0]: matches no node of the model; there are '" + nearest in text


def test_modes_that_there_are_not():
    text = journey.refused(journey.USAGE, "check", *COMPILE, "fp16")
    assert "32-true,16-mixed,bf16-mixed,64-true" in text
    text = journey.refused(journey.UNSUPPORTED, "explain", *COMPILE, "16-true")
    assert "expected 32-true, 16-mixed, bf16-mixed or 64-true" in text
    text = journey.refused(
        journey.USAGE, "check", *COMPILE, "32-true", "--force-low", "conv1"
    )
    assert "--force-low is for --precision 16-mixed or bf16-mixed" in text


def test_what_float16_cannot_hold_ends_the_run(tmp_path):
    """A run that learned nothing fails and says where the overflow began."""
    data = dict(np.load(journey.TRAIN))
    data["image"] = data["image"].astype(np.float32) * 1e5
    journey.save_arrays(tmp_path / "large.npz", **data)
    metrics = tmp_path / "m.jsonl"
    text = journey.refused(
        *(journey.NUMERIC, "train", *COMPILE, "16-mixed"),
        *("--data", tmp_path / "large.npz", "--epochs", 3),
        *("--metrics", metrics, "--output", tmp_path / "o.onnx"),
    )
    # The pixels are divided by 16 in float16 first.
    assert "the kernel of nodes 'scale' and 'conv1' gives inf" in text
    steps = [m for m in mpctest.read_metrics(metrics) if m["event"] == "train"]
    assert len(steps) == 10
    assert not (tmp_path / "o.onnx").exists()
