"""A user trains a search from clicked pairs of query and item, without
negatives. The loss of the two towers treats the batch's other pairs as wrong.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
from onnx import helper

import mpctest
from journey import USAGE, linear, parameters, refused, save, save_arrays

WORDS, LENGTH, FEATURES, WIDTH = 50, 4, 6, 8


def tower_nodes(prefix=""):
    """Returns the nodes of the similarities of all queries and items:
    [batch,batch]."""
    node = helper.make_node
    words = f"{prefix}words.weight"
    return [
        node("Gather", [words, "query"], ["w"], "words"),
        node("ReduceMean", ["w"], ["bag"], "bag", axes=[1], keepdims=0),
        linear(f"{prefix}query", "bag", "q"),
        linear(f"{prefix}item", "item", "i"),
        node("LpNormalization", ["q"], ["qn"], "qn", axis=1),
        node("LpNormalization", ["i"], ["in"], "in", axis=1),
        node("Transpose", ["in"], ["it"], "turn", perm=[1, 0]),
        node("MatMul", ["qn", "it"], ["cosines"], "cosines"),
        node("Mul", ["cosines", "sharpness"], ["scores"], "scale"),
    ]


def values(prefix=""):
    random = np.random.default_rng(0)
    layers = parameters(random, query=(WIDTH, WIDTH), item=(WIDTH, FEATURES))
    layers["words.weight"] = random.normal(0, 1, (WORDS, WIDTH)).astype(np.float32)
    named = {prefix + name: value for name, value in layers.items()}
    return named | {"sharpness": np.float32(10)}


INPUTS = {
    "query": (np.int64, ["batch", LENGTH]),
    "item": (np.float32, ["batch", FEATURES]),
}


def towers():
    scores = {"scores": (np.float32, ["batch", "batch"])}
    return mpctest.make_model(tower_nodes(), INPUTS, scores, values())


def with_loss():
    """Returns the mean over the batch of -log softmax(scores)[i, i], as a
    scalar."""
    node = helper.make_node
    nodes = [
        *tower_nodes("towers."),
        node("LogSoftmax", ["scores"], ["logs"], "logs", axis=1),
        node("Shape", ["scores"], ["shape"], "shape", start=0, end=1),
        node("Squeeze", ["shape"], ["count"], "count"),
        node("Range", ["zero", "count", "one"], ["right"], "right"),
        node("Unsqueeze", ["right", "axis"], ["rows"], "rows"),
        node("GatherElements", ["logs", "rows"], ["own"], "own", axis=1),
        node("ReduceMean", ["own"], ["mean"], "mean", keepdims=0),
        node("Neg", ["mean"], ["loss"], "loss"),
    ]
    more = {"zero": np.array(0), "one": np.array(1), "axis": np.array([1])}
    loss = {"loss": (np.float32, [])}
    return mpctest.make_model(nodes, INPUTS, loss, values("towers.") | more)


def pairs(path, count, seed):
    """Writes pairs whose item is the mean of the query's words."""
    meaning = np.random.default_rng(5).normal(0, 1, (WORDS, FEATURES))
    random = np.random.default_rng(seed)
    query = random.integers(0, WORDS, (count, LENGTH))
    item = meaning[query].mean(1) + random.normal(0, 0.05, (count, FEATURES))
    return save_arrays(path, query=query, item=item.astype(np.float32))


def test_journey(tmp_path):
    model = save(with_loss(), tmp_path / "loss.onnx")
    train = pairs(tmp_path / "train.npz", 1000, 0)
    held = pairs(tmp_path / "held.npz", 120, 1)
    command = ["train", model, "--data", train, "--val-data", held]
    command += ["--optimizer", "adam", "--lr", 0.01, "--epochs", 6]
    command += ["--batch-size", 40]
    # mpc says how to declare a loss that the model computes.
    said = refused(USAGE, *command)
    assert "--loss output:loss" in said
    said = refused(USAGE, *command[:6])
    assert "--loss output:loss" in said
    weights = tmp_path / "towers.safetensors"
    process = mpctest.mpc_ok(*command, "--loss", "output:loss", "--output", weights)
    loss = float(process.stdout.split("evaluation: loss ")[1].split(" on")[0])
    assert loss < 0.7 * np.log(40)

    # The towers alone are a separate export, whose names have no prefix.
    alone = save(towers(), tmp_path / "towers.onnx")
    scores = tmp_path / "scores.npy"
    process = mpctest.mpc_ok(
        *("run", alone, "--weights", weights, "--data", held, "-o", scores)
    )
    assert "names are taken without 'towers.'" in process.stderr
    found = np.load(scores)
    assert found.shape == (120, 120)
    top = np.argsort(-found, axis=1)[:, :5]
    assert np.mean([i in row for i, row in enumerate(top)]) > 0.5
    # Only whole batches count. mpc reports the samples left over.
    process = mpctest.mpc_ok(
        *("eval", model, "--weights", weights, "--data", held),
        *("--loss", "output:loss", "--batch-size", 50),
    )
    assert "left out 20 samples that fill no batch" in process.stderr
