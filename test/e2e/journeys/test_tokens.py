"""A user trains a small language model on nanoGPT's token files: one long row
in several files, cut into samples as the error says.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnxruntime
from onnx import helper

import mpctest
from journey import INVALID, refused, save

TOKENS, LENGTH, WIDTH = 12, 16, 16


def language_model():
    """Returns a model that predicts the next token from two tokens: logits
    [batch,16,12]."""
    nodes = [
        helper.make_node("Gather", ["wte.weight", "idx"], ["x"], "wte"),
        # The previous token, with zeros before the first.
        helper.make_node("Pad", ["x", "pads"], ["padded"], "pad"),
        helper.make_node("Slice", ["padded", "from", "to", "axis"], ["y"], "before"),
        helper.make_node("Concat", ["x", "y"], ["both"], "both", axis=2),
        helper.make_node("MatMul", ["both", "fc.weight"], ["h"], "fc"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "head.weight"], ["logits"], "head"),
    ]
    random = np.random.default_rng(0)
    values = {
        "wte.weight": random.normal(0, 0.3, (TOKENS, WIDTH)),
        "fc.weight": random.normal(0, 0.2, (2 * WIDTH, 32)),
        "head.weight": random.normal(0, 0.2, (32, TOKENS)),
    }
    values = {name: value.astype(np.float32) for name, value in values.items()}
    values["pads"] = np.array([0, 1, 0, 0, 0, 0])
    for name, number in (("from", 0), ("to", LENGTH), ("axis", 1)):
        values[name] = np.array([number])
    return mpctest.make_model(
        nodes,
        {"idx": (np.int64, ["batch", LENGTH])},
        {"logits": (np.float32, ["batch", LENGTH, TOKENS])},
        values,
    )


def text(count, seed):
    """Returns tokens of which nine in ten follow from the two before."""
    random = np.random.default_rng(seed)
    tokens = [1, 2]
    for noise in random.random(count - 2):
        follows = (3 * tokens[-1] + tokens[-2] + 1) % TOKENS
        tokens.append(random.integers(TOKENS) if noise < 0.1 else follows)
    return np.array(tokens, np.uint16)


def test_journey(tmp_path):
    model = save(language_model(), tmp_path / "gpt.onnx")
    shards = np.array_split(text(12000, 0), 3)
    for i, shard in enumerate(shards):
        np.save(tmp_path / f"raw-{i}.npy", shard)
    shards[0].tofile(tmp_path / "train.bin")
    command = ["train", model, "--loss", "cross_entropy", "--data"]
    said = refused(INVALID, *command, f"idx={tmp_path}/train.bin")
    assert "numpy.fromfile" in said
    # One row of tokens is no batch. The error says how to cut it.
    raw = [f"idx={tmp_path}/raw-*.npy", "--data", f"target={tmp_path}/raw-*.npy"]
    said = refused(INVALID, *command, *raw)
    assert "got [4000] u16, the model wants [N,16] i64" in said
    advice = "idx[:len(idx) // 16 * 16].reshape(-1, 16)"
    assert advice in said and "batches of 0" not in said

    # As docs/data.md says, targets are the same tokens, shifted by one.
    for i, shard in enumerate([*shards, text(1500, 1)]):
        kept = (len(shard) - 1) // LENGTH * LENGTH
        np.savez(
            tmp_path / f"windows-{i}.npz",
            idx=shard[:kept].reshape(-1, LENGTH),
            target=shard[1 : kept + 1].reshape(-1, LENGTH),
        )
    run = [f"{tmp_path}/windows-[012].npz", "--val-data", tmp_path / "windows-3.npz"]
    run += ["--metric", "perplexity", "--best", "perplexity", "--batch-size", 30]
    run += ["--optimizer", "adamw", "--lr", 0.02, "--weight-decay", 0.1]
    run += ["--gradient-clip-val", 1, "--lr-scheduler", "cosine"]
    run += ["--warmup-steps", 10, "--min-lr", 0.002, "--precision", "bf16-mixed"]
    run += ["--checkpoint-dir", tmp_path / "ck", "--metrics", tmp_path / "m.jsonl"]
    output = tmp_path / "trained.onnx"
    mpctest.mpc_ok(*command, *run, "--epochs", 3, "--output", output)
    # Two more epochs.
    mpctest.mpc_ok(
        *(*command, *run, "--epochs", 5, "--output", output, "--resume", "auto")
    )
    events = mpctest.read_metrics(tmp_path / "m.jsonl")
    steps = [event for event in events if event["event"] == "train"]
    assert [event["step"] for event in steps] == list(range(1, 1 + 5 * 24))
    rates = [event["lr"] for event in steps]
    assert rates[4] == 0.01 and max(rates) == 0.02
    assert all(event["grad_norm"] > 0 for event in steps)

    # ONNX Runtime's scores give the same perplexity.
    with np.load(tmp_path / "windows-3.npz") as held:
        inputs, labels = held["idx"].astype(np.int64), held["target"].astype(int)
    (scores,) = onnxruntime.InferenceSession(output).run(None, {"idx": inputs})
    scores = scores - scores.max(axis=-1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    picked = np.take_along_axis(logs, labels[..., None], axis=-1)
    perplexity = float(np.exp(-picked.mean()))
    process = mpctest.mpc_ok(
        *("eval", output, "--data", tmp_path / "windows-3.npz"),
        *("--loss", "cross_entropy", "--metric", "perplexity"),
    )
    said = float(process.stdout.split("perplexity ")[1].split(",")[0])
    assert abs(said - perplexity) < 1e-3
    # Twelve equally probable tokens would have perplexity 12.
    assert perplexity < 3


def test_a_prompt_on_the_command_line(tmp_path):
    model = save(language_model(), tmp_path / "gpt.onnx")
    said = refused(INVALID, "run", model, "--input", "idx=1,2,3")
    assert "--input idx: 3 numbers given, but a sample of i64[batch,16] takes 16" in said
    prompt = ",".join(["1"] * 2 * LENGTH)
    process = mpctest.mpc_ok("run", model, "--input", f"idx={prompt}")
    assert "logits: f32 2x16x12" in process.stdout
    # A table row must be one sample's numbers. mpc reports that before
    # compilation.
    said = refused(
        2, "run", model, "--input", f"idx={prompt}", "-o", tmp_path / "o.csv"
    )
    assert "output 'logits' is 2x16x12; write .npy" in said
