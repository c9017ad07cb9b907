"""A user trains on a citation graph in PyTorch Geometric's form: features of
all nodes, edges, and labels of a few nodes. The run matches PyTorch's.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest
from journey import linear, parameters, refused, save

NODES, FEATURES, CLASSES = 60, 6, 3
UNSUPPORTED, INVALID = 4, 3


def convolution(name, x, y, width):
    """Returns linear, then the mean over each node's in-neighbours."""
    node = helper.make_node
    return [
        linear(name, x, name + ".x"),
        node("Gather", [name + ".x", "source"], [name + ".m"], name + ".gather"),
        node("Mul", [name + ".x", "zero"], [name + ".0"], name + ".zeros"),
        node(
            *("ScatterND", [name + ".0", "places", name + ".m"], [name + ".s"]),
            *(name + ".scatter",),
            reduction="add",
        ),
        node("Mul", [name + ".s", "share"], [y], name + ".mean"),
    ]


def network(degrees, nodes=NODES, edges="edges"):
    """Returns the network with input `edge_index` [2, edges]. The nodes'
    degrees are constants."""
    first = [
        helper.make_node("Gather", ["edge_index", "0"], ["source"], "source", axis=0),
        helper.make_node("Gather", ["edge_index", "1"], ["to"], "to", axis=0),
        helper.make_node("Unsqueeze", ["to", "1"], ["places"], "places"),
    ]
    values = parameters(
        np.random.default_rng(0), l1=(8, FEATURES), l2=(CLASSES, 8)
    )
    values |= {"0": np.array(0), "1": np.array(1), "zero": np.float32(0)}
    values["share"] = (1 / degrees).astype(np.float32)[:, None]
    return mpctest.make_model(
        [
            *first,
            *convolution("l1", "x", "a", 8),
            helper.make_node("Relu", ["a"], ["r"], "relu"),
            *convolution("l2", "r", "scores", CLASSES),
        ],
        {
            "x": (np.float32, [nodes, FEATURES]),
            "edge_index": (np.int64, [2, edges]),
        },
        {"scores": (np.float32, [nodes, CLASSES])},
        values,
    )


def make_graph():
    """Most edges join nodes of one class. Each node has an edge to itself."""
    random = np.random.default_rng(1)
    labels = random.integers(0, CLASSES, NODES)
    edges = [(i, i) for i in range(NODES)]
    while len(edges) < 260:
        a, b = random.integers(0, NODES, 2)
        if labels[a] == labels[b] or random.random() < 0.1:
            edges += [(a, b), (b, a)]
    x = random.normal(0, 1, (NODES, FEATURES)).astype(np.float32)
    x[:, :CLASSES] += 0.7 * np.eye(CLASSES, dtype=np.float32)[labels]
    return x, np.array(edges).T, labels, random.random(NODES) < 0.4


@pytest.fixture(name="graph")
def fixture_graph(tmp_path):
    x, edges, labels, known = make_graph()
    for name, mask in (("train", known), ("held", ~known)):
        np.savez(
            tmp_path / f"{name}.npz",
            x=x,
            edge_index=edges,
            target=np.where(mask, labels, -100),
        )
    degrees = np.bincount(edges[1], minlength=NODES)
    return x, edges, labels, known, network(degrees, edges=edges.shape[1])


def train_in_torch(graph, steps, rate):
    """Returns the loss of each step of SGD, and the scores after them."""
    torch = pytest.importorskip("torch")
    x, edges, labels, known, model = graph
    weights = {
        init.name: torch.tensor(mpctest.numpy_helper.to_array(init)).double()
        for init in model.graph.initializer
        if init.name[:2] in ("l1", "l2")
    }
    for weight in weights.values():
        weight.requires_grad_()
    mean = torch.zeros(NODES, NODES, dtype=torch.double)
    for source, to in edges.T:
        mean[to, source] += 1
    mean /= mean.sum(1, keepdim=True)
    linear_of = torch.nn.functional.linear
    losses = []
    for step in range(steps + 1):
        h = mean @ linear_of(
            torch.tensor(x).double(), weights["l1.weight"], weights["l1.bias"]
        )
        scores = mean @ linear_of(h.relu(), weights["l2.weight"], weights["l2.bias"])
        if step == steps:
            return losses, scores.detach().numpy()
        loss = torch.nn.functional.cross_entropy(
            scores[known], torch.tensor(labels[known])
        )
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for weight in weights.values():
                weight -= rate * weight.grad
                weight.grad = None
    return None


def test_journey(graph, tmp_path):
    *_, labels, known, model = graph
    path = save(model, tmp_path / "gcn.onnx")
    command = ["train", path, "--data", tmp_path / "train.npz"]
    command += ["--val-data", tmp_path / "held.npz", "--loss", "cross_entropy"]
    command += ["--lr", 0.5, "--epochs", 30, "--metrics", tmp_path / "m.jsonl"]
    output = tmp_path / "trained.onnx"
    said = refused(UNSUPPORTED, *command, "--output", output)
    assert "NAME=none if the input is the same for all" in said
    # Nodes keep their order, because edges refer to them. No flag is needed.
    axes = ["--batch-axis", "edge_index=none"]
    process = mpctest.mpc_ok(*command, *axes, "--output", output)
    assert "warning" not in process.stderr
    losses, scores = train_in_torch(graph, 30, 0.5)
    found = mpctest.losses(mpctest.read_metrics(tmp_path / "m.jsonl"))
    np.testing.assert_allclose(found, losses, rtol=2e-4)
    right = (scores.argmax(1) == labels)[~known].mean()
    assert f"evaluation: accuracy {100 * right:.2f}%" in process.stdout
    # `mpc run` on all nodes gives the same scores.
    flags = [*axes, "--batch-axis", "x=none"]
    arrays = tmp_path / "scores.npy"
    mpctest.mpc_ok("run", output, "--data", tmp_path / "held.npz", *flags, "-o", arrays)
    np.testing.assert_allclose(np.load(arrays), scores, atol=1e-3)


def test_several_graphs_of_the_same_edges(graph, tmp_path):
    """Nodes of one graph must not join another graph's batch."""
    x, edges, labels, _, model = graph
    path = save(model, tmp_path / "gcn.onnx")
    np.savez(
        tmp_path / "two.npz",
        x=np.concatenate([x, x + 1]),
        edge_index=edges,
        target=np.concatenate([labels, labels]),
    )
    command = ["train", path, "--data", tmp_path / "two.npz", "--loss"]
    command += ["cross_entropy", "--batch-axis", "edge_index=none"]
    process = mpctest.mpc_ok(*command, "--output", tmp_path / "o.onnx")
    assert (
        "warning: input 'edge_index' is the same for every batch, but its "
        "values number the 60 samples of a batch" in process.stderr
    )
    assert "--no-shuffle keeps the samples in file order" in process.stderr
    process = mpctest.mpc_ok(
        *(*command, "--no-shuffle", "--output", tmp_path / "o.onnx")
    )
    assert "warning" not in process.stderr
