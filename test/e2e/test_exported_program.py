"""Models that PyTorch's exporter has optimized train as the program would: what its
metadata says of the program is read back.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper

import mpctest

WIDTH, SAMPLES = 4, 32
FLAGS = ("--loss", "mse", "--optimizer", "sgd", "--lr", "0.1", "--batch-size", "8")
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
ORIGINAL = "pkg.torch.onnx.original_node_name"
FOLDED = "pkg.onnxscript.optimizer.folded_from"


def node(call, op, inputs, output, **attributes):
    """A node that comes from a call such as "linear.default(%x, %p_w)"."""
    made = helper.make_node(op, inputs, [output], **attributes)
    target, arguments = call.rstrip(")").split("(", 1)
    text = f"%v : [num_users=1] = call_function[target=torch.ops.aten.{target}]"
    text += f"(args = ({arguments}), kwargs = {{}})"
    made.metadata_props.add(key="pkg.torch.onnx.fx_node", value=text)
    return made


def make_model(nodes, weights, parameters=(), folded=None):
    """`parameters` are the program's, `folded` what was computed of which."""
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", WIDTH])},
        {"y": (np.float32, ["N", None])},
        {k: np.asarray(v, np.float32) for k, v in weights.items()},
        18,
    )
    lines = ["", "# inputs"]
    for name in parameters:
        source = "p_" + name.replace(".", "_")
        lines.append(f"{source}: PARAMETER target='{name}'")
        if name in weights:
            info = model.graph.value_info.add(name=name)
            info.metadata_props.add(key=KIND, value="PARAMETER")
            info.metadata_props.add(key=ORIGINAL, value=source)
    for name, sources in (folded or {}).items():
        info = model.graph.value_info.add(name=name)
        info.metadata_props.add(key=FOLDED, value=str(sources))
    model.graph.metadata_props.add(
        key="pkg.torch.export.ExportedProgram.graph_signature",
        value="\n".join([*lines, "x: USER_INPUT", "", "# outputs", "y: USER_OUTPUT"]),
    )
    return model


def train(model, folder, width=1):
    """The losses of the steps, and what is written by name."""
    random = np.random.default_rng(1)
    x = random.normal(0.5, 2, size=(SAMPLES, WIDTH)).astype(np.float32)
    target = np.stack([np.abs(x).sum(1) - i for i in range(width)], 1)
    events, values = mpctest.train(
        model, {"x": x, "target": target}, folder, *FLAGS, "--precision", "64-true"
    )
    onnx.checker.check_model(onnx.load(folder / "trained.onnx"), full_check=True)
    return mpctest.losses(events), values


def assert_trains_alike(tmp_path, optimized, apart, width=1):
    """Returns the values of `optimized`."""
    losses, values = train(optimized, tmp_path / "optimized", width)
    expected, _ = train(apart, tmp_path / "apart", width)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    return values


def matrix(rows, columns, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(0, 0.5, size=(rows, columns)).astype(np.float32)


def test_ones_of_group_normalizations_are_constants(tmp_path):
    """Those of its instances: the scales that follow are the parameters."""

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
    """Not the mask that is learned."""

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
    """Two LayerNormalizations, one behind the other."""
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
    """One for a layer that is called twice, by the program's name."""

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


def tied(read, extra, folded):
    """A layer that is called twice, and a head that is its transposition."""
    first, second, head = read
    nodes = [
        node("linear.default(%x, %p_w)", "MatMul", ["x", first], "h"),
        helper.make_node("Tanh", ["h"], ["t"]),
        node("linear.default(%t, %p_w)", "MatMul", ["t", second], "k"),
        helper.make_node("Tanh", ["k"], ["u"]),
        node("matmul.default(%u, %p_w)", "MatMul", ["u", head], "y"),
    ]
    return make_model(nodes, {"w": matrix(WIDTH, WIDTH), **extra}, ["w"], folded)


def test_transpositions_of_a_parameter_are_trained_as_one(tmp_path):
    """The exporter computes one for each product that reads it."""
    transposed = matrix(WIDTH, WIDTH).T
    several = tied(
        ("val_5", "val_7", "w"),
        {"val_5": transposed, "val_7": transposed},
        {"val_5": ["w"], "val_7": ["w"]},
    )
    one = tied(("wt", "wt", "w"), {}, {})
    one.graph.node.insert(0, helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]))
    values = assert_trains_alike(tmp_path, several, one, WIDTH)
    assert values.keys() == {"w"}


def test_transpositions_without_the_parameter_are_trained_as_one(tmp_path):
    transposed = matrix(WIDTH, WIDTH).T
    several = tied(
        ("val_5", "val_7", "head"),
        {"val_5": transposed, "val_7": transposed, "head": matrix(WIDTH, WIDTH, 3)},
        {"val_5": ["v"], "val_7": ["v"]},
    )
    one = tied(
        ("v", "v", "head"), {"v": transposed, "head": matrix(WIDTH, WIDTH, 3)}, {}
    )
    assert_trains_alike(tmp_path, several, one, WIDTH)


def linear(weights, folded, parameters=("a.weight", "b.weight")):
    """Two linear layers, of which the exporter keeps the transposed weights."""
    nodes = [
        node("linear.default(%x, %p_a_weight)", "MatMul", ["x", "val_1"], "h"),
        helper.make_node("Tanh", ["h"], ["t"]),
        node("linear.default(%t, %p_b_weight)", "Gemm", ["t", "val_2"], "y"),
    ]
    return make_model(nodes, weights, parameters, folded)


def make_linear():
    weights = {"val_1": matrix(WIDTH, 5), "val_2": matrix(5, 2)}
    return linear(weights, {"val_1": ["a.weight"], "val_2": ["b.weight"]}), weights


def test_transposed_weights_have_the_name_and_layout_of_the_program(tmp_path):
    model, weights = make_linear()
    same, values = linear(weights, {}), {}
    losses, values = train(model, tmp_path / "restored", 2)
    expected, numbered = train(same, tmp_path / "numbered", 2)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    assert values.keys() == {"a.weight", "b.weight"}
    np.testing.assert_allclose(values["a.weight"].T, numbered["val_1"], rtol=1e-6)
    np.testing.assert_allclose(values["b.weight"].T, numbered["val_2"], rtol=1e-6)


def test_transposed_weights_in_a_file_of_their_own(tmp_path):
    """Those that are not trained are written as they are now called, too."""
    model, weights = make_linear()
    onnx.save(
        *(model, tmp_path / "model.onnx"),
        save_as_external_data=True,
        location="model.data",
        size_threshold=0,
    )
    x = np.random.default_rng(1).normal(size=(8, WIDTH)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, target=np.zeros((8, 2), np.float32))
    mpctest.mpc_ok(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *(*FLAGS, "--freeze", "b.weight", "--max-steps", 1),
        *("--output", tmp_path / "trained.onnx"),
    )
    written = onnx.load(tmp_path / "trained.onnx")
    onnx.checker.check_model(written, full_check=True)
    values = {t.name: numpy_helper.to_array(t) for t in written.graph.initializer}
    np.testing.assert_array_equal(values["b.weight"], weights["val_2"].T)
    assert values["a.weight"].shape == (5, WIDTH)
    assert not np.array_equal(values["a.weight"], weights["val_1"].T)
    y = mpctest.run(written, {"x": x}, tmp_path)["y"]
    expected = np.tanh(x @ values["a.weight"].T) @ values["b.weight"].T
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_weights_that_are_no_transposition_keep_their_number(tmp_path):
    """The program's call has another parameter than the file says, or a product
    that transposes; and a name that is taken stays what it is."""
    weights = {"val_1": matrix(WIDTH, 5), "val_2": matrix(5, 2)}
    model = linear(weights, {"val_1": ["b.weight"], "val_2": ["h"]}, ["a.weight", "h"])
    _, values = train(model, tmp_path, 2)
    assert values.keys() == {"val_1", "val_2"}


def test_transposition_that_was_changed_since_is_left(tmp_path):
    changed = tied(
        ("val_5", "val_5", "w"),
        {"val_5": matrix(WIDTH, WIDTH, 5)},
        {"val_5": ["w"]},
    )
    _, values = train(changed, tmp_path, WIDTH)
    assert values.keys() == {"w", "val_5"}
