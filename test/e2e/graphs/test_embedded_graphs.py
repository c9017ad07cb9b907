"""Edited training graphs of a compiler for microcontrollers train as their
equations say.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import embedded_graphs
import mpctest
from embedded_equations import evaluate, train_reference
from embedded_graphs import BATCH, FAMILIES, make_data

STEPS = 3
BOUND = {"32-true": 1e-5, "bf16-mixed": 3e-2, "16-mixed": 5e-3}


def save(made, folder):
    """Writes the files and returns the flags that train them."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(made.training, folder / "network.onnx")
    onnx.save(made.optimizer, folder / "optimizer.onnx")
    onnx.save(made.forward, folder / "forward.onnx")
    return (
        *("--optimizer-model", folder / "optimizer.onnx"),
        *("--weights", folder / "forward.onnx"),
        *("--export-model", folder / "forward.onnx"),
        *("--batch-size", BATCH),
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_the_loss(family):
    """Checks the reference of the other tests: its gradients along a random
    direction."""
    made = FAMILIES[family]()
    data = make_data(made, 1)
    random = np.random.RandomState(1)
    start = {k: v.astype(float) for k, v in made.parameters.items()}
    way = {p: random.standard_normal(v.shape) for p, v in start.items()}
    _, gradients = evaluate(made, start, data)
    slope = sum((gradients[p] * way[p]).sum() for p in way)
    ends = [
        evaluate(made, {p: start[p] + by * way[p] for p in way}, data)[0]
        for by in (1e-6, -1e-6)
    ]
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("precision", BOUND)
@pytest.mark.parametrize("family", FAMILIES)
def test_family_trains(family, precision, tmp_path):
    """A step adds up the gradients of two batches."""
    made = FAMILIES[family]()
    flags = save(made, tmp_path)
    data = make_data(made, 2 * STEPS)
    metrics, trained = mpctest.train(
        tmp_path / "network.onnx",
        data,
        tmp_path,
        *flags,
        *("--accumulate-grad-batches", 2, "--precision", precision),
    )
    losses, parameters = train_reference(made, data, 2)
    bound = BOUND[precision]
    np.testing.assert_allclose(mpctest.losses(metrics), losses, rtol=bound)
    moves = {
        p: np.linalg.norm(expected - made.parameters[p])
        for p, expected in parameters.items()
    }
    # The bias of keys stays, because a Softmax ignores it.
    least = max(moves.values()) / 50
    for p, move in moves.items():
        error = np.linalg.norm(trained[p] - parameters[p])
        assert error <= 4 * bound * max(move, least), p


# --- One oddity at a time ----------------------------------------------------


def find(graph, op, **of):
    """Returns the first node of `op` with these attributes."""
    for node in graph.node:
        attributes = {a.name: a for a in node.attribute}
        if node.op_type == op and all(
            name in attributes and helper.get_attribute_value(attributes[name]) == v
            for name, v in of.items()
        ):
            return node
    raise LookupError(op)


def train(made, folder, *flags, seed=0):
    data = make_data(made, 2, seed)
    np.savez(folder / "data.npz", **data)
    return mpctest.mpc(
        *("train", folder / "network.onnx", "--data", folder / "data.npz"),
        *("--no-shuffle", "--metrics", folder / "metrics.jsonl"),
        *("--output", folder / "trained.onnx", "--overwrite-metrics"),
        *mpctest.TARGET,
        *flags,
    )


def expect_steps(made, folder, accumulate, *flags):
    """The files train like the unedited ones in float64."""
    if accumulate > 1:
        flags += ("--accumulate-grad-batches", accumulate)
    process = train(made, folder, *flags)
    assert process.returncode == 0, process.stderr
    losses, parameters = train_reference(
        made, make_data(made, 2), accumulate
    )
    metrics = mpctest.read_metrics(folder / "metrics.jsonl")
    np.testing.assert_allclose(mpctest.losses(metrics), losses, rtol=1e-5)
    trained = mpctest.read_weights(folder / "trained.onnx")
    for p, expected in parameters.items():
        np.testing.assert_allclose(trained[p], expected, rtol=1e-4, atol=1e-6)
    return process.stderr


def refuse(made, tmp_path, code, *words):
    """mpc refuses the files, with `words` in the message."""
    flags = save(made, tmp_path)
    process = train(made, tmp_path, *flags)
    assert process.returncode == code, process.stderr
    for word in words:
        assert word in process.stderr


def test_what_was_edited_is_said_once(tmp_path):
    made = embedded_graphs.transformer()
    error = expect_steps(made, tmp_path, 2, *save(made, tmp_path))
    count = sum(
        any(a.name == "description" for a in n.attribute)
        for n in made.training.graph.node
    )
    for text in (
        f"attribute 'description' is unknown to ONNX; taken as a comment and"
        f" left out, as in {count - 1} other nodes",
        "as version 18 and 12; the last one holds",
        "(Gemm): expected matrices, found operands of ranks 3 and 2",
        "put the loss before it, as output 'loss' of the graph",
        "the optimizer graph fixes the learning rate",
    ):
        assert error.count(text) == 1, text


@pytest.mark.parametrize("versions", [(17, 17), (12, 18)])
def test_the_last_import_of_an_opset_holds(versions, tmp_path):
    """Two equal imports are no finding."""
    made = embedded_graphs.mlp()
    for version, entry in zip(versions, made.training.opset_import):
        entry.version = version
    error = expect_steps(made, tmp_path, 1, *save(made, tmp_path))
    assert ("is imported twice" in error) == (len(set(versions)) == 2)


def test_each_accumulator_may_have_a_flag(tmp_path):
    made = embedded_graphs.mlp()
    graph = made.training.graph
    flags = [i for i in graph.input if i.name == "lazy_reset_grad"]
    for i, node in enumerate(graph.node):
        if node.op_type == "InPlaceAccumulatorV2":
            node.input[2] = f"reset_{i}"
            extra = graph.input.add()
            extra.CopyFrom(flags[0])
            extra.name = node.input[2]
    graph.input.remove(flags[0])
    expect_steps(made, tmp_path, 2, *save(made, tmp_path))


def test_a_flag_may_be_constant(tmp_path):
    """mpc adds up batches whatever the constant says, and warns."""
    made = embedded_graphs.mlp()
    graph = made.training.graph
    flag = next(i for i in graph.input if i.name == "lazy_reset_grad")
    graph.input.remove(flag)
    graph.initializer.add().CopyFrom(
        numpy_helper.from_array(np.array([True]), flag.name)
    )
    error = expect_steps(made, tmp_path, 2, *save(made, tmp_path))
    assert error.count("resets the sum in every batch") == 1


def test_a_flag_that_the_graph_computes_is_refused(tmp_path):
    made = embedded_graphs.mlp()
    graph = made.training.graph
    graph.node.add().CopyFrom(
        helper.make_node("Not", ["lazy_reset_grad"], ["flag"], "turned")
    )
    node = find(graph, "InPlaceAccumulatorV2")
    node.input[2] = "flag"
    refuse(made, tmp_path, 4, node.name, "'flag', which node 'turned' makes")


def test_parameters_may_be_initializers(tmp_path):
    made = embedded_graphs.mlp()
    graph = made.training.graph
    for p, array in made.parameters.items():
        graph.input.remove(next(i for i in graph.input if i.name == p))
        graph.initializer.add().CopyFrom(numpy_helper.from_array(array, p))
    save(made, tmp_path)
    expect_steps(
        *(made, tmp_path, 2, "--batch-size", BATCH),
        *("--optimizer-model", tmp_path / "optimizer.onnx"),
    )


def test_whole_step_in_one_graph(tmp_path):
    """Older files have the updates in the training graph."""
    made = embedded_graphs.depthwise_cnn()
    graph = made.training.graph
    keep = [n for n in graph.node if n.op_type != "InPlaceAccumulatorV2"]
    del graph.node[:], graph.output[:]
    graph.node.extend(keep)
    graph.output.extend(made.optimizer.graph.output)
    inputs = [i for i in graph.input if i.name in made.inputs]
    del graph.input[:]
    graph.input.extend(inputs)
    for p, array in made.parameters.items():
        graph.initializer.add().CopyFrom(numpy_helper.from_array(array, p))
        sgd = graph.node.add()
        sgd.CopyFrom(
            next(n for n in made.optimizer.graph.node if n.input[0] == p)
        )
        sgd.input[1] = made.gradients[p]
    save(made, tmp_path)
    expect_steps(made, tmp_path, 1, "--batch-size", BATCH)
    # The written file has ONNX's form of the loss.
    written = onnx.load(tmp_path / "trained.onnx").graph
    loss = find(written, "SoftmaxCrossEntropyLoss").output
    gradient = find(written, "SoftmaxCrossEntropyLossGrad").input
    assert list(loss) == ["loss", gradient[0]]
    assert "loss" in [output.name for output in written.output]


def test_written_model_has_no_comments(tmp_path):
    """ONNX Runtime accepts the written file, but not the original."""
    made = embedded_graphs.mlp()
    for node in made.forward.graph.node:
        node.attribute.append(helper.make_attribute("description", "A layer"))
    x = make_data(made, 1)["x"]
    with pytest.raises(Exception, match="description"):
        onnxruntime.InferenceSession(made.forward.SerializeToString())
    data = make_data(made, 2)
    data["target"] = data.pop("labels")
    mpctest.train(
        made.forward,
        data,
        tmp_path,
        *("--loss", "softmax_cross_entropy", "--batch-size", BATCH),
    )
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    assert session.run(None, {"x": x})[0].shape == (BATCH, 5)


def test_rate_in_the_file_leaves_lr_without_effect(tmp_path):
    made = embedded_graphs.mlp()
    process = train(made, tmp_path, *save(made, tmp_path), "--lr", "0.1")
    assert process.returncode == 2
    assert "--lr has no effect: " in process.stderr
    assert "its own optimizer with a fixed learning rate" in process.stderr


def test_optimizer_graph_alone_says_what_it_is(tmp_path):
    made = embedded_graphs.mlp()
    weights = save(made, tmp_path)[2:4]
    process = mpctest.mpc("check", tmp_path / "optimizer.onnx")
    assert process.returncode == 0
    text = "an optimizer graph, of SGD x4, which updates 'fc1_weight'"
    assert text in process.stdout + process.stderr
    np.savez(tmp_path / "data.npz", **make_data(made, 1))
    data = ("--data", tmp_path / "data.npz", *mpctest.TARGET)
    process = mpctest.mpc("train", tmp_path / "optimizer.onnx", *data)
    assert process.returncode == 2
    assert "--optimizer-model" in process.stderr.splitlines()[-1]
    # Training the other half alone is refused too.
    process = mpctest.mpc("train", tmp_path / "network.onnx", *weights, *data)
    assert process.returncode == 2
    assert "the optimizer graph that uses them is missing" in process.stderr
    # No flag names that graph, and no message names a flag that the user did
    # not give.
    for command, flags, text in (
        ("train", ("--optimizer", "adam"), "with --optimizer-model FILE instead"),
        ("eval", (), "evaluate the model that it was made from, with --loss"),
        ("run", (), "expected --function to be one of accumulate"),
    ):
        process = mpctest.mpc(
            command, tmp_path / "network.onnx", *weights, *data, *flags
        )
        assert process.returncode != 0
        assert text in process.stderr


@pytest.mark.parametrize("family", ("resnet", "depthwise_cnn"))
def test_split_gradients_of_convolutions(family, tmp_path):
    """Other releases write a node for the gradient of each operand."""
    made = FAMILIES[family]()
    graph = made.training.graph
    nodes = []
    for whole in graph.node:
        if whole.op_type != "ConvGrad":
            nodes.append(whole)
            continue
        dy, x, w = whole.input
        window = {
            a.name: helper.get_attribute_value(a) for a in whole.attribute
        }
        parts = {"ConvGradX": ([dy, w], window), "ConvGradW": ([dy, x], window)}
        parts["ConvGradB"] = ([dy], {})
        for (op, (inputs, of)), made_of in zip(parts.items(), whole.output):
            if made_of:
                nodes.append(
                    helper.make_node(op, inputs, [made_of], made_of + op, **of)
                )
    del graph.node[:]
    graph.node.extend(nodes)
    assert find(graph, "ConvGradX") and find(graph, "ConvGradB")
    flags = save(made, tmp_path)
    expect_steps(FAMILIES[family](), tmp_path, 1, *flags)


LISTS = {
    "inputs": ([], "params", "gradients", "learning_rate"),
    "made in the graph": (
        [
            ("SequenceConstruct", "w", "params"),
            ("SequenceConstruct", "w_grad", "gradients"),
        ],
        *("params", "gradients", "learning_rate"),
    ),
    "a scaled rate": (
        [("Mul", "learning_rate half", "r")],
        *("params", "gradients", "r"),
    ),
}


@pytest.mark.parametrize("command", ("check", "explain"))
@pytest.mark.parametrize("form", LISTS)
def test_optimizer_graph_over_lists_alone_says_what_it_is(form, command, tmp_path):
    nodes, parameters, gradients, rate = LISTS[form]
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    lists = helper.make_sequence_type_proto(tensor)
    made = {name for _, _, name in nodes}
    inputs = [helper.make_tensor_value_info("learning_rate", TensorProto.FLOAT, [1])]
    if "params" in made:
        inputs += [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4])
            for name in ("w", "w_grad")
        ]
    else:
        inputs += [helper.make_value_info(n, lists) for n in ("params", "gradients")]
    graph = helper.make_graph(
        [
            *(helper.make_node(op, i.split(), [o], o) for op, i, o in nodes),
            helper.make_node(
                *("SGDOptimizerV2", [rate, parameters, gradients], ["flag"], "sgd"),
                domain="com.microsoft",
            ),
        ],
        *("optimizer", inputs),
        [helper.make_tensor_value_info("flag", TensorProto.BOOL, [1])],
        [helper.make_tensor("half", TensorProto.FLOAT, [], [0.5])],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path = tmp_path / "optimizer.onnx"
    path.write_bytes(model.SerializeToString())
    process = mpctest.mpc(command, path)
    said = process.stdout + process.stderr
    assert "an optimizer graph, of SGDOptimizerV2 x1; it has no loss" in said
    assert "--optimizer-model" in said
    assert "not supported" not in said


def test_gradient_of_other_labels_is_refused(tmp_path):
    made = embedded_graphs.mlp()
    graph = made.training.graph
    other = graph.input.add()
    other.CopyFrom(next(i for i in graph.input if i.name == "labels"))
    other.name = "other"
    node = find(graph, "SoftmaxCrossEntropyLossGrad")
    node.input[1] = "other"
    made.inputs["other"] = [BATCH]
    refuse(made, tmp_path, 3, node.name, "expected the labels 'labels'")


def test_gradient_of_scores_is_refused(tmp_path):
    """Only log-probabilities have this gradient."""
    made = embedded_graphs.mlp()
    node = find(made.training.graph, "SoftmaxCrossEntropyLossGrad")
    node.input[0] = made.scores
    refuse(
        made, tmp_path, 3, node.name, "expected log-probabilities and labels"
    )


@pytest.mark.parametrize(
    "reduction, code, word",
    [("sum", 3, "expected mean as in the loss node"), ("none", 4, "each sample's loss is absent")],
)
def test_gradient_of_another_reduction_is_refused(
    reduction, code, word, tmp_path
):
    made = embedded_graphs.mlp()
    node = find(made.training.graph, "SoftmaxCrossEntropyLossGrad")
    node.attribute[0].s = reduction.encode()
    refuse(made, tmp_path, code, node.name, word)


def test_sums_of_both_are_a_sum(tmp_path):
    """The loss and its gradient agree on a sum, so that the update uses a
    batch's sum."""
    made = embedded_graphs.mlp()
    for op in ("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLossGrad"):
        find(made.training.graph, op).attribute[0].s = b"sum"
    process = train(made, tmp_path, *save(made, tmp_path), "--max-steps", "1")
    assert process.returncode == 0, process.stderr
    data = {k: v[:BATCH] for k, v in make_data(made, 2).items()}
    loss, gradients = evaluate(made, made.parameters, data)
    metrics = mpctest.read_metrics(tmp_path / "metrics.jsonl")
    assert mpctest.losses(metrics) == pytest.approx([BATCH * loss], rel=1e-6)
    trained = mpctest.read_weights(tmp_path / "trained.onnx")
    moved = made.parameters["fc2_bias"] - trained["fc2_bias"]
    np.testing.assert_allclose(
        moved,
        BATCH * embedded_graphs.RATE * gradients["fc2_bias"],
        rtol=1e-4,
        atol=1e-6,
    )


def test_target_and_prediction_are_told_apart(tmp_path):
    made = embedded_graphs.autoencoder()
    node = find(made.training.graph, "MSELossGrad")
    node.input[:] = reversed(node.input)
    refuse(made, tmp_path, 3, node.name, "swap the two inputs")


def test_a_number_that_no_operator_knows_is_refused(tmp_path):
    """A node may be meant to use the attribute."""
    made = embedded_graphs.mlp()
    node = find(made.training.graph, "Relu")
    node.attribute.append(helper.make_attribute("levels", 8))
    refuse(made, tmp_path, 3, node.name, "'levels' is not one of Relu")


def test_text_that_an_operator_knows_is_refused(tmp_path):
    made = embedded_graphs.mlp()
    node = find(made.training.graph, "Relu")
    node.attribute.append(helper.make_attribute("mode", "leaky"))
    refuse(made, tmp_path, 3, node.name, "'mode' is not one of Relu")


def test_bias_that_widens_a_stack_is_refused(tmp_path):
    made = embedded_graphs.transformer()
    node = next(
        n
        for n in made.training.graph.node
        if n.op_type == "Gemm" and n.input[1] == "mlp2_weight"
    )
    bias = made.training.graph.initializer.add()
    bias.CopyFrom(
        numpy_helper.from_array(np.zeros((3, BATCH, 4, 8), "f4"), "wide")
    )
    node.input[2] = "wide"
    refuse(made, tmp_path, 3, node.name, "does not broadcast to the product")


@pytest.mark.parametrize(
    "change, code, word",
    [
        ({"epsilon": 1e-3}, 3, "expected that of node"),
        ({"output": "norm1_weight_grad"}, 4, "to be the gradient of"),
        ({"bias": "mlp1_bias"}, 3, "is no bias of"),
    ],
    ids=["epsilon", "output", "bias"],
)
def test_norm_gradient_of_another_meaning_is_refused(
    change, code, word, tmp_path
):
    made = embedded_graphs.transformer()
    graph = made.training.graph
    node = find(graph, "LayerNormalizationGrad")
    if "epsilon" in change:
        next(a for a in node.attribute if a.name == "epsilon").f = 1e-3
    if "bias" in change:
        node.input[3] = change["bias"]
    if "output" in change:
        node.input[2:4] = ["norm1_weight", "norm1_bias"]
        for reader in graph.node:
            reader.input[:] = [
                change["output"] if i == node.output[0] else i
                for i in reader.input
            ]
        node.output[0] = change["output"]
    refuse(made, tmp_path, code, node.name, word)


def test_pooled_shape_must_fit(tmp_path):
    made = embedded_graphs.resnet()
    node = find(made.training.graph, "GlobalAveragePoolGrad")
    node.attribute[0].ints[:] = [6]
    refuse(made, tmp_path, 3, node.name, "elements of 'kernel_shape'")


@pytest.mark.parametrize("name", ["axis", "batch_dims"])
def test_batch_axes_of_gather_nd_have_two_names(name, tmp_path):
    """ONNX Runtime first called the attribute 'axis', in ONNX's own domain."""
    indices = np.array([[[2], [0]], [[1], [1]]], np.int64)
    dy = np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2)
    node = helper.make_node(
        "GatherNDGrad", ["shape", "indices", "dy"], ["dx"], "back", **{name: 1}
    )
    graph = helper.make_graph(
        [node],
        "gradient",
        [helper.make_tensor_value_info("dy", 1, dy.shape)],
        [helper.make_tensor_value_info("dx", 1, [2, 3, 2])],
        [
            numpy_helper.from_array(np.array([2, 3, 2], np.int64), "shape"),
            numpy_helper.from_array(indices, "indices"),
        ],
    )
    model = helper.make_model(
        graph, ir_version=7, opset_imports=[helper.make_opsetid("", 11)]
    )
    expected = np.zeros((2, 3, 2), np.float32)
    for batch, i in np.ndindex(2, 2):
        expected[batch, indices[batch, i, 0]] += dy[batch, i]
    found = mpctest.run(model, {"dy": dy}, tmp_path, "--as-exported")
    np.testing.assert_array_equal(found["dx"], expected)


def test_flag_of_the_older_accumulator_says_whether_to_add(tmp_path):
    """InPlaceAccumulator's flag means "update the sum" if true."""
    made = embedded_graphs.mlp()
    graph = made.training.graph
    flag = next(i for i in graph.input if i.name == "lazy_reset_grad")
    graph.input.remove(flag)
    graph.initializer.add().CopyFrom(
        numpy_helper.from_array(np.array([True]), flag.name)
    )
    for node in graph.node:
        if node.op_type == "InPlaceAccumulatorV2":
            node.op_type = "InPlaceAccumulator"
    error = expect_steps(made, tmp_path, 2, *save(made, tmp_path))
    assert "resets the sum" not in error
    graph.initializer[-1].CopyFrom(
        numpy_helper.from_array(np.array([False]), flag.name)
    )
    node = find(graph, "InPlaceAccumulator")
    refuse(made, tmp_path, 4, node.name, "so the sum is never updated")
