"""Parameters that start equal and that an exporter merged into one initializer
are trained separately, as in the program, and written separately.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mpctest

WIDTH, SAMPLES = 4, 64
FLAGS = ("--loss", "mse", "--optimizer", "adam", "--lr", "0.1", "--batch-size", "16")


def call(node, scope, name, *arguments):
    """Sets the metadata of PyTorch's exporter: the node's call in the program."""
    text = f"%{name} : [num_users=1] = call_function[target=torch.ops.aten.{name}]"
    text += f"(args = ({', '.join(arguments)}), kwargs = {{}})"
    for key, value in (
        ("pkg.torch.onnx.fx_node", text),
        ("pkg.torch.onnx.name_scopes", f"['', '{scope}', '{name}']"),
    ):
        node.metadata_props.add(key=key, value=value)
    return node


def finish(nodes, initializers):
    random = np.random.default_rng(0)
    weights = {
        "fc.weight": random.normal(size=(WIDTH, 1)).astype(np.float32),
        **{k: np.asarray(v, np.float32) for k, v in initializers.items()},
    }
    return mpctest.make_model(
        [*nodes, helper.make_node("MatMul", ["h", "fc.weight"], ["y"])],
        {"x": (np.float32, ["N", WIDTH])},
        {"y": (np.float32, ["N", 1])},
        weights,
        17,
    )


def batch_norm(scope, x, y, operands, arguments=None):
    node = helper.make_node("BatchNormalization", [x, *operands], [y])
    if arguments is None:
        return node
    return call(node, scope, "_native_batch_norm_legit", "%x", *arguments, "True")


def train(model, folder, name):
    """Returns the losses of the steps, and the written values."""
    random = np.random.default_rng(1)
    x = random.normal(2, 3, size=(SAMPLES, WIDTH)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, target=np.abs(x).sum(1, keepdims=True))
    (folder / name).mkdir()
    events, _ = mpctest.train(
        model,
        folder / "data.npz",
        folder / name,
        *(*FLAGS, "--epochs", "3", "--no-shuffle", "--val-data", folder / "data.npz"),
    )
    written = onnx.load(folder / name / "trained.onnx")
    onnx.checker.check_model(written, full_check=True)
    values = {t.name: numpy_helper.to_array(t) for t in written.graph.initializer}
    losses = [e["loss"] for e in events if e["event"] == "train"]
    losses += [e["eval_loss"] for e in events if e["event"] == "eval"]
    return losses, values


STATISTICS = {
    "bn.weight": np.ones(WIDTH),
    "bn.bias": np.zeros(WIDTH),
    "bn.running_mean": np.zeros(WIDTH),
    "bn.running_var": np.ones(WIDTH),
}
SOURCES = ("%p_bn_weight", "%p_bn_bias", "%b_bn_running_mean", "%b_bn_running_var")


@pytest.mark.parametrize("arguments", [SOURCES, None], ids=["named", "unnamed"])
def test_statistics_are_not_the_scale_and_the_bias(tmp_path, arguments):
    """torch.onnx.export merges these initializers of a new BatchNorm unless
    optimize=False."""
    merged = ("bn.weight", "bn.bias", "bn.bias", "bn.weight")
    initializers = {k: STATISTICS[k] for k in merged}
    whole = finish([batch_norm("bn", "x", "h", merged, arguments)], initializers)
    apart = finish([batch_norm("bn", "x", "h", STATISTICS)], STATISTICS)
    losses, values = train(whole, tmp_path, "merged")
    expected, reference = train(apart, tmp_path, "apart")
    assert losses == expected
    for name in ("bn.weight", "bn.bias", "fc.weight"):
        np.testing.assert_array_equal(values[name], reference[name])
    layer = "bn" if arguments else "h"
    for name in ("running_mean", "running_var"):
        np.testing.assert_array_equal(
            values[f"{layer}.{name}"], reference[f"bn.{name}"]
        )


def norms(scales, sources):
    """Returns two LayerNormalizations in a row."""
    first, second = (
        helper.make_node("LayerNormalization", [x, scale, bias], [y])
        for x, y, scale, bias in (
            ("x", "m", scales[0], "norms.0.bias"),
            ("m", "h", scales[1], "norms.1.bias"),
        )
    )
    for i, (node, source) in enumerate(zip((first, second), sources)):
        bias = f"%p_norms_{i}_bias"
        call(node, f"norms.{i}", "layer_norm", "%x", "[4]", source, bias)
    return finish(
        [first, second],
        {
            "norms.0.bias": np.full(WIDTH, 0.25),
            "norms.1.bias": np.full(WIDTH, 0.5),
            **{name: np.ones(WIDTH) for name in scales},
        },
    )


def test_scales_of_two_normalizations_are_trained_apart(tmp_path):
    sources = ("%p_norms_0_weight", "%p_norms_1_weight")
    merged = norms(("norms.0.weight", "norms.0.weight"), sources)
    apart = norms(("norms.0.weight", "norms.1.weight"), sources)
    losses, values = train(merged, tmp_path, "merged")
    expected, reference = train(apart, tmp_path, "apart")
    assert losses == expected
    assert values.keys() == reference.keys()
    for name in values:
        np.testing.assert_array_equal(values[name], reference[name])
    assert not np.array_equal(values["norms.0.weight"], values["norms.1.weight"])


def test_values_that_are_given_are_each_its_own(tmp_path):
    """`--weights` names the scales separately, as the program does."""
    sources = ("%p_norms_0_weight", "%p_norms_1_weight")
    given = {"norms.0.weight": [2, 3, 4, 5], "norms.1.weight": [1, 0, 7, 2]}
    np.savez(tmp_path / "w.npz", **{k: np.float32(v) for k, v in given.items()})
    x = {"x": np.linspace(-1, 2, WIDTH, dtype=np.float32).reshape(1, -1)}
    flags = ("--weights", tmp_path / "w.npz")
    merged = norms(("norms.0.weight", "norms.0.weight"), sources)
    apart = norms(("norms.0.weight", "norms.1.weight"), sources)
    np.testing.assert_array_equal(
        mpctest.run(merged, x, tmp_path, *flags)["y"],
        mpctest.run(apart, x, tmp_path, *flags)["y"],
    )


def test_what_the_program_shares_stays_shared(tmp_path):
    sources = ("%p_norms_0_weight", "%p_norms_0_weight")
    losses, values = train(
        norms(("norms.0.weight", "norms.0.weight"), sources), tmp_path, "shared"
    )
    assert "norms.1.weight" not in values


def test_pretrained_values_are_left_as_the_file_has_them(tmp_path):
    """Elements that differ within a tensor are not equal by chance."""
    model = norms(
        ("norms.0.weight", "norms.0.weight"),
        ("%p_norms_0_weight", "%p_norms_1_weight"),
    )
    for tensor in model.graph.initializer:
        if tensor.name == "norms.0.weight":
            value = np.linspace(1, 2, WIDTH, dtype=np.float32)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    _, values = train(model, tmp_path, "pretrained")
    assert "norms.1.weight" not in values


def test_layer_that_is_called_twice_updates_its_statistics_twice(tmp_path):
    """A siamese network in PyTorch updates its statistics twice as well."""
    model = finish(
        [
            helper.make_node("Mul", ["x", "factor"], ["doubled"]),
            batch_norm("", "x", "a", STATISTICS),
            batch_norm("", "doubled", "b", STATISTICS),
            helper.make_node("Mul", ["a", "b"], ["h"]),
        ],
        {**STATISTICS, "factor": 2},
    )
    model.producer_name = "pytorch"
    _, values = train(model, tmp_path, "twice")
    mean, variance = np.zeros(WIDTH), np.ones(WIDTH)
    x = np.load(tmp_path / "data.npz")["x"].astype(np.float64)
    for _ in range(3):
        for begin in range(0, SAMPLES, 16):
            for batch in (x[begin : begin + 16], 2 * x[begin : begin + 16]):
                mean = 0.9 * mean + 0.1 * batch.mean(0)
                variance = 0.9 * variance + 0.1 * batch.var(0, ddof=1)
    np.testing.assert_allclose(values["bn.running_mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(values["bn.running_var"], variance, rtol=1e-5)


def test_layers_without_scale_that_are_called_twice_are_apart(tmp_path):
    """The exporter keeps one of two layers that start equal. A call that reads
    a result of an earlier call is the next call of the same module."""
    shared = ("one", "zero", "a.running_mean", "a.running_var")
    buffers = {s: [f"%b_{s}_running_mean", f"%b_{s}_running_var"] for s in "ab"}
    later = {"a": ["%getitem_3", "%getitem_4"], "b": ["%getitem_8", "%getitem_9"]}
    factors = {"a": 1, "b": 2, "a2": 3, "b2": 4}

    def norms(operands):
        nodes = []
        for name in factors:
            source = (later if name.endswith("2") else buffers)[name[0]]
            nodes += [
                helper.make_node("Mul", ["x", f"factor_{name}"], [f"x.{name}"]),
                batch_norm(
                    *(name[0], f"x.{name}", f"y.{name}", operands(name[0])),
                    ["None", "None", *source],
                ),
            ]
        return [*nodes, helper.make_node("Sum", [f"y.{n}" for n in factors], ["h"])]

    values = {f"factor_{name}": np.float32(f) for name, f in factors.items()}
    model = finish(
        norms(lambda layer: shared),
        {**dict(zip(shared, STATISTICS.values())), **values},
    )
    _, written = train(model, tmp_path, "merged")
    x = np.load(tmp_path / "data.npz")["x"].astype(np.float64)
    for layer in "ab":
        mean = np.zeros(WIDTH)
        for _ in range(3):
            for begin in range(0, SAMPLES, 16):
                for name in (layer, f"{layer}2"):
                    batch = factors[name] * x[begin : begin + 16]
                    mean = 0.9 * mean + 0.1 * batch.mean(0)
        np.testing.assert_allclose(written[f"{layer}.running_mean"], mean, rtol=1e-4)


@pytest.mark.parametrize("producer", ["", "pytorch"])
def test_statistics_of_two_layers_are_refused(producer, tmp_path):
    """PyTorch's older exporter merges no initializers, but a later tool may
    have merged equal ones."""
    others = {"other.weight": np.ones(WIDTH)}
    operands = ("other.weight", "bn.bias", "bn.running_mean", "bn.running_var")
    model = finish(
        [
            batch_norm("", "x", "a", STATISTICS),
            batch_norm("", "a", "h", operands),
        ],
        {**STATISTICS, **others},
    )
    model.producer_name = producer
    for node in model.graph.node[:2]:
        node.output.extend([f"{node.output[0]}.mean", f"{node.output[0]}.var"])
        node.attribute.append(helper.make_attribute("training_mode", 1))
    onnx.save(model, tmp_path / "model.onnx")
    result = mpctest.mpc(
        "check", tmp_path / "model.onnx", *FLAGS[:2], "--batch-size", "16"
    )
    assert result.returncode == 1
    assert "'bn.running_mean' also belongs to another BatchNormalization" in (
        result.stdout + result.stderr
    )


def test_statistics_that_a_weight_is_computed_with_are_updated(tmp_path):
    """PyTorch's convolutions for quantisation-aware training divide weights by
    the running deviation. A variance with unequal elements was not merged by
    chance, and is not a weight."""
    variance = np.array([0.5, 1, 2, 4])
    mean = np.array([0.1, 0, -0.2, 1])
    names = ["bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"]
    random = np.random.default_rng(0)
    weights = {
        "bn.weight": np.ones(WIDTH, np.float32),
        "bn.bias": np.zeros(WIDTH, np.float32),
        "bn.running_mean": mean.astype(np.float32),
        "bn.running_var": variance.astype(np.float32),
        "fc.weight": random.normal(size=(WIDTH, 1)).astype(np.float32),
        "column": np.array([WIDTH, 1]),
    }
    model = mpctest.make_model(
        [
            helper.make_node("Sqrt", ["bn.running_var"], ["deviation"]),
            helper.make_node("Reshape", ["deviation", "column"], ["factor"]),
            helper.make_node("Mul", ["fc.weight", "factor"], ["scaled"]),
            helper.make_node("BatchNormalization", ["x", *names], ["h"]),
            helper.make_node("MatMul", ["h", "scaled"], ["y"]),
        ],
        {"x": (np.float32, ["N", WIDTH])},
        {"y": (np.float32, ["N", 1])},
        weights,
    )
    x = random.normal(2, 3, size=(SAMPLES, WIDTH)).astype(np.float32)
    metrics, trained = mpctest.train(
        model,
        {"x": x, "target": np.zeros((SAMPLES, 1), np.float32)},
        tmp_path,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", "1e-9"),
        *("--batch-size", "16", "--running-variance", "population"),
    )
    expected = []
    for rows in range(0, SAMPLES, 16):
        batch = x[rows : rows + 16].astype(np.float64)
        h = (batch - batch.mean(0)) / np.sqrt(batch.var(0) + 1e-5)
        y = h @ (weights["fc.weight"] * np.sqrt(variance)[:, None])
        expected.append((y**2).mean())
        variance = 0.9 * variance + 0.1 * batch.var(0)
    np.testing.assert_allclose(mpctest.losses(metrics), expected, rtol=1e-5)
    np.testing.assert_allclose(trained["bn.running_var"], variance, rtol=1e-5)
