"""BatchNormalization's running statistics are trained and kept as specified,
and the written model runs as it was evaluated.

SPDX-License-Identifier: Apache-2.0
"""

import functools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import mpctest

CHANNELS, WIDTH, SAMPLES = 3, 4, 64
# Rounded like a float attribute.
MOMENTUM = float(np.float32(0.9))


def batch_norm(opset, inputs, output):
    """Returns the node in training mode, in the form of `opset`."""
    if opset < 14:
        outputs = [f"bn.{k}" for k in ("m", "v", "saved_m", "saved_v")]
        return helper.make_node("BatchNormalization", inputs, [output, *outputs])
    return helper.make_node(
        "BatchNormalization",
        inputs,
        [output, "bn.m", "bn.v"],
        training_mode=1,
        momentum=MOMENTUM,
    )


def dropout(opset, value, output):
    inputs = [value] if opset < 12 else [value, "ratio", "training"]
    return helper.make_node("Dropout", inputs, [output])


def make_model(opset, dtype=np.float32, producer="", batch="N"):
    """x -> conv -> BatchNormalization, Dropout in training mode -> y."""
    random = np.random.default_rng(0)
    weights = {
        "conv.weight": random.normal(size=(CHANNELS, 2, 1, 1)),
        "bn.weight": np.ones(CHANNELS),
        "bn.bias": np.zeros(CHANNELS),
        "bn.mean": random.normal(size=CHANNELS),
        "bn.var": random.uniform(0.5, 2, size=CHANNELS),
        "fc.weight": random.normal(size=(CHANNELS * WIDTH, 1)),
        "fc.bias": np.zeros(1),
    }
    initializers = {name: v.astype(dtype) for name, v in weights.items()}
    if opset >= 12:
        initializers["ratio"] = np.float32(0.25)
        initializers["training"] = np.array(True)
    norm = ["h", "bn.weight", "bn.bias", "bn.mean", "bn.var"]
    model = mpctest.make_model(
        [
            helper.make_node("Conv", ["x", "conv.weight"], ["h"]),
            batch_norm(opset, norm, "n"),
            helper.make_node("Relu", ["n"], ["r"]),
            dropout(opset, "r", "d"),
            helper.make_node("Flatten", ["d"], ["f"]),
            helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"]),
        ],
        {"x": (dtype, [batch, 2, WIDTH, 1])},
        {"y": (dtype, [batch, 1])},
        initializers,
        opset,
    )
    model.producer_name = producer
    return model


def make_data(dtype=np.float32):
    random = np.random.default_rng(1)
    x = random.normal(size=(SAMPLES, 2, WIDTH, 1)).astype(dtype)
    return {"x": x, "target": x.mean((1, 2, 3)).astype(dtype)[:, None]}


#
# What is written
#


@pytest.fixture(scope="module", params=[9, 13, 15, 20])
def trained(request, tmp_path_factory):
    """Returns (exported for training, trained, evaluation's loss)."""
    folder = tmp_path_factory.mktemp("inference")
    model, data = make_model(request.param), make_data()
    np.savez(folder / "data.npz", **data)
    events, _ = mpctest.train(
        model,
        folder / "data.npz",
        folder,
        *("--loss", "mse", "--optimizer", "adamw", "--batch-size", "16"),
        *("--max-steps", "40", "--val-data", folder / "data.npz"),
    )
    loss = [e["eval_loss"] for e in events if e["event"] == "eval"][-1]
    return model, folder / "trained.onnx", float(loss)


def test_written_model_passes_the_checker(trained):
    onnx.checker.check_model(onnx.load(trained[1]), full_check=True)


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_written_model_gives_what_evaluation_reported(trained, batch):
    session = onnxruntime.InferenceSession(trained[1])
    data = make_data()
    outputs = [
        session.run(None, {"x": data["x"][i : i + batch]})[0]
        for i in range(0, SAMPLES, batch)
    ]
    error = np.concatenate(outputs).astype(np.float64) - data["target"]
    assert np.mean(error**2) == pytest.approx(trained[2], rel=1e-4)


def test_run_evaluates_unless_as_exported(trained, tmp_path):
    """The statistics of a single sample are not meaningful."""
    exported, path, _ = trained
    x = make_data()["x"][:1]
    model = onnx.load(path)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    # Put the trained weights into the exported graph.
    again = onnx.ModelProto()
    again.CopyFrom(exported)
    del again.graph.initializer[:]
    again.graph.initializer.extend(model.graph.initializer)
    found = mpctest.run(again, {"x": x}, tmp_path)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    live = mpctest.run(again, {"x": x}, tmp_path, "--as-exported")["y"]
    assert np.abs(live - expected).max() > 1e-3


def test_statistics_that_are_outputs_stay_what_they_are(tmp_path):
    model = make_model(15)
    for name in ("bn.m", "bn.v"):
        model.graph.output.append(
            helper.make_tensor_value_info(
                name, onnx.TensorProto.FLOAT, [CHANNELS]
            )
        )
    _, weights = mpctest.train(
        model,
        make_data(),
        tmp_path,
        *("--loss", "mse@y", "--batch-size", "16", "--max-steps", "3"),
    )
    path = tmp_path / "trained.onnx"
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path)
    _, mean, variance = session.run(None, {"x": make_data()["x"][:1]})
    np.testing.assert_array_equal(mean, weights["bn.mean"])
    np.testing.assert_array_equal(variance, weights["bn.var"])


#
# Running variance
#


@pytest.mark.parametrize(
    "producer, flags, unbiased",
    [
        ("pytorch", [], True),
        ("tf2onnx", [], True),
        ("", [], False),
        ("pytorch", ["--running-variance", "population"], False),
        ("", ["--running-variance", "unbiased"], True),
    ],
)
def test_running_variance(tmp_path, producer, flags, unbiased):
    model, data = make_model(15, np.float64, producer), make_data(np.float64)
    before = {
        t.name: numpy_helper.to_array(t) for t in model.graph.initializer
    }
    _, after = mpctest.train(
        model,
        data,
        tmp_path,
        *("--loss", "mse", "--batch-size", "4", "--max-steps", "1"),
        *("--precision", "64-true", *flags),
    )
    # One step over the first four samples.
    kernel = before["conv.weight"][..., 0, 0]
    h = np.einsum("nchw,kc->nkhw", data["x"][:4], kernel)
    ddof = 1 if unbiased else 0
    variance = h.transpose(1, 0, 2, 3).reshape(CHANNELS, -1).var(1, ddof=ddof)
    expected = MOMENTUM * before["bn.var"] + (1 - MOMENTUM) * variance
    np.testing.assert_allclose(after["bn.var"], expected, rtol=1e-12)
    mean = MOMENTUM * before["bn.mean"] + (1 - MOMENTUM) * h.mean((0, 2, 3))
    np.testing.assert_allclose(after["bn.mean"], mean, rtol=1e-12)


def shared_layer_nodes():
    """Returns one layer called on x and on its own output times 2, as PyTorch's
    exporter writes it. The second call reads Identities of the statistics."""
    layer = ["bn.weight", "bn.bias"]
    return [
        batch_norm(17, ["x", *layer, "bn.mean", "bn.var"], "first"),
        helper.make_node("Identity", ["bn.mean"], ["getitem_3"]),
        helper.make_node("Identity", ["bn.var"], ["getitem_4"]),
        helper.make_node("Mul", ["first", "two"], ["doubled"]),
        helper.make_node(
            "BatchNormalization",
            ["doubled", *layer, "getitem_3", "getitem_4"],
            ["second", "m2", "v2"],
            training_mode=1,
            momentum=MOMENTUM,
        ),
        helper.make_node("Gemm", ["second", "fc.weight"], ["y"]),
    ]


def take_a_step(nodes, values, random, folder, describe=lambda model: None):
    """Does one step that changes only the statistics. Returns the batch and the
    state after the step. `describe` adds an exporter's metadata."""
    model = mpctest.make_model(
        nodes,
        {"x": (np.float64, ["N", CHANNELS])},
        {"y": (np.float64, ["N", 1])},
        values,
        17,
    )
    describe(model)
    x = random.normal(size=(4, CHANNELS)) * 3 + 1
    _, after = mpctest.train(
        model,
        {"x": x, "target": random.normal(size=(4, 1))},
        folder,
        *("--loss", "mse", "--batch-size", "4", "--max-steps", "1"),
        *("--lr", "0", "--precision", "64-true"),
    )
    return x, after


def test_second_call_of_a_layer_goes_on_from_the_first(tmp_path):
    random = np.random.default_rng(0)
    values = {
        "bn.weight": random.uniform(0.5, 2, size=CHANNELS),
        "bn.bias": random.normal(size=CHANNELS),
        "bn.mean": random.normal(size=CHANNELS),
        "bn.var": random.uniform(0.5, 2, size=CHANNELS),
        "fc.weight": random.normal(size=(CHANNELS, 1)),
        "two": np.array(2.0),
    }
    x, after = take_a_step(shared_layer_nodes(), values, random, tmp_path)
    # Each call updates the statistics with its own input.
    mean, var = values["bn.mean"], values["bn.var"]
    for _ in range(2):
        mean = MOMENTUM * mean + (1 - MOMENTUM) * x.mean(0)
        var = MOMENTUM * var + (1 - MOMENTUM) * x.var(0)
        normal = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
        x = 2 * (normal * values["bn.weight"] + values["bn.bias"])
    np.testing.assert_allclose(after["bn.mean"], mean, rtol=1e-10)
    np.testing.assert_allclose(after["bn.var"], var, rtol=1e-10)
    assert not {"getitem_3", "getitem_4"} & set(after)


def describe_layer(kind):
    """Returns a function that adds the metadata of PyTorch's newer exporter:
    both nodes call one module."""

    def describe(model):
        norms = [n for n in model.graph.node if n.op_type == "BatchNormalization"]
        for i, norm in enumerate(norms):
            for key, items in (
                ("name_scopes", ["", "bn", f"batch_norm_{i}"]),
                ("class_hierarchy", ["__main__.Model", kind, "aten.batch_norm"]),
            ):
                norm.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=str(items))

    return describe


def describe_calls(given):
    """Like `describe_layer` for functional.batch_norm. Identities are results
    of the first call, to which the program passes the statistics `given`."""

    def describe(model):
        call = (
            "%bn : [num_users=3] = call_function[target=torch.ops.aten."
            "_native_batch_norm_legit_functional.default](args = (%x, None, None, "
            f"%b_{given}_mean, %b_{given}_var, True, 0.1, 1e-05), kwargs = {{}})"
        )
        for node in model.graph.node:
            if node.op_type == "Identity":
                node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=call)
        signature = "".join(
            f"b_{name}_{part}: BUFFER target='{name}.{part}'\n"
            for name in ("bn", "other")
            for part in ("mean", "var")
        )
        model.graph.metadata_props.add(
            key="pkg.torch.export.ExportedProgram.graph_signature", value=signature
        )

    return describe


def describe_older(model):
    """PyTorch's older exporter in training mode passes the same statistics to
    both nodes."""
    model.producer_name = "pytorch"
    first, second = (n for n in model.graph.node if n.op_type == "BatchNormalization")
    second.input[3:] = first.input[3:]


@pytest.mark.parametrize(
    "describe, is_one",
    [
        (describe_layer("torch.nn.modules.batchnorm.BatchNorm1d"), True),
        # A user's module may call functional.batch_norm with two sets of
        # statistics.
        (describe_layer("__main__.Norms"), False),
        (describe_calls("bn"), True),
        # The exporter has merged the two layers' statistics.
        (describe_calls("other"), False),
        (describe_older, True),
    ],
    ids=["layer", "module", "call", "another's call", "older exporter"],
)
def test_second_call_of_a_layer_without_scale_goes_on_from_the_first(
    describe, is_one, tmp_path
):
    """With affine=False, each call has constant scale and bias. Only the
    exporter's metadata says which layer is called."""
    random = np.random.default_rng(2)
    nodes = shared_layer_nodes()
    constants = []
    for i, norm in enumerate(n for n in nodes if n.op_type == "BatchNormalization"):
        for index, value in ((1, 1.0), (2, 0.0)):
            norm.input[index] = f"val_{i}{index}"
            constant = np.full(CHANNELS, value)
            constants.append(
                helper.make_node(
                    *("Constant", [], [norm.input[index]]),
                    value=numpy_helper.from_array(constant),
                )
            )
    values = {
        "bn.mean": random.normal(size=CHANNELS),
        "bn.var": random.uniform(0.5, 2, size=CHANNELS),
        "fc.weight": random.normal(size=(CHANNELS, 1)),
        "two": np.array(2.0),
    }
    x, after = take_a_step(constants + nodes, values, random, tmp_path, describe)
    ddof = 1 if describe is describe_older else 0
    mean, var = values["bn.mean"], values["bn.var"]
    for _ in range(2 if is_one else 1):
        mean = MOMENTUM * mean + (1 - MOMENTUM) * x.mean(0)
        var = MOMENTUM * var + (1 - MOMENTUM) * x.var(0, ddof=ddof)
        x = 2 * (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    np.testing.assert_allclose(after["bn.mean"], mean, rtol=1e-10)
    np.testing.assert_allclose(after["bn.var"], var, rtol=1e-10)


def test_layers_whose_equal_parameters_were_merged_keep_statistics(tmp_path):
    random = np.random.default_rng(1)
    merged = ("bn.weight", "bn.bias", "bn.mean", "bn.var")
    values = {name: np.full(CHANNELS, i % 3 == 0) for i, name in enumerate(merged)}
    values["fc.weight"] = random.normal(size=(CHANNELS, 1))
    # Before training, the two layers are equal: the second reads Identities.
    second = [name.replace("bn", "bn2") for name in merged]
    nodes = [
        helper.make_node("Identity", [name], [copy])
        for name, copy in zip(merged, second)
    ]
    norm = functools.partial(
        *(helper.make_node, "BatchNormalization"),
        training_mode=1,
        momentum=MOMENTUM,
    )
    nodes += [
        norm(["x", *merged], ["first", "mean1", "var1"]),
        helper.make_node("Relu", ["first"], ["relu"]),
        norm(["relu", *second], ["last", "mean2", "var2"]),
        helper.make_node("MatMul", ["last", "fc.weight"], ["y"]),
    ]
    values = {name: value.astype(np.float64) for name, value in values.items()}
    x, after = take_a_step(nodes, values, random, tmp_path)
    # The first layer's statistics use its own input only.
    mean = (1 - MOMENTUM) * x.mean(0)
    var = MOMENTUM + (1 - MOMENTUM) * x.var(0)
    np.testing.assert_allclose(after["bn.mean"], mean, rtol=1e-10)
    np.testing.assert_allclose(after["bn.var"], var, rtol=1e-10)


#
# Frozen layers
#


@pytest.mark.parametrize(
    "flags, kept",
    [
        (["--freeze", "^bn"], True),
        (["--train", "^fc"], True),
        # One of two parameters is trained.
        (["--freeze", "^bn.weight"], False),
        (["--freeze", "^conv"], False),
        ([], False),
    ],
)
def test_frozen_layers_keep_their_statistics(tmp_path, flags, kept):
    model = make_model(15)
    before = {
        t.name: numpy_helper.to_array(t) for t in model.graph.initializer
    }
    _, after = mpctest.train(
        model,
        make_data(),
        tmp_path,
        *("--loss", "mse", "--batch-size", "16", "--max-steps", "2"),
        *flags,
    )
    for name in ("bn.mean", "bn.var"):
        assert np.array_equal(before[name], after[name]) == kept
    assert np.any(before["fc.weight"] != after["fc.weight"])


def test_frozen_layers_use_their_statistics(tmp_path):
    """The first step's loss equals the loss in evaluation mode. The model has
    no dropout here."""
    model = make_model(15)
    (node,) = (n for n in model.graph.node if n.op_type == "Dropout")
    node.op_type = "Identity"
    del node.input[1:]
    data = make_data()
    events, _ = mpctest.train(
        model,
        data,
        tmp_path,
        *("--loss", "mse", "--batch-size", "16", "--max-steps", "1"),
        *("--train", "^fc"),
    )
    outputs = mpctest.run(model, {"x": data["x"][:16]}, tmp_path)
    expected = np.mean((outputs["y"] - data["target"][:16]) ** 2)
    assert mpctest.losses(events)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_activations_that_overflow_leave_statistics_finite(tmp_path, accumulate):
    """In one of four batches the input overflows float16 and the step is
    skipped. The batch's non-finite mean and variance would stay in the
    average."""
    data = make_data()
    x = data["x"].copy()
    x[16:32] *= 1e6
    np.savez(tmp_path / "data.npz", x=x, target=data["target"])
    events, _ = mpctest.train(
        make_model(15),
        tmp_path / "data.npz",
        tmp_path,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", "1e-6"),
        *("--batch-size", "16", "--precision", "16-mixed"),
        *("--loss-scale", "8", "--accumulate-grad-batches", accumulate),
    )
    assert [e for e in events if e["event"] == "end"][-1]["skipped_total"] == 1
    found = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in onnx.load(tmp_path / "trained.onnx").graph.initializer
    }
    assert np.isfinite(found["bn.var"]).all()
    # The weights hardly move: the average covers the other three batches.
    batches = data["x"].reshape(4, 16, 2, WIDTH)
    initial = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in make_model(15).graph.initializer
    }
    h = np.einsum("oc,bncw->bnow", initial["conv.weight"][:, :, 0, 0], batches)
    mean = initial["bn.mean"]
    for batch in (0, 2, 3):
        mean = MOMENTUM * mean + (1 - MOMENTUM) * h[batch].mean((0, 2))
    np.testing.assert_allclose(found["bn.mean"], mean, rtol=0.01)


#
# By statistics that the graph computes
#


def batch_statistics_nodes(variance="square"):
    """Returns BatchNormalization of h by its own mean. `variance` names the
    value whose mean is the variance: squared distances from the mean, or
    squares of h."""
    return [
        helper.make_node("ReduceMean", ["h"], ["m"], axes=[0, 2, 3], keepdims=0),
        helper.make_node("ReduceMean", ["h"], ["k"], axes=[0, 2, 3]),
        helper.make_node("Sub", ["h", "k"], ["c"]),
        helper.make_node("Mul", ["c", "c"], ["square"]),
        helper.make_node("Mul", ["h", "h"], ["whole"]),
        helper.make_node("ReduceMean", [variance], ["v"], axes=[0, 2, 3], keepdims=0),
        helper.make_node("BatchNormalization", ["h", "s", "b", "m", "v"], ["n"]),
    ]


def spelt_nodes():
    """Returns the variant with squares of h in primitive ops."""
    return [
        helper.make_node("ReduceMean", ["h"], ["k"], axes=[0, 2, 3]),
        helper.make_node("Mul", ["h", "h"], ["whole"]),
        helper.make_node("ReduceMean", ["whole"], ["v"], axes=[0, 2, 3]),
        helper.make_node("Sub", ["h", "k"], ["c"]),
        helper.make_node("Add", ["v", "eps"], ["shifted"]),
        helper.make_node("Sqrt", ["shifted"], ["root"]),
        helper.make_node("Div", ["c", "root"], ["normal"]),
        helper.make_node("Unsqueeze", ["s", "axes"], ["rows"]),
        helper.make_node("Unsqueeze", ["b", "axes"], ["shifts"]),
        helper.make_node("Mul", ["normal", "rows"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shifts"], ["n"]),
    ]


def make_statistics_model(nodes, dtype, batch="N"):
    """Returns x -> conv -> `nodes` -> relu -> linear -> y."""
    random = np.random.default_rng(0)
    weights = {
        "conv.weight": random.normal(size=(CHANNELS, 2, 1, 1)),
        "s": random.uniform(0.5, 2, size=CHANNELS),
        "b": random.normal(size=CHANNELS),
        "fc.weight": random.normal(size=(CHANNELS * WIDTH, 1)),
    }
    initializers = {name: v.astype(dtype) for name, v in weights.items()}
    initializers["axes"] = np.array([1, 2])
    initializers["eps"] = np.array(np.float32(1e-5), dtype)
    return mpctest.make_model(
        [
            helper.make_node("Conv", ["x", "conv.weight"], ["h"]),
            *nodes,
            helper.make_node("Relu", ["n"], ["r"]),
            helper.make_node("Flatten", ["r"], ["f"]),
            helper.make_node("MatMul", ["f", "fc.weight"], ["y"]),
        ],
        {"x": (dtype, [batch, 2, WIDTH, 1])},
        {"y": (dtype, [batch, 1])},
        initializers,
        17,
    )


def test_statistics_of_the_batch_are_those_of_evaluation_too(tmp_path):
    """With whole batches, the written model gives the evaluation's figures."""
    data = make_data()
    np.savez(tmp_path / "data.npz", **data)
    model = make_statistics_model(batch_statistics_nodes(), np.float32)
    events, _ = mpctest.train(
        model,
        tmp_path / "data.npz",
        tmp_path,
        *("--loss", "mse", "--batch-size", "16", "--max-steps", "5", "--lr", "0.1"),
        *("--val-data", tmp_path / "data.npz"),
    )
    loss = [e["eval_loss"] for e in events if e["event"] == "eval"][-1]
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx")
    outputs = [
        session.run(None, {"x": data["x"][i : i + 16]})[0]
        for i in range(0, SAMPLES, 16)
    ]
    error = np.concatenate(outputs).astype(np.float64) - data["target"]
    assert np.mean(error**2) == pytest.approx(float(loss), rel=1e-4)


def test_gradients_flow_through_other_statistics(tmp_path):
    """With --as-exported, a step moves the weights like the model in primitive
    ops."""
    trained = []
    for name, nodes in (
        ("op", batch_statistics_nodes("whole")),
        ("spelt", spelt_nodes()),
    ):
        model = make_statistics_model(nodes, np.float64, 16)
        _, weights = mpctest.train(
            model,
            make_data(np.float64),
            tmp_path / name,
            *("--loss", "mse", "--batch-size", "16", "--max-steps", "1"),
            *("--lr", "0.1", "--precision", "64-true", "--as-exported"),
        )
        trained.append(weights)
    for name in ("conv.weight", "s", "b", "fc.weight"):
        np.testing.assert_allclose(*(w[name] for w in trained), rtol=1e-9)
