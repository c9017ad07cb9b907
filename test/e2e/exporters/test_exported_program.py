"""Models that PyTorch's exporter has optimized train like the program: mpc
restores the program's operands from metadata.

SPDX-License-Identifier: Apache-2.0
"""

import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mpctest
from exported_program import KIND, WIDTH, assert_trains_alike, make_model, matrix
from exported_program import node, train


@pytest.mark.parametrize("source", ["index", "first.weight"])
def test_ones_of_a_functional_normalization_are_no_parameter(source, tmp_path):
    """layer_norm(h, [3]) without a scale gets ones from the exporter, and these
    are a constant. The recorded source of the ones is a value `index` that the
    graph has renamed. A scale that was folded from a parameter is trained."""
    first = node("linear(%x, %p_f)", "MatMul", ["x", "f"], "index")
    first.output[0] = "val_11"
    model = make_model(
        [
            first,
            node(
                "layer_norm.default(%index, [3])",
                *("LayerNormalization", ["val_11", "val_17"], "y"),
            ),
        ],
        {"f": matrix(WIDTH, 3), "val_17": np.ones(3)},
        ("f", "first.weight"),
        {"val_17": [source, "val_15"]},
    )
    _, values = train(model, tmp_path, 3)
    is_constant = np.array_equal(values["val_17"], np.ones(3))
    assert is_constant == (source == "index")


def test_ones_of_group_normalizations_are_constants(tmp_path):
    """The instances' own scales are constants. The scales that follow are the
    parameters."""

    def make(second, parameters):
        def norm(layer, x, y, scale, bias):
            parameters = f"%p_{layer}_weight, %p_{layer}_bias"
            call = f"group_norm.default(%x, 2, {parameters}, 1e-05)"
            return [
                node(call, "Reshape", [x, "groups"], layer + "g"),
                node(call, "InstanceNormalization", [layer + "g", *ones], layer + "n"),
                node(call, "Reshape", [layer + "n", "whole"], layer + "w"),
                node(call, "Mul", [layer + "w", scale], layer + "m"),
                node(call, "Add", [layer + "m", bias], y),
            ]

        ones = ("val_8", "val_11")
        nodes = [
            *norm("a", "x", "h", "val_20", "val_22"),
            *norm("b", "h", "k", *second),
            node("linear.default(%k, %p_f)", "Gemm", ["k", "f"], "y"),
        ]
        weights = {"val_8": np.ones(2), "val_11": np.zeros(2), "f": matrix(WIDTH, 1)}
        weights |= {"val_20": np.ones(WIDTH), "val_22": np.zeros(WIDTH)}
        weights |= {second[0]: np.ones(WIDTH), second[1]: np.zeros(WIDTH)}
        folded = {"val_8": ["val_6"], "val_11": ["val_9"]}
        folded |= {"val_20": ["a.weight", "val_1"], "val_22": ["a.bias", "val_1"]}
        model = make_model(nodes, weights, [*parameters, "f"], folded)
        for name, shape in (("groups", (0, 2, -1)), ("whole", (-1, WIDTH))):
            tensor = numpy_helper.from_array(np.array(shape), name)
            model.graph.initializer.append(tensor)
        return model

    names = [f"{layer}.{kind}" for layer in "ab" for kind in ("weight", "bias")]
    values = assert_trains_alike(
        tmp_path,
        make(("val_20", "val_22"), names),
        make(("scale", "bias"), ["scale", "bias"]),
    )
    np.testing.assert_array_equal(values["val_8"], np.ones(2))
    assert not np.array_equal(values["val_20"], values["val_20_2"])


def test_scale_of_attention_is_a_constant(tmp_path):
    """The scale of attention is a constant, but its mask is learned."""

    def make(second):
        def attend(mask, x, y):
            call = f"scaled_dot_product_attention.default(%x, %x, %x, %p_{mask})"
            return [
                node(call, "Mul", [x, "val_29"], y + "s"),
                node(call, "Add", [y + "s", second if mask == "q" else "p"], y),
            ]

        nodes = [
            *attend("p", "x", "h"),
            *attend("q", "h", "k"),
            node("linear.default(%k, %p_f)", "Gemm", ["k", "f"], "y"),
        ]
        weights = {"p": np.zeros(WIDTH), "val_29": [0.5], "f": matrix(WIDTH, 1)}
        weights[second] = np.zeros(WIDTH)
        return make_model(nodes, weights, ["p", "q", "f"])

    values = assert_trains_alike(tmp_path, make("p"), make("q"))
    np.testing.assert_array_equal(values["val_29"], np.float32([0.5]))
    assert "q" in values


def norms(arguments, operands):
    """Returns two LayerNormalizations in a row."""
    nodes, x = [], "x"
    for i, (call, read) in enumerate(zip(arguments, operands)):
        call = f"layer_norm.default(%{x}, [{WIDTH}], {', '.join(call)}, 1e-05)"
        nodes.append(node(call, "LayerNormalization", [x, *read], f"n{i}"))
        nodes.append(helper.make_node("Tanh", [f"n{i}"], [f"t{i}"]))
        x = f"t{i}"
    nodes.append(node(f"linear.default(%{x}, %p_f)", "Gemm", [x, "f"], "y"))
    weights = {name: np.ones(WIDTH) for name in (operands[0][0], operands[1][0])}
    weights |= {name: np.zeros(WIDTH) for name in (operands[0][1], operands[1][1])}
    weights["f"] = matrix(WIDTH, 1)
    return make_model(nodes, weights, ["a", "b", "c", "d", "f"])


def test_biases_of_normalizations_with_one_scale_are_two(tmp_path):
    calls = (("%p_a", "%p_b"), ("%p_a", "%p_d"))
    merged = norms(calls, (("a", "b"), ("a", "b")))
    values = assert_trains_alike(
        tmp_path, merged, norms(calls, (("a", "b"), ("a", "d")))
    )
    assert {"a", "b", "d"} <= values.keys() and "c" not in values


def test_ones_of_a_normalization_without_a_scale_stay_ones(tmp_path):
    calls = (("None", "None"), ("%p_a", "%p_b"))
    apart = norms(calls, (("val_1", "val_2"), ("a", "b")))
    for name in ("val_1", "val_2"):
        info = apart.graph.value_info.add(name=name)
        info.metadata_props.add(key=KIND, value="CONSTANT_TENSOR")
    merged = norms(calls, (("a", "b"), ("a", "b")))
    values = assert_trains_alike(tmp_path, merged, apart)
    np.testing.assert_array_equal(values["a_2"], np.ones(WIDTH))


def test_layers_that_are_copies_of_one_are_trained_apart(tmp_path):
    def make(second):
        nodes = [
            node("linear.default(%x, %p_a)", "Gemm", ["x", "a"], "h"),
            helper.make_node("Tanh", ["h"], ["t"]),
            node("linear.default(%t, %p_b)", "Gemm", ["t", second], "k"),
            node("linear.default(%k, %p_f)", "Gemm", ["k", "f"], "y"),
        ]
        weights = {"a": matrix(WIDTH, WIDTH), second: matrix(WIDTH, WIDTH)}
        return make_model(nodes, weights | {"f": matrix(WIDTH, 1, 1)}, ["a", "b", "f"])

    values = assert_trains_alike(tmp_path, make("a"), make("b"))
    assert not np.array_equal(values["a"], values["b"])


def test_biases_of_zeros_are_there_again(tmp_path):
    """A layer that is called twice gets one bias, with the program's name."""

    def make(biases):
        def linear(x, weight, bias, y):
            call = f"linear.default(%{x}, %p_{weight}, %p_{bias})"
            operands = [x, weight, bias] if biases else [x, weight]
            return node(call.replace(".b", "_b"), "Gemm", operands, y)

        nodes = [
            linear("x", "a", "a.bias", "h"),
            helper.make_node("Tanh", ["h"], ["t"]),
            linear("t", "a", "a.bias", "k"),
            linear("k", "f", "f.bias", "y"),
        ]
        weights = {"a": matrix(WIDTH, WIDTH), "f": matrix(WIDTH, 1)}
        if biases:
            weights |= {"a.bias": np.zeros(WIDTH), "f.bias": np.zeros(1)}
        return make_model(nodes, weights, ["a", "a.bias", "f", "f.bias"])

    values = assert_trains_alike(tmp_path, make(False), make(True))
    assert values["a.bias"].any() and values["f.bias"].any()


def test_biases_of_many_layers_are_there_again(tmp_path):
    """There are more biases than the table of tensors can hold without growing.
    A layer's own weights are read again after the growth."""

    def make(biases):
        nodes, weights, value = [], {}, "x"
        for i in range(30):
            call = f"linear.default(%{value}, %p_w{i}, %p_w{i}_bias)"
            operands = [value, f"w{i}"] + ([f"w{i}.bias"] if biases else [])
            nodes.append(node(call, "Gemm", operands, f"h{i}"))
            nodes.append(helper.make_node("Tanh", [f"h{i}"], [f"t{i}"]))
            weights[f"w{i}"] = matrix(WIDTH, WIDTH)
            if biases:
                weights[f"w{i}.bias"] = np.zeros(WIDTH)
            value = f"t{i}"
        nodes.append(helper.make_node("MatMul", [value, "f"], ["y"]))
        weights["f"] = matrix(WIDTH, 1)
        names = [name for i in range(30) for name in (f"w{i}", f"w{i}.bias")]
        return make_model(nodes, weights, [*names, "f"])

    values = assert_trains_alike(tmp_path, make(False), make(True))
    assert all(values[f"w{i}.bias"].any() for i in range(30))


def test_biases_of_convolutions_are_there_again(tmp_path):
    def make(biases):
        def conv(op, x, layer, y):
            call = f"convolution.default(%{x}, %p_{layer}, %p_{layer}_bias, [1])"
            operands = [x, layer, layer + ".bias"] if biases else [x, layer]
            return node(call, op, operands, y, group=2)

        nodes = [
            helper.make_node("Reshape", ["x", "image"], ["i"]),
            conv("Conv", "i", "c", "h"),
            conv("ConvTranspose", "h", "t", "k"),
            helper.make_node("Reshape", ["k", "flat"], ["y"]),
        ]
        weights = {"c": matrix(4, 1)[..., None], "t": matrix(4, 1)[..., None]}
        if biases:
            weights |= {"c.bias": np.zeros(4), "t.bias": np.zeros(2)}
        model = make_model(nodes, weights, ["c", "c.bias", "t", "t.bias"])
        for name, shape in (("image", (-1, 2, WIDTH // 2)), ("flat", (-1, WIDTH))):
            tensor = numpy_helper.from_array(np.array(shape), name)
            model.graph.initializer.append(tensor)
        return model

    values = assert_trains_alike(tmp_path, make(False), make(True), WIDTH)
    assert values["c.bias"].shape == (4,) and values["t.bias"].shape == (2,)


def branches(layer, weights, parameters, folded=None):
    """Returns two modules and a third one behind them. The data passes one of
    the two."""

    def body(name):
        output = helper.make_tensor_value_info("y" + name, 1, ["N", WIDTH])
        return helper.make_graph([layer(name, "x")], name, [], [output])

    bodies = {"then_branch": body("a"), "else_branch": body("b")}
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "limit"], ["is"]),
        helper.make_node("If", ["is"], ["h"], **bodies),
        layer("c", "h"),
        node("linear.default(%yc, %p_f)", "Gemm", ["yc", "f"], "y"),
    ]
    weights = weights | {"f": matrix(WIDTH, 1, 3), "limit": 16}
    return make_model(nodes, weights, [*parameters, "f"], folded)


def test_scales_in_bodies_come_apart(tmp_path):
    def make(scales):
        def norm(name, x):
            call = f"layer_norm.default(%{x}, [{WIDTH}], %p_{name}, None, 1e-05)"
            return node(call, "LayerNormalization", [x, scales[name]], "y" + name)

        weights = {name: np.ones(WIDTH) for name in scales.values()}
        return branches(norm, weights, "abc")

    merged, apart = dict.fromkeys("abc", "a"), {name: name for name in "abc"}
    values = assert_trains_alike(tmp_path, make(merged), make(apart))
    assert values.keys() >= {"a", "b", "c"}


def test_biases_in_bodies_are_there_again(tmp_path):
    biases = [name + ".bias" for name in "abc"]

    def make(bias):
        def linear(name, x):
            call = f"linear.default(%{x}, %p_{name}, %p_{name}_bias)"
            operands = [x, name, name + ".bias"] if bias else [x, name]
            return node(call, "Gemm", operands, "y" + name)

        weights = {name: matrix(WIDTH, WIDTH, i) for i, name in enumerate("abc")}
        weights |= {name: np.zeros(WIDTH) for name in biases if bias}
        return branches(linear, weights, [*"abc", *biases])

    values = assert_trains_alike(tmp_path, make(False), make(True))
    assert values.keys() >= set(biases)


def test_copies_that_bodies_read_are_trained_as_one(tmp_path):
    def make(names, folded):
        def product(name, x):
            call = f"linear.default(%{x}, %p_w)"
            return node(call, "MatMul", [x, names[name]], "y" + name)

        weights = {name: matrix(WIDTH, WIDTH) for name in names.values()}
        return branches(product, weights, ["w"], folded)

    several = {"a": "val_1", "b": "val_2", "c": "val_3"}
    values = assert_trains_alike(
        tmp_path,
        make(several, {name: ["w"] for name in several.values()}),
        make(dict.fromkeys("abc", "val_1"), {"val_1": ["w"]}),
    )
    assert values.keys() & {"w", *several.values()} == {"w"}


def test_bias_that_was_trained_since_is_not_added(tmp_path):
    """The values in the file prevail over its metadata."""
    linear = node("linear.default(%x, %p_w, %p_b)", "Gemm", ["x", "w"], "h")
    nodes = [linear, helper.make_node("Sub", ["h", "b"], ["y"])]
    weights = {"w": np.eye(WIDTH), "b": np.ones(WIDTH)}
    onnx.save(make_model(nodes, weights, ["w", "b"]), tmp_path / "model.onnx")
    x = np.arange(WIDTH, dtype=np.float32)[None]
    np.save(tmp_path / "x.npy", x)
    files = (f"x=@{tmp_path / 'x.npy'}", "--output", tmp_path / "y.npz")
    mpctest.mpc_ok("run", tmp_path / "model.onnx", "--input", *files)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], x - 1)


def warn(model, folder):
    onnx.save(model, folder / "model.onnx")
    flags = ("--loss", "mse", "--batch-size", 1)
    process = mpctest.mpc_ok("check", folder / "model.onnx", *flags)
    return [line for line in process.stdout.splitlines() if "warning" in line]


def test_parameters_that_were_left_out_are_named(tmp_path):
    """The call behind the first product shows that the product's result is
    missing."""
    nodes = [
        node("tanh.default(%mul", "Tanh", ["x"], "h"),
        node("linear.default(%h, %p_f, %p_bias)", "MatMul", ["h", "f"], "y"),
    ]
    model = make_model(nodes, {"f": matrix(WIDTH, 1)}, ["scale", "f", "bias"])
    (line,) = warn(model, tmp_path)
    assert "parameter 'scale' (and 1 more like it) of the program is not in" in line


def test_parameters_that_nothing_reads_are_not(tmp_path):
    nodes = [
        node("tanh.default(%x", "Tanh", ["x"], "h"),
        node("linear.default(%h, %p_f)", "MatMul", ["h", "f"], "y"),
    ]
    model = make_model(nodes, {"f": matrix(WIDTH, 1)}, ["scale", "f"])
    assert not warn(model, tmp_path)


def test_what_was_computed_from_a_parameter_is_named(tmp_path):
    """Covers a parameter that does not act as a weight, and a scalar. A value
    folded from the shape of data is not named."""
    nodes = [
        node("tanh.default(%x", "Tanh", ["x"], "x_"),
        node("cat.default([%x_, %repeat]", "Concat", ["x_", "rows"], "h", axis=0),
        node("linear.default(%h, %p_f)", "MatMul", ["h", "f"], "k"),
        node("mul.default(%k, %exp)", "Mul", ["k", "exp"], "l"),
        node("mul.default(%l, %one)", "Mul", ["l", "val_7"], "y"),
    ]
    weights = {"f": matrix(WIDTH, 1), "exp": 2, "rows": np.ones((1, WIDTH))}
    weights["val_7"] = np.ones((1, 2))
    folded = {"exp": ["t"], "rows": ["r", "val_1"], "val_7": ["x"]}
    model = make_model(nodes, weights, ["f", "t", "r"], folded)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    (line,) = warn(model, tmp_path)
    assert "parameter 'exp' (and 1 more like it) is a result that" in line


def test_biases_of_a_weight_without_data_are_not_all_added(tmp_path):
    """Each bias would take 64 MiB."""
    nodes = [
        node(f"linear.default(%x, %p_w, %p_b{i})", "Gemm", ["x", "w"], f"y{i}")
        for i in range(64)
    ]
    nodes.append(helper.make_node("Sum", [f"y{i}" for i in range(64)], ["y"]))
    names = [f"b{i}" for i in range(64)]
    model = make_model(nodes, {"w": np.ones((1, 1))}, ["w", *names])
    model.graph.initializer[0].dims[1] = 1 << 24
    onnx.save(model, tmp_path / "model.onnx")
    process = subprocess.run(
        ["sh", "-c", 'ulimit -d 2000000; exec "$@"', "sh", mpctest.MPC, "check"]
        + [tmp_path / "model.onnx", "--batch-size", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "'w': expected 67108864 bytes of data, found 4" in process.stdout


def test_calls_with_many_parameters_are_read_in_time(tmp_path):
    count = 20000
    names = [f"p{i}" for i in range(count)]
    call = f"cat.default([{', '.join('%p_' + name for name in names)}])"
    nodes = [
        node(call, "Concat", [f"w{i % 2}" for i in range(count)], "w", axis=0),
        node("linear.default(%x, %w)", "Gemm", ["x", "w"], "y", transB=1),
    ]
    weights = {"w0": np.ones((1, WIDTH)), "w1": np.ones((1, WIDTH))}
    onnx.save(make_model(nodes, weights, names), tmp_path / "model.onnx")
    mpctest.mpc_ok("check", tmp_path / "model.onnx", "--batch-size", 1)


def test_constants_that_the_exporter_numbers_are_not_trained(tmp_path):
    """Covers a state that starts as zeros, and a transposition in the program."""
    nodes = [
        node("linear.default(%x, %p_w)", "MatMul", ["x", "val_2"], "h"),
        node("zeros.default([%n, 4])", "Expand", ["val_6", "shape"], "zeros"),
        node("matmul.default(%zeros, %p_w)", "MatMul", ["zeros", "w"], "z"),
        node("add.default(%h, %z)", "Add", ["h", "z"], "y"),
    ]
    weights = {"w": matrix(WIDTH, WIDTH), "val_2": matrix(WIDTH, WIDTH, 1)}
    model = make_model(nodes, weights | {"val_6": 0}, ["w", "v"], {"val_2": ["v"]})
    shape = numpy_helper.from_array(np.array((8, WIDTH)), "shape")
    model.graph.initializer.append(shape)
    _, values = train(model, tmp_path, WIDTH)
    assert values["val_6"] == 0
    assert not np.array_equal(values["val_2"], weights["val_2"])


def test_parameter_that_was_renamed_is_trained_where_it_acts_as_none(tmp_path):
    nodes = [
        node("cat.default([%x, %p_r]", "Concat", ["x", "val_2"], "h", axis=1),
        node("linear.default(%h, %p_f)", "MatMul", ["h", "f"], "y"),
    ]
    weights = {"f": matrix(2 * WIDTH, 1), "val_2": matrix(8, WIDTH)}
    model = make_model(nodes, weights, ["f", "r"], {"val_2": ["r", "val_1"]})
    _, values = train(model, tmp_path)
    assert not np.array_equal(values["val_2"], weights["val_2"])


def test_keys_that_the_exporter_scaled_are_computed(tmp_path):
    call = "scaled_dot_product_attention.default(%x, %p_k, %p_v)"
    nodes = [
        node(call, "MatMul", ["x", "val_2"], "s"),
        node(call, "Softmax", ["s"], "a"),
        node(call, "MatMul", ["a", "v"], "y"),
    ]
    weights = {"val_2": matrix(WIDTH, 3), "v": matrix(3, 1)}
    model = make_model(nodes, weights, ["k", "v"], {"val_2": ["k", "val_1"]})
    (line,) = warn(model, tmp_path)
    assert "parameter 'val_2' is a result that" in line
