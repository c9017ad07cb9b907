"""Evaluation and the written model omit the random masks of a program, such as
DropPath and AlphaDropout from PyTorch's exporters.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import mpctest

MASKS = mpctest.DATA / "masks"
KINDS = (
    *("drop-path", "stochastic-depth", "stochastic-depth-batch", "dropout-2d"),
    *("alpha-dropout", "feature-alpha-dropout", "floor", "compare", "choose"),
)
EXPORTERS = ("torchscript", "dynamo", "dynamo-optimized")
FILES = [
    path.stem
    for kind in KINDS
    for exporter in EXPORTERS
    if (path := MASKS / f"{kind}-{exporter}.onnx").exists()
]
RANDOM = ("RandomUniform", "RandomUniformLike", "RandomNormalLike", "Bernoulli")
X = np.random.RandomState(0).standard_normal((8, 2, 2, 2)).astype(np.float32)


def compute(weights, x):
    """Returns the model's result without an effect of its mask."""
    matrix = weights["first.weight"][:, :, 0, 0]
    y = np.einsum("oi,bihw->bohw", matrix, x)
    y += weights["first.bias"][:, None, None]
    y = (y + np.tanh(y)).mean((2, 3))
    return y @ weights["last.weight"].T + weights["last.bias"]


def run(path, folder, *flags):
    model = onnx.load(path)
    return mpctest.run(model, {"x": X[:4]}, folder, *flags)["y"]


@pytest.mark.parametrize("name", FILES)
def test_masks_are_left_out(name, tmp_path):
    path = MASKS / f"{name}.onnx"
    results = [run(path, tmp_path, "--seed", seed) for seed in (1, 2)]
    np.testing.assert_array_equal(*results)
    expected = compute(mpctest.read_weights(path), X[:4])
    np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FILES)
def test_the_written_model_leaves_them_out(name, tmp_path):
    """ONNX Runtime computes the loss of mpc's own evaluation."""
    target = np.random.RandomState(1).randint(0, 3, 8)
    metrics, _ = mpctest.train(
        MASKS / f"{name}.onnx",
        {"x": X, "target": target},
        tmp_path,
        *("--loss", "softmax_cross_entropy", "--lr", "0.1", "--batch-size", "4"),
        *("--val-data", tmp_path / "data.npz"),
    )
    trained = tmp_path / "trained.onnx"
    ops = [node.op_type for node in onnx.load(trained).graph.node]
    assert not set(ops) & set(RANDOM)
    session = onnxruntime.InferenceSession(trained)
    scores = np.concatenate(
        [session.run(None, {"x": X[i : i + 4]})[0] for i in (0, 4)]
    )
    shifted = scores - scores.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    loss = -logs[np.arange(8), target].mean()
    (event,) = [m for m in metrics if m["event"] == "eval"]
    assert float(event["eval_loss"]) == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("name", ("drop-path-dynamo", "alpha-dropout-dynamo-optimized"))
def test_masks_stay_on_in_training(name, tmp_path):
    target = np.random.RandomState(1).randint(0, 3, 8)
    losses = []
    for seed in (1, 2):
        metrics, _ = mpctest.train(
            MASKS / f"{name}.onnx",
            {"x": X, "target": target},
            tmp_path,
            *("--loss", "softmax_cross_entropy", "--lr", "0"),
            *("--batch-size", "4", "--seed", seed),
        )
        losses.append(mpctest.losses(metrics))
    assert losses[0] != losses[1]


def make_alpha(p, element=np.float32):
    """Returns AlphaDropout of `p` as PyTorch's current exporter writes it."""
    alpha = 1.7580993408473766
    a = 1 / np.sqrt((alpha**2 * p + 1) * (1 - p))
    numbers = {
        "keep": 1 - p,
        "minus": -1,
        "low": alpha * a,
        "shift": alpha * a * p,
        "a": a,
    }
    nodes = [
        *(("Identity", "x", "same"), ("RandomUniformLike", "same", "u")),
        *(("Less", "u keep", "less"), ("CastLike", "less x", "b")),
        *(("Add", "b minus", "b1"), ("Mul", "b1 low", "b2")),
        *(("Add", "b2 shift", "bias"), ("Mul", "b a", "scale")),
        *(("Mul", "x scale", "kept"), ("Add", "kept bias", "y")),
    ]
    model = mpctest.make_model(
        [helper.make_node(op, i.split(), [o]) for op, i, o in nodes],
        {"x": (element, [4096])},
        {"y": (element, [4096])},
        {k: np.asarray(v, element) for k, v in numbers.items()},
    )
    return model, {k: float(v) for k, v in numbers.items()}


@pytest.mark.parametrize("element", (np.float32, np.float64))
def test_alpha_dropout_has_its_two_values(element, tmp_path):
    model, numbers = make_alpha(0.25, element)
    x = np.random.RandomState(0).standard_normal(4096).astype(element)
    y = mpctest.run(model, {"x": x}, tmp_path, "--as-exported")["y"]
    bound = 1e-5
    kept = numbers["a"] * x.astype(float) + numbers["shift"]
    isKept = np.abs(y - kept) < bound * (1 + np.abs(kept))
    assert 0.72 < isKept.mean() < 0.78
    rest = numbers["shift"] - numbers["low"]
    np.testing.assert_allclose(y[~isKept], rest, rtol=bound)
    # Evaluation drops nothing.
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(y, x)


def test_a_factor_of_the_program_stays(tmp_path):
    """The factor may be trained, and must not become part of the mask."""
    nodes = [
        *(("Mul", "x gamma", "scaled"), ("RandomUniformLike", "x", "u")),
        *(("Less", "u keep", "less"), ("CastLike", "less x", "b")),
        *(("Div", "b keep", "mask"), ("Mul", "scaled mask", "y")),
    ]
    model = mpctest.make_model(
        [helper.make_node(op, i.split(), [o]) for op, i, o in nodes],
        {"x": (np.float32, [4])},
        {"y": (np.float32, [4])},
        {"gamma": np.float32(3), "keep": np.float32(0.5)},
    )
    x = np.arange(4, dtype=np.float32)
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(y, 3 * x)


@pytest.mark.parametrize("says_so", (False, True))
def test_a_factor_that_is_a_parameter_is_trained(says_so, tmp_path):
    """The value of the factor is 1 at first. The file's metadata or its name
    says that it is a parameter."""
    name = "alpha" if says_so else "block.alpha"
    nodes = [
        *(("RandomUniformLike", "x", "u"), ("Less", "u keep", "less")),
        *(("CastLike", "less x", "b"), ("Mul", f"b {name}", "scaled")),
        *(("Div", "scaled keep", "mask"), ("Mul", "x mask", "y")),
        ("ReduceSum", "y", "loss"),
    ]
    model = mpctest.make_model(
        [helper.make_node(op, i.split(), [o]) for op, i, o in nodes],
        {"x": (np.float32, [8, 4])},
        {"loss": (np.float32, [1, 1])},
        {name: np.float32(1), "keep": np.float32(0.5)},
    )
    if says_so:
        entry = model.graph.metadata_props.add()
        entry.key = "pkg.torch.export.ExportedProgram.graph_signature"
        entry.value = f"p_{name}: PARAMETER target='{name}'\nx: USER_INPUT"
    _, weights = mpctest.train(
        *(model, {"x": np.ones((8, 4), np.float32)}, tmp_path),
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--max-steps", "2", "--train", name),
    )
    assert weights[name] < 1


@pytest.mark.parametrize(
    "name", ("noise-torchscript", "noise-dynamo", "unscaled-torchscript")
)
def test_other_random_numbers_are_named(name, tmp_path):
    path = MASKS / f"{name}.onnx"
    results = [run(path, tmp_path, "--seed", seed) for seed in (1, 2)]
    assert not np.array_equal(*results)
    process = mpctest.mpc(
        *("run", path, "--input", f"x=@{tmp_path / 'input0.npy'}"),
        *("--output", tmp_path / "y.npz"),
    )
    node = next(n for n in onnx.load(path).graph.node if n.op_type in RANDOM)
    assert "draws random numbers in evaluation, too" in process.stderr
    assert f"node '{node.name}'" in process.stderr


@pytest.mark.parametrize("name", ("unscaled-torchscript", "drop-path-torchscript"))
@pytest.mark.parametrize("command", ("eval", "run", "train"))
def test_every_command_says_what_to_do_about_them(command, name, tmp_path):
    """Once, also for the evaluations and the written model of a training run."""
    path = MASKS / f"{name}.onnx"
    target = np.random.RandomState(1).randint(0, 3, 8)
    np.savez(tmp_path / "data.npz", x=X, target=target)
    data = ("--data", tmp_path / "data.npz", "--loss", "softmax_cross_entropy")
    flags = {
        "eval": data,
        "run": ("--input", f"x=@{tmp_path / 'x.npy'}"),
        "train": (
            *(*data, "--val-data", tmp_path / "data.npz", "--max-steps", "1"),
            *("--output", tmp_path / "trained.onnx"),
        ),
    }
    np.save(tmp_path / "x.npy", X[:4])
    process = mpctest.mpc_ok(command, path, *flags[command])
    node = next(n for n in onnx.load(path).graph.node if n.op_type in RANDOM)
    warning = f"warning: {path}: node '{node.name}'"
    is_mask = name != "unscaled-torchscript"
    assert process.stderr.count(warning) == (0 if is_mask else 1), process.stderr
    assert ("name it with --export-model in training" in process.stderr) != is_mask


@pytest.mark.parametrize("second", ("Less", "GreaterOrEqual"))
def test_two_masks_of_the_same_numbers_stay(second, tmp_path):
    """The two masks together equal one mask, or hide everything."""
    nodes = [
        *(("RandomUniformLike", "x", "u"), ("Less", "u half", "less")),
        *((second, "u half", "more"), ("CastLike", "less x", "b")),
        *(("CastLike", "more x", "c"), ("Mul", "x b", "once")),
        *(("Mul", "once c", "twice"), ("Div", "twice half", "y")),
    ]
    model = mpctest.make_model(
        [helper.make_node(op, i.split(), [o]) for op, i, o in nodes],
        {"x": (np.float32, [4096])},
        {"y": (np.float32, [4096])},
        {"half": np.float32(0.5)},
    )
    y = mpctest.run(model, {"x": np.ones(4096, np.float32)}, tmp_path)["y"]
    isKept = (y != 0).mean()
    assert isKept == 0 if second == "GreaterOrEqual" else 0.45 < isKept < 0.55


def test_a_mask_that_others_read_stays(tmp_path):
    """The graph's own gradient uses the mask of its forward pass."""
    model, _ = make_alpha(0.25)
    model.graph.output.append(
        helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [4096])
    )
    x = np.random.RandomState(0).standard_normal(4096).astype(np.float32)
    outputs = mpctest.run(model, {"x": x}, tmp_path)
    isKept = outputs["b"] != 0
    assert 0.72 < isKept.mean() < 0.78
    assert len(np.unique(outputs["y"][~isKept])) == 1


def drop_path(opset=17, x="x", y="y"):
    """Returns x / 0.75 * floor(0.75 + u), with a number u for each sample, also
    in old opsets."""
    u = helper.make_node("RandomUniform", [], ["u"], shape=[8, 1], dtype=1)
    return [
        u,
        helper.make_node("Add", ["u", "keep"], ["sum"]),
        helper.make_node("Floor", ["sum"], ["b"]),
        helper.make_node("Div", [x, "keep"], ["more"]),
        helper.make_node("Mul", ["more", "b"], [y]),
    ]


KEEP = {"keep": np.float32(0.75)}


def run_rows(model, folder, *flags):
    x = np.arange(1, 17, dtype=np.float32).reshape(8, 2)
    return x, mpctest.run(model, {"x": x}, folder, *flags)["y"]


@pytest.mark.parametrize("opset", (9, 11, 12, 17))
def test_masks_of_old_opsets(opset, tmp_path):
    model = mpctest.make_model(
        drop_path(opset),
        {"x": (np.float32, [8, 2])},
        {"y": (np.float32, [8, 2])},
        KEEP,
        opset,
    )
    x, y = run_rows(model, tmp_path)
    np.testing.assert_array_equal(y, x)


def test_a_mask_in_a_branch(tmp_path):
    info = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [8, 2])
    same = helper.make_node("Identity", ["x"], ["z"])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "keep"], ["large"]),
        helper.make_node(
            *("If", ["large"], ["y"]),
            then_branch=helper.make_graph(drop_path(y="z"), "then", [], [info]),
            else_branch=helper.make_graph([same], "else", [], [info]),
        ),
    ]
    model = mpctest.make_model(
        nodes, {"x": (np.float32, [8, 2])}, {"y": (np.float32, [8, 2])}, KEEP
    )
    x, y = run_rows(model, tmp_path)
    np.testing.assert_array_equal(y, x)


def test_a_mask_in_a_function(tmp_path):
    number = helper.make_tensor("value", onnx.TensorProto.FLOAT, [], [0.75])
    constant = helper.make_node("Constant", [], ["keep"], value=number)
    function = helper.make_function(
        *("own", "DropPath", ["a"], ["c"], [constant, *drop_path(x="a", y="c")]),
        [helper.make_opsetid("", 17)],
    )
    model = mpctest.make_model(
        [helper.make_node("DropPath", ["x"], ["y"], domain="own")],
        {"x": (np.float32, [8, 2])},
        {"y": (np.float32, [8, 2])},
        {},
    )
    model.functions.append(function)
    x, y = run_rows(model, tmp_path)
    np.testing.assert_array_equal(y, x)


def drop_block(scale):
    """Returns timm's DropBlock2d: it drops blocks around a few positions and
    scales up the rest."""
    nodes = [
        *(("RandomUniformLike", "x", "u"), ("Less", "u gamma", "less")),
        *(("Cast", "less", "b"), ("MaxPool", "b", "blocks")),
        *(("Sub", "one blocks", "kept"), ("ReduceSum", "kept", "count")),
        *(("Div", "all count", "more"), ("Mul", "kept more", "mask")),
        ("Mul", "x mask" if scale else "x kept", "y"),
    ]
    flags = {
        "Cast": {"to": 1},
        "MaxPool": {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [1, 1]},
        "ReduceSum": {"keepdims": 0},
    }
    shape = [2, 3, 8, 8]
    return mpctest.make_model(
        [
            helper.make_node(op, i.split(), [o], **flags.get(op, {}))
            for op, i, o in nodes
        ],
        {"x": (np.float32, shape)},
        {"y": (np.float32, shape)},
        {
            "gamma": np.float32(0.05),
            "one": np.float32(1),
            "all": np.float32(np.prod(shape)),
        },
    )


@pytest.mark.parametrize("scale", (True, False))
def test_blocks_are_dropped_in_training_alone(scale, tmp_path):
    x = np.ones((2, 3, 8, 8), np.float32)
    model = drop_block(scale)
    y = mpctest.run(model, {"x": x}, tmp_path, "--as-exported")["y"]
    kept = y != 0
    assert 0.4 < kept.mean() < 0.9
    expected = kept.size / kept.sum() if scale else 1
    np.testing.assert_allclose(y[kept], expected, rtol=1e-5)
    # A block is three wide.
    hidden = ~kept
    rows = np.pad(hidden, ((0, 0), (0, 0), (0, 0), (1, 1)))
    assert (rows[..., :-2] | rows[..., 2:])[hidden].all()
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("inverted", (False, True))
def test_whole_samples_are_dropped_without_a_scale(inverted, tmp_path):
    """Covers timm's DropPath with scale_by_keep=False."""
    choice = ["b", "zero", "x"] if inverted else ["b", "x", "zero"]
    nodes = [
        helper.make_node("RandomUniform", [], ["u"], shape=[8, 1], dtype=1),
        helper.make_node("Less", ["u", "keep"], ["b"]),
        helper.make_node("Where", choice, ["y"]),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [8, 2])},
        {"y": (np.float32, [8, 2])},
        {**KEEP, "zero": np.float32(0)},
    )
    x, y = run_rows(model, tmp_path)
    np.testing.assert_array_equal(y, x)
    x, y = run_rows(model, tmp_path, "--as-exported", "--seed", "3")
    kept = y[:, 0] != 0
    assert 0 < kept.sum() < 8
    np.testing.assert_allclose(y, x * kept[:, None], rtol=1e-6)
