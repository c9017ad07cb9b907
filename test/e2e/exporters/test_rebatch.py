"""--batch-size changes the batch of a model exported with a fixed batch. The
result equals an export with the requested batch.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mpctest

TIME, HEADS, DEPTH, CLASSES = 3, 2, 4, 5
WIDTH = HEADS * DEPTH


def normal(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def attention(batch):
    """Returns PyTorch's self-attention, time first, with a class token shared
    by all samples. Six constants hold the batch."""
    node = helper.make_node
    length = TIME + 1
    shapes = {
        "token_shape": [batch, 1, WIDTH],
        "rows": [length * batch, WIDTH],
        "heads": [length, batch * HEADS, DEPTH],
        "joined": [length, batch, WIDTH],
        "matrix": [batch, -1],
        "square": [batch * HEADS, length, DEPTH],
    }
    nodes = [
        node("Expand", ["token", "token_shape"], ["tokens"], "expand"),
        node("Concat", ["tokens", "x"], ["long"], "concat", axis=1),
        node("Transpose", ["long"], ["first"], "turn", perm=[1, 0, 2]),
        node("Reshape", ["first", "rows"], ["flat"], "flatten"),
        node("Gemm", ["flat", "w", "b"], ["projected"], "project"),
        node("Reshape", ["projected", "heads"], ["split"], "split"),
        node("Transpose", ["split"], ["q"], "heads", perm=[1, 0, 2]),
        node("Transpose", ["split"], ["k"], "keys", perm=[1, 2, 0]),
        node("MatMul", ["q", "k"], ["scores"], "scores"),
        node("Softmax", ["scores"], ["weights"], "softmax", axis=-1),
        node("MatMul", ["weights", "q"], ["mixed"], "mix"),
        node("Reshape", ["mixed", "square"], ["same"], "same"),
        node("Transpose", ["same"], ["back"], "back", perm=[1, 0, 2]),
        node("Reshape", ["back", "joined"], ["merged"], "merge"),
        node("Transpose", ["merged"], ["samples"], "unturn", perm=[1, 0, 2]),
        node("Reshape", ["samples", "matrix"], ["features"], "features"),
        node("MatMul", ["features", "head"], ["y"], "head"),
    ]
    weights = {
        "token": normal(1, 1, 1, WIDTH),
        "w": normal(2, WIDTH, WIDTH),
        "b": normal(3, WIDTH),
        "head": normal(4, length * WIDTH, CLASSES),
    }
    constants = {k: np.array(v, np.int64) for k, v in shapes.items()}
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, [batch, TIME, WIDTH])},
        {"y": (np.float32, [batch, CLASSES])},
        {**weights, **constants},
    )


@pytest.mark.parametrize("exported", [1, 2, 4])
def test_runs_as_exported_with_that_batch(exported, tmp_path):
    inputs = {"x": normal(5, 6, TIME, WIDTH)}
    (tmp_path / "a").mkdir()
    expected = mpctest.run(attention(6), inputs, tmp_path / "a")["y"]
    actual = mpctest.run(
        attention(exported), inputs, tmp_path, "--batch-size", "6"
    )["y"]
    np.testing.assert_array_equal(actual, expected)


def test_trains_as_exported_with_that_batch(tmp_path):
    data = {"x": normal(6, 12, TIME, WIDTH), "target": np.arange(12) % CLASSES}
    flags = ("--loss", "softmax_cross_entropy", "--lr", "0.1")
    expected, _ = mpctest.train(attention(4), data, tmp_path / "a", *flags)
    actual, weights = mpctest.train(
        attention(1), data, tmp_path / "b", *flags, "--batch-size", "4"
    )
    assert mpctest.losses(actual) == mpctest.losses(expected)
    # The written file keeps the model's own batch and works with it.
    onnx.checker.check_model(tmp_path / "b" / "trained.onnx")
    assert weights["rows"].tolist() == [TIME + 1, WIDTH]
    trained = onnx.load(tmp_path / "b" / "trained.onnx")
    one = {"x": normal(7, 1, TIME, WIDTH)}
    assert mpctest.run(trained, one, tmp_path)["y"].shape == (1, CLASSES)


def test_running_more_samples_says_what_keeps_the_batch(tmp_path):
    """The message has a clause for each node that fixes the batch, and a clause
    with the remedy."""
    model = mpctest.make_model(
        [
            helper.make_node("Add", ["x", "noise"], ["s"], "add_noise"),
            helper.make_node("Mul", ["x", "noise"], ["y"], "scale"),
        ],
        {"x": (np.float32, [4, 3])},
        {"s": (np.float32, [4, 3]), "y": (np.float32, [4, 3])},
        {"noise": normal(1, 4, 3)},
    )
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.zeros((8, 3), np.float32))
    process = mpctest.mpc(
        "run", tmp_path / "m.onnx", "--input", f"x={tmp_path / 'x.npy'}"
    )
    assert process.returncode == 4
    findings = process.stderr.split("; ")
    assert "the batch axis of the outputs is unknown: " in findings[0]
    assert "node 'add_noise' (Add)" in findings[0]
    assert "node 'scale' (Mul)" in findings[1]
    assert "exported for a batch of 4" in findings[2]


def test_says_which_node_keeps_the_batch(tmp_path):
    """A constant with a row for every sample cannot be extended."""
    model = mpctest.make_model(
        [
            helper.make_node("Add", ["x", "noise"], ["s"], "add_noise"),
            helper.make_node("MatMul", ["s", "w"], ["y"], "fc"),
        ],
        {"x": (np.float32, [4, 3])},
        {"y": (np.float32, [4, 2])},
        {"noise": normal(1, 4, 3), "w": normal(2, 3, 2)},
    )
    onnx.save(model, tmp_path / "m.onnx")
    process = mpctest.mpc("check", tmp_path / "m.onnx", "--batch-size", "8")
    assert process.returncode == 1
    text = process.stdout + process.stderr
    assert "node 'add_noise' (Add)" in text
    assert "exported for a batch of 4" in text
    assert "--accumulate-grad-batches 2" in text
    # Without training, the message must not suggest a training flag.
    x = np.zeros((8, 3), np.float32)
    np.save(tmp_path / "x.npy", x)
    process = mpctest.mpc(
        *("run", tmp_path / "m.onnx", "--batch-size", "8"),
        *("--input", f"x={tmp_path / 'x.npy'}"),
    )
    assert process.returncode == 4
    assert "or leave --batch-size out and run it on 4 samples at a time" in (
        process.stderr
    )
    assert "--accumulate-grad-batches" not in process.stderr
    # The suggested remedy works.
    np.save(tmp_path / "x.npy", x[:4])
    process = mpctest.mpc(
        "run", tmp_path / "m.onnx", "--input", f"x={tmp_path / 'x.npy'}"
    )
    assert process.returncode == 0, process.stderr


def test_parts_of_the_batch_are_refused(tmp_path):
    """Slicing the first sample means something else in a larger batch."""
    model = mpctest.make_model(
        [
            helper.make_node("Slice", ["x", "from", "to"], ["s"], "first"),
            helper.make_node("MatMul", ["s", "w"], ["y"], "fc"),
        ],
        {"x": (np.float32, [1, 3])},
        {"y": (np.float32, [1, 2])},
        {
            "from": np.array([0]),
            "to": np.array([1]),
            "w": normal(2, 3, 2),
        },
    )
    onnx.save(model, tmp_path / "m.onnx")
    process = mpctest.mpc(
        *("compile", tmp_path / "m.onnx", "--batch-size", "8"),
        *("-o", tmp_path / "m.mpc"),
    )
    assert process.returncode == 4
    assert "node 'first' (Slice): it takes a part of the batch" in process.stderr


def rows_of_one_sample(*nodes):
    """Returns a model that reshapes [1, time, 8] to [time, 8], applies `nodes`
    from "a" to "b", and reshapes back."""
    return mpctest.make_model(
        [
            helper.make_node("Reshape", ["x", "merged"], ["a"]),
            *nodes,
            helper.make_node("Reshape", ["b", "apart"], ["y"]),
        ],
        {"x": (np.float32, [1, 4, 8])},
        {"y": (np.float32, [1, 4, 8])},
        {
            "merged": np.array([4, 8]),
            "apart": np.array([1, 4, 8]),
            "first": np.array([0]),
            "all": np.array([0, 1]),
        },
    )


JOINING = {
    "softmax": [helper.make_node("Softmax", ["a"], ["b"], "join", axis=0)],
    "mean": [
        helper.make_node("ReduceMean", ["a", "first"], ["m"], "join"),
        helper.make_node("Sub", ["a", "m"], ["b"]),
    ],
    "scalar": [
        helper.make_node("ReduceMean", ["a", "all"], ["m"]),
        helper.make_node("Neg", ["m"], ["n"]),
        helper.make_node("Add", ["a", "n"], ["b"], "join"),
    ],
}


@pytest.mark.parametrize("how", JOINING)
def test_rows_of_samples_are_not_joined_by_themselves(how, tmp_path):
    """With a batch of 1, it is unknown if the nodes should join the rows of
    each sample only."""
    onnx.save(rows_of_one_sample(*JOINING[how]), tmp_path / "m.onnx")
    process = mpctest.mpc(
        *("compile", tmp_path / "m.onnx", "--batch-size", "8"),
        *("-o", tmp_path / "m.mpc"),
    )
    assert process.returncode == 4
    assert "node 'join'" in process.stderr


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("op", ["Div", "Mul"])
def test_a_sum_over_samples_is_not_divided_by_the_old_batch(
    batch, op, tmp_path
):
    """Covers x - x.sum(0) / x.shape[0] with the batch as a constant."""
    factor = batch if op == "Div" else 1 / batch
    model = mpctest.make_model(
        [
            helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=1),
            helper.make_node(op, ["s", "factor"], ["mean"], "average"),
            helper.make_node("Sub", ["x", "mean"], ["y"]),
        ],
        {"x": (np.float32, [batch, 3])},
        {"y": (np.float32, [batch, 3])},
        {"axes": np.array([0]), "factor": np.float32(factor)},
    )
    onnx.save(model, tmp_path / "m.onnx")
    process = mpctest.mpc(
        *("compile", tmp_path / "m.onnx", "--batch-size", "8"),
        *("-o", tmp_path / "m.mpc"),
    )
    assert process.returncode == 4
    assert "node 'average'" in process.stderr


def test_each_row_by_itself_may_be_normalised(tmp_path):
    model = rows_of_one_sample(
        helper.make_node("Softmax", ["a"], ["b"], axis=1)
    )
    x = normal(3, 2, 4, 8)
    y = mpctest.run(model, {"x": x}, tmp_path, "--batch-size", "2")["y"]
    expected = np.exp(x) / np.exp(x).sum(2, keepdims=True)
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_an_axis_of_one_before_the_batch_is_none(tmp_path):
    """torch.stack of two inputs puts the batch on the second axis."""
    model = mpctest.make_model(
        [
            helper.make_node("Unsqueeze", ["a", "first"], ["a1"]),
            helper.make_node("Unsqueeze", ["b", "first"], ["b1"]),
            helper.make_node("Concat", ["a1", "b1"], ["s"], axis=0),
            helper.make_node("ReduceMax", ["s"], ["y"], axes=[0], keepdims=0),
        ],
        {"a": (np.float32, [1, 3]), "b": (np.float32, [1, 3])},
        {"y": (np.float32, [1, 3])},
        {"first": np.array([0])},
    )
    a, b = normal(4, 5, 3), normal(5, 5, 3)
    inputs = {"a": a, "b": b}
    y = mpctest.run(model, inputs, tmp_path, "--batch-size", "5")["y"]
    np.testing.assert_array_equal(y, np.maximum(a, b))


def test_integers_tell_the_batch(tmp_path):
    model = mpctest.make_model(
        [
            helper.make_node("Cast", ["x"], ["f"], to=onnx.TensorProto.FLOAT),
            helper.make_node("MatMul", ["f", "w"], ["y"]),
        ],
        {"x": (np.int64, ["N", 3])},
        {"y": (np.float32, ["N", 2])},
        {"w": np.ones((3, 2), np.float32)},
    )
    x = np.arange(12).reshape(4, 3)
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(y, np.repeat(x.sum(1, keepdims=True), 2, 1))


def test_indices_of_samples_are_refused(tmp_path):
    """x[arange(1), at] would take the first sample's row for every sample."""
    model = mpctest.make_model(
        [
            helper.make_node("Unsqueeze", ["at", "last"], ["column"], "column"),
            helper.make_node("Concat", ["all", "column"], ["rows"], "rows", axis=1),
            helper.make_node("GatherND", ["x", "rows"], ["y"], "pool"),
        ],
        {"x": (np.float32, [1, 4, 3]), "at": (np.int64, [1])},
        {"y": (np.float32, [1, 3])},
        {"last": np.array([1]), "all": np.array([[0]])},
    )
    onnx.save(model, tmp_path / "m.onnx")
    process = mpctest.mpc("check", tmp_path / "m.onnx", "--batch-size", "8")
    assert process.returncode == 1
    text = process.stdout + process.stderr
    assert "node 'pool' (GatherND): its indices are positions of samples" in text


@pytest.mark.parametrize("exported, wanted", [(1, 8), (4, 8), (4, 2)])
def test_elements_of_the_exported_batch_alone_are_refused(
    exported, wanted, tmp_path
):
    model = mpctest.make_model(
        [helper.make_node("GatherElements", ["x", "i"], ["y"], "pick", axis=1)],
        {"x": (np.float32, [exported, 4])},
        {"y": (np.float32, [exported, 2])},
        {"i": np.zeros((exported, 2), np.int64)},
    )
    onnx.save(model, tmp_path / "m.onnx")
    process = mpctest.mpc(
        "check", tmp_path / "m.onnx", "--batch-size", str(wanted)
    )
    assert process.returncode == 1
    assert "node 'pick' (GatherElements)" in process.stdout + process.stderr


def test_a_constant_of_the_exported_batch_does_not_multiply_one_sample(
    tmp_path,
):
    """A batch of 1 would broadcast to the constant's 3 rows."""
    model = mpctest.make_model(
        [helper.make_node("Mul", ["x", "scale"], ["y"], "weigh")],
        {"x": (np.float32, [3, 4])},
        {"y": (np.float32, [3, 4])},
        {"scale": normal(0, 3, 1)},
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc(
        *("explain", tmp_path / "model.onnx", "--batch-size", "1")
    )
    assert process.returncode == 4
    assert "node 'weigh' (Mul): it combines one sample" in process.stderr


def scaled(batch, op, number, width=4):
    """Returns a model that multiplies x by its batch, or by another number,
    before a layer."""
    return mpctest.make_model(
        [
            helper.make_node(op, ["x", "number"], ["scaled"], "scale"),
            helper.make_node("MatMul", ["scaled", "w"], ["y"], "fc"),
        ],
        {"x": (np.float32, [batch, width])},
        {"y": (np.float32, [batch, 2])},
        {"number": np.float32(number), "w": normal(0, width, 2)},
    )


WARNING = "node 'scale' ({}) has the number {} or its inverse"


def check(model, folder, batch="32"):
    onnx.save(model, folder / "m.onnx")
    process = mpctest.mpc_ok(
        "check", folder / "m.onnx", "--batch-size", batch
    )
    return process.stdout + process.stderr


@pytest.mark.parametrize(
    "op, batch, number",
    [
        *(("Mul", 5, 5), ("Div", 5, 5), ("Add", 5, 5), ("Sub", 5, 5)),
        *(("Mul", 8, 0.125), ("Mul", 3, 1 / 3)),
    ],
)
def test_numbers_that_may_mean_the_batch_are_named(op, batch, number, tmp_path):
    """PyTorch writes x * x.shape[0] of a fixed batch as a constant."""
    text = check(scaled(batch, op, number), tmp_path)
    assert text.count(WARNING.format(op, batch)) == 1, text
    assert "results for a batch of 32 are wrong" in text
    assert "dynamic batch dimension" in text


@pytest.mark.parametrize(
    "batch, number, width, wanted",
    [
        (5, 5, 4, "5"),  # the batch of the export
        (5, 4, 4, "32"),
        (1, 1, 4, "32"),
        (2, 2, 4, "32"),
        (8, 0.125, 64, "32"),  # the root of a head's size
        (8, 0.125, 128, "32"),  # two heads
    ],
)
def test_other_numbers_are_not_named(batch, number, width, wanted, tmp_path):
    model = scaled(batch, "Mul", number, width)
    assert "or its inverse" not in check(model, tmp_path, wanted)


def test_a_batch_that_is_read_from_a_shape_is_not_named(tmp_path):
    """The factor read from the shape adapts by itself. mpc names a factor of
    the loss, and no factor that does not depend on samples."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["n"]),
        node("Cast", ["n"], ["batch"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["x", "batch"], ["scaled"], "by_shape"),
        node("Mul", ["w", "four"], ["large"], "of_weights"),
        node("MatMul", ["scaled", "large"], ["z"]),
        node("ReduceMean", ["z"], ["mean"], keepdims=0),
        node("Mul", ["mean", "four"], ["y"], "of_loss"),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [4, 3])},
        {"y": (np.float32, [])},
        {"first": np.int64(0), "four": np.float32(4), "w": normal(0, 3, 2)},
    )
    text = check(model, tmp_path)
    assert "node 'of_loss' (Mul) has the number 4" in text
    assert "by_shape" not in text and "of_weights" not in text
    x = normal(1, 8, 3)
    y = mpctest.run(model, {"x": x}, tmp_path, "--batch-size", "8")["y"]
    expected = np.mean(x @ (4 * normal(0, 3, 2))) * 8 * 4
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def masked(batch, late=False):
    """Returns attention over four positions with a causal mask computed in the
    model, as PyTorch exports torch.full((4, 4), -9).triu(1)."""
    node = helper.make_node
    mask = [
        node("Expand", ["minus", "square"], ["full"], "full"),
        node("Trilu", ["full", "one"], ["mask"], "triu", upper=1),
    ]
    scores = [
        node("MatMul", ["x", "w"], ["q"], "q"),
        node("Transpose", ["q"], ["k"], "k", perm=[0, 2, 1]),
        node("MatMul", ["q", "k"], ["scores"], "scores"),
    ]
    nodes = (scores + mask if late else mask + scores) + [
        node("Add", ["scores", "mask"], ["masked"], "add"),
        node("Softmax", ["masked"], ["weights"], "softmax", axis=-1),
        node("MatMul", ["weights", "q"], ["y"], "mix"),
    ]
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, [batch, 4, 3])},
        {"y": (np.float32, [batch, 4, 5])},
        {
            "w": normal(1, 3, 5),
            "minus": np.float32(-9).reshape(()),
            "square": np.array([4, 4], np.int64),
            "one": np.int64(1).reshape(()),
        },
    )


@pytest.mark.parametrize("late", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("wanted", [1, 6])
def test_a_mask_of_as_many_positions_as_samples_stays(wanted, late, tmp_path):
    inputs = {"x": normal(2, wanted, 4, 3)}
    (tmp_path / "a").mkdir()
    expected = mpctest.run(masked(wanted), inputs, tmp_path / "a")["y"]
    batch = ("--batch-size", str(wanted))
    actual = mpctest.run(masked(4, late=late), inputs, tmp_path, *batch)["y"]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("late", [False, True], ids=["before", "behind"])
def test_a_bias_of_as_many_positions_as_samples_stays(late, tmp_path):
    """The bias is no triangle. The scores have one axis more, so the bias
    belongs to positions."""

    def model(batch):
        graph = masked(batch, late=late)
        triu = [n for n in graph.graph.node if n.op_type == "Trilu"][0]
        triu.CopyFrom(helper.make_node("Neg", ["full"], ["mask"], "neg"))
        return graph

    inputs = {"x": normal(2, 6, 4, 3)}
    (tmp_path / "a").mkdir()
    expected = mpctest.run(model(6), inputs, tmp_path / "a")["y"]
    actual = mpctest.run(model(4), inputs, tmp_path, "--batch-size", "6")["y"]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("wanted", [1, 6])
def test_a_bias_beside_an_input_of_the_model_stays(wanted, tmp_path):
    """The scores are an input of the model, and the sum is the first node that
    reads them."""
    node = helper.make_node
    model = mpctest.make_model(
        [
            node("Expand", ["minus", "square"], ["full"], "full"),
            node("Neg", ["full"], ["mask"], "neg"),
            node("Add", ["scores", "mask"], ["y"], "add"),
        ],
        {"scores": (np.float32, [4, 4, 4])},
        {"y": (np.float32, [4, 4, 4])},
        {
            "minus": np.float32(-9).reshape(()),
            "square": np.array([4, 4], np.int64),
        },
    )
    scores = normal(2, wanted, 4, 4)
    batch = ("--batch-size", str(wanted))
    y = mpctest.run(model, {"scores": scores}, tmp_path, *batch)["y"]
    np.testing.assert_array_equal(y, scores + np.float32(9))


def started(start, layer=None):
    """Returns a model that expands a constant of batch 4 to the samples
    present. PyTorch's older exporter writes an LSTM's initial state this
    way."""
    node = helper.make_node
    value = numpy_helper.from_array(start)
    nodes = [
        node("Constant", [], ["start"], "start", value=value),
        node("Shape", ["x"], ["shape"], "shape"),
        node("Gather", ["shape", "zero"], ["samples"], "samples", axis=0),
        node("Concat", ["one", "samples", "width"], ["wide"], "sizes", axis=0),
        node("Expand", ["start", "wide"], ["state"], "spread"),
        node("Add", ["x", "state"], ["y"], "add"),
    ]
    if layer is not None:
        nodes[4].input[0] = "part"
        ends = ["from", "to", "zero"]
        nodes.insert(1, node("Slice", ["start", *ends], ["part"], "part"))
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, [4, 3])},
        {"y": (np.float32, [1, 4, 3])},
        {
            "zero": np.array([0]),
            "one": np.array([1]),
            "width": np.array([3]),
            "from": np.array([layer or 0]),
            "to": np.array([(layer or 0) + 1]),
        },
    )


@pytest.mark.parametrize("layers, layer", [(1, None), (2, 1)])
@pytest.mark.parametrize("wanted", [1, 6])
def test_a_start_for_every_sample_is_spread_over_others(
    wanted, layers, layer, tmp_path
):
    model = started(np.full((layers, 4, 3), 0.5, np.float32), layer)
    x = normal(3, wanted, 3)
    y = mpctest.run(model, {"x": x}, tmp_path, "--batch-size", str(wanted))["y"]
    np.testing.assert_array_equal(y, x[None] + np.float32(0.5))


def test_a_start_that_differs_among_samples_is_refused(tmp_path):
    onnx.save(started(normal(4, 1, 4, 3)), tmp_path / "m.onnx")
    process = mpctest.mpc("check", tmp_path / "m.onnx", "--batch-size", "6")
    assert process.returncode == 1
    assert "node 'spread' (Expand)" in process.stdout + process.stderr
