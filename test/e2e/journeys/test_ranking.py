"""A user trains on triplets of an anchor, a similar and a dissimilar sample.
The model computes the loss from three inputs.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
from onnx import helper

import mpctest
from journey import linear, parameters, save

INPUTS = ["anchor", "positive", "negative"]


def triplet_model(path, read):
    """Returns the mean of max(0, |a - p|² - |a - n|² + 1) with embeddings by
    one layer. `read` names the inputs for a, p and n."""
    nodes = [linear("embed", name, f"e{i}") for i, name in enumerate(read)]
    for node, i in zip(nodes, range(3)):
        node.name = f"embed{i}"
    for i in (1, 2):
        nodes += [
            helper.make_node("Sub", ["e0", f"e{i}"], [f"d{i}"], f"sub{i}"),
            helper.make_node("Mul", [f"d{i}", f"d{i}"], [f"s{i}"], f"mul{i}"),
            helper.make_node(
                "ReduceSum", [f"s{i}", "axis"], [f"q{i}"], f"sum{i}", keepdims=0
            ),
        ]
    nodes += [
        helper.make_node("Sub", ["q1", "q2"], ["m"], "margin"),
        helper.make_node("Add", ["m", "one"], ["a"], "add"),
        helper.make_node("Relu", ["a"], ["r"], "hinge"),
        helper.make_node("ReduceMean", ["r"], ["loss"], "mean", keepdims=0),
    ]
    values = parameters(np.random.default_rng(0), embed=(3, 6))
    values |= {"axis": np.array([1]), "one": np.float32(1)}
    model = mpctest.make_model(
        nodes,
        {name: (np.float32, ["N", 6]) for name in INPUTS},
        {"loss": (np.float32, [])},
        values,
    )
    return save(model, path)


def make_data(path):
    random = np.random.default_rng(1)
    centres = random.normal(0, 2, (4, 6))
    label = random.integers(0, 4, 120)
    other = (label + random.integers(1, 4, 120)) % 4
    rows = {"anchor": label, "positive": label, "negative": other}
    np.savez(
        path,
        **{
            name: (centres[r] + random.normal(0, 0.3, (120, 6))).astype(np.float32)
            for name, r in rows.items()
        },
    )
    return path


FLAGS = ["--loss", "output:loss", "--batch-size", 20, "--optimizer", "adam"]
FLAGS += ["--lr", 0.01, "--epochs", 10]


def test_journey(tmp_path):
    data = make_data(tmp_path / "data.npz")
    # An exporter that was given one tensor three times writes this model.
    model = triplet_model(tmp_path / "one.onnx", ["negative"] * 3)
    told = mpctest.mpc_ok("train", model, "--data", data, *FLAGS)
    assert (
        "inputs 'anchor', 'positive' are not read by any node, so the data "
        "for them has no effect" in told.stderr
    )
    # The exporter was given three tensors and writes three inputs.
    model = triplet_model(tmp_path / "three.onnx", INPUTS)
    metrics, _ = mpctest.train(model, data, tmp_path, *FLAGS)
    losses = mpctest.losses(metrics)
    assert losses[-1] < 0.2 * losses[0]
    told = mpctest.mpc_ok("check", model, "--batch-size", 20, *FLAGS[:2])
    assert "not read by any node" not in told.stderr + told.stdout
