"""Operators handle edge cases: infinities, empty tensors, and NaN.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mpctest


def one_node(op, x, initializers, result, **attributes):
    """Returns a model of one node that reads x and initializers."""
    node = helper.make_node(op, ["x", *initializers], ["y"], "node", **attributes)
    return mpctest.make_model(
        [node],
        {"x": (x.dtype, x.shape)},
        {"y": (x.dtype, result)},
        initializers,
        opset=18,
    )


def test_log_sum_exp_of_infinities_is_infinite(tmp_path):
    x = np.array(
        [[-np.inf, -np.inf], [np.inf, 1], [np.inf, -np.inf], [-np.inf, 2]],
        np.float32,
    )
    model = one_node(
        "ReduceLogSumExp", x, {"axes": np.array([1])}, (4,), keepdims=0
    )
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(y, np.float32([-np.inf, np.inf, np.inf, 2]))


@pytest.mark.parametrize(
    "shape, axis", [((2, 5, 0), 1), ((0, 5), 1), ((2, 0, 3), 1), ((0,), 0)]
)
def test_cumulative_sums_of_no_elements(shape, axis, tmp_path):
    x = np.zeros(shape, np.float32)
    model = one_node("CumSum", x, {"axis": np.array(axis)}, shape)
    assert mpctest.run(model, {"x": x}, tmp_path)["y"].shape == shape


@pytest.mark.parametrize("share", [np.nan, np.inf, -1e18])
def test_refuses_crops_that_are_no_places(share, tmp_path):
    x = np.ones((2, 4), np.float32)
    model = one_node(
        "Resize",
        x,
        {
            "roi": np.array([0, share, 1, 1], np.float32),
            "scales": np.array([1, 2], np.float32),
        },
        (2, 8),
        coordinate_transformation_mode="tf_crop_and_resize",
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1
    assert "expected a region of interest with values from -2^30" in process.stdout


@pytest.mark.parametrize(
    "op, shape, attributes",
    [
        ("ArgMax", [1, 2**33], {"axis": 1}),
        ("EyeLike", [2**31, 2], {}),
        ("Hardmax", [2**33], {"axis": 0}),
    ],
)
def test_refuses_axes_whose_places_fill_memory(op, shape, attributes, tmp_path):
    node = helper.make_node(op, ["x"], ["y"], "node", **attributes)
    model = mpctest.make_model(
        [node], {"x": (np.float32, shape)}, {"y": (np.float32, None)}, {}
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1
    assert f"an axis of {max(shape)} elements is too long" in process.stdout


@pytest.mark.parametrize("scale", [2.0**23, 2.0**27])
def test_refuses_to_resize_to_places_that_fill_memory(scale, tmp_path):
    x = np.ones((2, 4), np.float32)
    scales = {"roi": np.zeros(0, np.float32), "scales": np.float32([1, scale])}
    model = one_node("Resize", x, scales, (2, int(4 * scale)))
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1
    assert "elements is too long" in process.stdout


def test_the_mean_of_integers_is_rounded_towards_zero(tmp_path):
    x = np.array([[7, -7, 2], [-8, 1, 1]], np.int64)
    model = one_node("ReduceMean", x, {"axes": np.array([1])}, (2,), keepdims=0)
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(y, [0, -2])


def test_prelu_has_its_slope_at_zero(tmp_path):
    """One step of rate 1 on the sum of prelu(w + 0), for w of 0, 1 and -1."""
    w, slope = np.array([0.0, 1.0, -1.0]), np.array([0.25, 0.25, 0.25])
    nodes = [
        helper.make_node("Add", ["x", "w"], ["sum"], "add"),
        helper.make_node("PRelu", ["sum", "slope"], ["y"], "prelu"),
        helper.make_node("ReduceSum", ["y"], ["loss"], "loss", keepdims=0),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float64, ["N", 3])},
        {"loss": (np.float64, [])},
        {"w": w, "slope": slope},
    )
    _, trained = mpctest.train(
        model,
        {"x": np.zeros((1, 3))},
        tmp_path,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1", "--train", "^(w|slope)$"),
        *("--precision", "64-true"),
    )
    np.testing.assert_array_equal(w - trained["w"], [0.25, 1, 0.25])
    np.testing.assert_array_equal(slope - trained["slope"], [0, 0, -1])


@pytest.mark.parametrize("size", [4, 7, 8, 2**40])
def test_lrn_reaches_all_channels_and_no_farther(size, tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    model = one_node("LRN", x, {}, x.shape, size=size, alpha=2.0, beta=0.5)
    before, after = (size - 1) // 2, size // 2
    sums = [
        (x[:, max(0, c - before) : c + after + 1] ** 2).sum(1) for c in range(3)
    ]
    expected = x / np.sqrt(1 + 2.0 / size * np.stack(sums, 1))
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_allclose(y, expected, 1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_remainders_of_one_number(dtype, tmp_path):
    x = np.array(-4.3, dtype)
    y = np.array([2.1, -3.4, 8, -2.1, 3.4, 5], dtype)
    model = one_node("Mod", x, {"divisors": y}, y.shape, fmod=1)
    z = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(z, np.fmod(x, y))


# Axes with no element, and with more elements than memory holds.
LONG = 1 << 40


@pytest.mark.parametrize(
    "op, shape, attributes, message",
    [
        ("Unique", (LONG, 0), {"axis": 0}, "is too long"),
        ("Einsum", (0, LONG, LONG), {"equation": "aii->ai"}, "is too long"),
        ("SplitToSequence", (LONG, 0), {"axis": 0}, "has too many parts"),
    ],
)
def test_refuses_to_list_a_long_axis_without_elements(
    op, shape, attributes, message, tmp_path
):
    nodes = [helper.make_node(op, ["x"], ["y"], "node", **attributes)]
    if op == "SplitToSequence":
        nodes[0].output[0] = "parts"
        nodes.append(
            helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=1)
        )
    inputs = {"x": (np.float32, shape)}
    known = {}
    if op == "Unique":  # reads a known value only
        known["shape"] = np.array(shape)
        inputs = {}
        nodes.insert(0, helper.make_node("ConstantOfShape", ["shape"], ["x"]))
    model = mpctest.make_model(
        nodes, inputs, {"y": (np.float32, None)}, known, opset=18
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("compile", tmp_path / "model.onnx", "--emit=import")
    assert process.returncode == 4, process.stderr
    assert message in process.stderr


@pytest.mark.parametrize("loss", ["softmax_cross_entropy", "nll"])
def test_refuses_a_loss_over_no_classes(loss, tmp_path):
    model = mpctest.make_model(
        [
            helper.make_node("Mul", ["x", "w"], ["scores"]),
            helper.make_node("Slice", ["scores", "begin", "begin", "axis"], ["y"]),
        ],
        {"x": (np.float32, (4, 3))},
        {"y": (np.float32, (4, 0))},
        {
            "w": np.ones(3, np.float32),
            "begin": np.array([0]),
            "axis": np.array([1]),
        },
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc(
        "compile", tmp_path / "model.onnx", "--loss", loss, "-o", tmp_path / "x.mpc"
    )
    assert process.returncode == 3, process.stderr
    assert "at least one sample and one class" in process.stderr


def train_on_all(model, x, tmp_path):
    """Does one step of rate 1 on all samples at once in float64. Returns the
    trained weights."""
    _, trained = mpctest.train(
        model,
        {"x": x},
        tmp_path,
        *("--loss", "output:loss", "--batch-size", len(x), "--max-steps", "1"),
        *("--lr", "1", "--optimizer", "sgd", "--precision", "64-true"),
    )
    return trained


def distance_model(x, w, power, root, shape=(1,)):
    """Returns the mean of torch.cdist(h, h, power) as PyTorch's older exporter
    writes it. `shape` is the shape of the constant `root`. The constants are
    nodes."""
    numbers = [
        helper.make_node(
            "Constant", [], [name], value=helper.make_tensor(name, 11, of, [value])
        )
        for name, value, of in (("power", power, ()), ("root", root, shape))
    ]
    model = mpctest.make_model(
        [
            *numbers,
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Unsqueeze", ["h", "one"], ["rows"]),
            helper.make_node("Unsqueeze", ["h", "none"], ["columns"]),
            helper.make_node("Sub", ["rows", "columns"], ["apart"]),
            helper.make_node("Pow", ["apart", "power"], ["powers"]),
            helper.make_node("ReduceSum", ["powers", "last"], ["sums"], keepdims=0),
            helper.make_node("Pow", ["sums", "root"], ["distances"]),
            helper.make_node("ReduceMean", ["distances"], ["loss"], keepdims=0),
        ],
        {"x": (np.float64, x.shape)},
        {"loss": (np.float64, [])},
        {
            "w": w,
            "one": np.array([1]),
            "none": np.array([0]),
            "last": np.array([-1]),
        },
        17,
    )
    model.producer_name = "pytorch"
    return model


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0, 1.5])
@pytest.mark.parametrize("eps", [1e-6, 1e-9, 1e-3])
def test_distance_of_points_from_themselves_has_no_slope(power, eps, tmp_path):
    """Only distances of two different points contribute to the gradient. For a
    power that is not even, the exporter omits the absolute values."""
    random = np.random.default_rng(0)
    x, w = random.normal(size=(4, 3)), random.normal(size=(3, 2))
    root = 1 / (power + eps)
    trained = train_on_all(distance_model(x, w, power, root), x, tmp_path)
    h = x @ w
    apart = h[:, None] - h[None]
    sums = (np.abs(apart) ** power).sum(-1) + np.eye(4)
    slopes = power * root * sums ** (root - 1) * (1 - np.eye(4)) / 16
    steps = np.abs(apart) ** (power - 1) * np.sign(apart)
    gradient = x.T @ (2 * (slopes[:, :, None] * steps).sum(1))
    np.testing.assert_allclose(trained["w"], w - gradient, rtol=1e-7)
    # The written model is right in any runtime.
    written = onnx.load(tmp_path / "trained.onnx")
    onnx.checker.check_model(written)
    ops = [node.op_type for node in written.graph.node]
    assert ops.count("Abs") == (power != 2), ops


@pytest.mark.parametrize("opset", [17, 18])
def test_distance_of_an_infinite_power_is_the_largest(opset, tmp_path):
    """The exporter writes a sum of powers, which is 1 for any two points."""
    random = np.random.default_rng(0)
    x, w = random.normal(size=(4, 3)), random.normal(size=(3, 2))
    model = distance_model(x, w, np.inf, 0.0)
    model.opset_import[0].version = opset
    trained = train_on_all(model, x, tmp_path)
    h = x @ w
    apart = h[:, None] - h[None]
    largest = np.abs(apart) == np.abs(apart).max(-1, keepdims=True)
    steps = np.sign(apart) * largest / 16
    gradient = x.T @ (2 * steps.sum(1))
    np.testing.assert_allclose(trained["w"], w - gradient, rtol=1e-7)
    onnx.checker.check_model(onnx.load(tmp_path / "trained.onnx"), full_check=True)


def test_distances_within_a_body_have_their_absolute_values(tmp_path):
    """Absolute values are restored in the body too. The body reads values of
    the outer graph."""
    x, w = np.ones((4, 3)), np.ones((3, 2))
    model = distance_model(x, w, 1.0, 1 / (1 + 1e-6))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    body = helper.make_graph(nodes[3:], "body", [], model.graph.output)
    other = helper.make_graph(
        [helper.make_node("Identity", ["zero"], ["none_at_all"])],
        "other",
        [],
        [helper.make_tensor_value_info("none_at_all", 11, [])],
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.0), "zero"))
    branches = {"then_branch": body, "else_branch": other}
    model.graph.node.extend(nodes[:3])
    model.graph.node.extend(
        [
            helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
            helper.make_node("Greater", ["top", "zero"], ["any"]),
            helper.make_node("If", ["any"], ["whole"], **branches),
        ]
    )
    model.graph.output[0].name = "whole"
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("compile", tmp_path / "model.onnx", "--emit=import")
    assert process.returncode == 0, process.stderr
    assert "mpc.abs" in process.stdout


@pytest.mark.parametrize("power", [3.0, 9.0])
def test_a_root_of_the_programs_own_powers_stays_what_it_is(power, tmp_path):
    x, w = np.ones((4, 3)), np.ones((3, 2))
    root = np.float32(1 / power)
    onnx.save(distance_model(x, w, power, root, ()), tmp_path / "model.onnx")
    process = mpctest.mpc("compile", tmp_path / "model.onnx", "--emit=import")
    assert process.returncode == 0, process.stderr
    assert "mpc.pow" in process.stdout and "mpc.abs" not in process.stdout


@pytest.mark.parametrize("bound", ["Max", "Clip"])
def test_distance_of_many_points_from_themselves_has_no_slope(bound, tmp_path):
    """Covers torch.cdist(h, h) of more than 25 points by a matrix product, as
    the older exporter (Max) and the newer exporter (Clip) write it. Whole
    numbers make distances of exactly 0."""
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, size=(30, 3)).astype(np.float64)
    x[1] = x[0]
    w = random.integers(-3, 4, size=(3, 2)).astype(np.float64)
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Pow", ["h", "two"], ["squares"]),
            helper.make_node("ReduceSum", ["squares", "last"], ["sizes"]),
            helper.make_node("Shape", ["sizes"], ["shape"]),
            helper.make_node(
                "ConstantOfShape",
                ["shape"],
                ["ones"],
                value=helper.make_tensor("one", 11, [1], [1.0]),
            ),
            helper.make_node("Mul", ["minus", "h"], ["twice"]),
            helper.make_node("Concat", ["twice", "sizes", "ones"], ["a"], axis=-1),
            helper.make_node("Concat", ["h", "ones", "sizes"], ["b"], axis=-1),
            helper.make_node("Transpose", ["b"], ["c"], perm=[1, 0]),
            helper.make_node("MatMul", ["a", "c"], ["product"]),
            helper.make_node(bound, ["product", "zero"], ["sums"]),
            helper.make_node("Sqrt", ["sums"], ["distances"]),
            helper.make_node("ReduceMean", ["distances"], ["loss"], keepdims=0),
        ],
        {"x": (np.float64, x.shape)},
        {"loss": (np.float64, [])},
        {
            "w": w,
            "last": np.array([-1]),
            "two": np.array(2.0),
            "minus": np.array(-2.0),
            "zero": np.array(0.0),
        },
        17,
    )
    trained = train_on_all(model, x, tmp_path)
    h = x @ w
    apart = h[:, None] - h[None]
    distances = np.sqrt((apart**2).sum(-1))
    same = distances == 0
    assert same.sum() > 30
    slopes = np.where(same, 0, 1 / np.where(same, 1, distances)) / 900
    gradient = x.T @ (2 * (slopes[:, :, None] * apart).sum(1))
    np.testing.assert_allclose(trained["w"], w - gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bound", ["Max", "Clip"])
def test_root_of_what_is_below_a_bound_has_no_slope(bound, tmp_path):
    """Covers x.clamp(min=0).sqrt(). The root's slope is infinite at the bound,
    but the clamp passes no gradient there."""
    x = np.array([[1.0, 2.0], [-1.0, 0.5]])
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node(bound, ["h", "zero"], ["positive"]),
            helper.make_node("Sqrt", ["positive"], ["roots"]),
            helper.make_node("ReduceSum", ["roots"], ["loss"], keepdims=0),
        ],
        {"x": (np.float64, x.shape)},
        {"loss": (np.float64, [])},
        {"w": np.array([[1.0], [0.5]]), "zero": np.array(0.0)},
        17,
    )
    trained = train_on_all(model, x, tmp_path)
    gradient = x[:1].T / (2 * np.sqrt(2))
    np.testing.assert_allclose(
        trained["w"], [[1], [0.5]] - gradient, rtol=1e-12
    )


@pytest.mark.parametrize("bound", ["Max", "Clip"])
def test_root_of_another_product_has_an_infinite_slope_at_zero(bound, tmp_path):
    """This product of three joined parts is not a distance. Its gradient is
    NaN, as in PyTorch."""
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Concat", ["h", "h", "h"], ["a"], axis=-1),
            helper.make_node("MatMul", ["a", "c"], ["product"]),
            helper.make_node(bound, ["product", "zero"], ["sums"]),
            helper.make_node("Sqrt", ["sums"], ["roots"]),
            helper.make_node("ReduceMean", ["roots"], ["loss"], keepdims=0),
        ],
        {"x": (np.float64, (4, 3))},
        {"loss": (np.float64, [])},
        {"w": np.ones((3, 2)), "c": np.zeros((6, 2)), "zero": np.array(0.0)},
        17,
    )
    onnx.save(model, tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", x=np.ones((4, 3)))
    process = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *("--loss", "output:loss", "--batch-size", "4", "--max-steps", "1"),
        *("--lr", "1", "--optimizer", "sgd", "--precision", "64-true"),
        *("--output", tmp_path / "trained.onnx"),
    )
    assert process.returncode == 7, process.stderr


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_erf_of_zeros_keeps_the_sign(dtype, tmp_path):
    x = np.array([-0.0, 0.0, -1e-3, 1.0] * 5, dtype)
    model = one_node("Erf", x, {}, x.shape)
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))


def test_refuses_an_lstm_with_a_projection(tmp_path):
    """PyTorch's exporter writes proj_size=3 of 8 hidden units and loses most
    rows of the weights."""
    inputs = ["x", "w", "r", "b", "", "h", "c"]
    model = mpctest.make_model(
        [helper.make_node("LSTM", inputs, ["y"], "rnn", hidden_size=3)],
        {"x": (np.float32, (4, 2, 5))},
        {"y": (np.float32, (4, 1, 2, 3))},
        {
            "w": np.ones((1, 12, 5), np.float32),
            "r": np.ones((1, 12, 3), np.float32),
            "b": np.ones((1, 24), np.float32),
            "h": np.zeros((1, 2, 3), np.float32),
            "c": np.zeros((1, 2, 8), np.float32),
        },
        17,
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx")
    assert process.returncode == 1, process.stderr
    assert (
        "node 'rnn' (LSTM): initial_h has 3 elements for each sample and "
        "initial_c 8: an LSTM with a projection (proj_size of torch.nn.LSTM)"
    ) in process.stdout
    assert "export it without proj_size" in process.stdout


CLAMP = "%clamp = call_function[target=torch.ops.aten.clamp.Tensor](args = (%h, {}))"
OF_NUMBER, OF_TENSOR = CLAMP.format("%scalar_tensor_default"), CLAMP.format("%b")
HARDTANH = "%h = call_function[target=torch.ops.aten.hardtanh.default](args = (%x,))"
TIES = {  # the share of the gradient that a value at its bound has
    "maximum": ("Max", "node_maximum", "", "2.15.0", 0.5),
    "minimum": ("Min", "node_maximum", "", "2.9.1", 0.5),
    "clamp from below": ("Max", "node_Max_3", OF_NUMBER, "2.9.1", 1.0),
    "clamp from above": ("Min", "node_Min_3", OF_TENSOR, "2.14.0+cpu", 1.0),
    "clamp without metadata": ("Max", "node_clamp", "", "", 1.0),
    "clamp at a number": ("Max", "node_clamp", OF_NUMBER, "2.15.0+cu132", 0.0),
    "clamp at a tensor": ("Min", "node_clamp", OF_TENSOR, "2.16.0", 0.5),
    "clip": ("Clip", "clip", "", "2.14.1", 1.0),
    "clip of another tool": ("Clip", "clip", "", "", 1.0),
    "clip since 2.15": ("Clip", "clip", "", "2.15.0", 0.0),
    "clip at a number": ("Clip", "node_clamp", OF_NUMBER, "2.15.0", 0.0),
    "clip at a tensor": ("Clip", "node_clamp", OF_TENSOR, "2.15.0", 0.5),
    "hardtanh": ("Clip", "n4", HARDTANH, "2.9.1", 0.0),
}


@pytest.mark.parametrize("bound", ("constant", "trained"))
@pytest.mark.parametrize("name", TIES)
def test_a_value_at_its_bound(name, bound, tmp_path):
    """As in the PyTorch that wrote the file; plain maximum gives half."""
    op, node, metadata, version, share = TIES[name]
    if name == "clip since 2.15" and bound == "trained":
        share = 0.5  # a trained bound is a tensor
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"], "h"),
        helper.make_node(op, ["h", "b"], ["y"], node),
        helper.make_node("ReduceSum", ["y"], ["loss"], "loss", keepdims=0),
    ]
    if metadata:
        nodes[1].metadata_props.add(key="pkg.torch.onnx.fx_node", value=metadata)
    w = np.array([-1, 0, 2], np.float32)
    b = np.zeros(() if op == "Clip" else 3, np.float32)
    model = mpctest.make_model(
        nodes, {"x": (np.float32, [1, 3])}, {"loss": (np.float32, [])}, {"w": w, "b": b}
    )
    model.producer_name, model.producer_version = "pytorch", version
    _, trained = mpctest.train(
        *(model, {"x": np.ones((1, 3), np.float32)}, tmp_path),
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1"),
        *("--train", "^[wb]$" if bound == "trained" else "^w$"),
    )
    of_value = [1, share, 0] if op == "Min" else [0, share, 1]
    np.testing.assert_array_equal(w - trained["w"], of_value)
    # A clamp gives its bound nothing there; two equal inputs have a half each.
    at_bound = 0.5 if share == 0.5 else 0
    of_bound = np.array([0, at_bound, 1] if op == "Min" else [1, at_bound, 0])
    of_bound = of_bound.sum() if op == "Clip" else of_bound
    of_bound = of_bound if bound == "trained" else 0
    np.testing.assert_array_equal(b - trained["b"], np.broadcast_to(of_bound, b.shape))


def test_relu6_passes_no_gradient_at_its_bounds(tmp_path):
    """As in PyTorch and TensorFlow, whoever wrote the file."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"], "h"),
        helper.make_node("Clip", ["h", "low", "high"], ["y"], "relu6"),
        helper.make_node("ReduceSum", ["y"], ["loss"], "loss", keepdims=0),
    ]
    w = np.array([-1, 0, 2, 6, 7], np.float32)
    model = mpctest.make_model(
        *(nodes, {"x": (np.float32, [1, 5])}, {"loss": (np.float32, [])}),
        {"w": w, "low": np.float32(0), "high": np.float32(6)},
    )
    _, trained = mpctest.train(
        *(model, {"x": np.ones((1, 5), np.float32)}, tmp_path),
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1", "--train", "^w$"),
    )
    np.testing.assert_array_equal(w - trained["w"], [0, 0, 1, 0, 0])


def test_bounds_of_clip_are_trained(tmp_path):
    """The lower bound is computed from the trained upper bound, and a third
    bound from data."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"], "h"),
        helper.make_node("Neg", ["high"], ["low"]),
        helper.make_node("Clip", ["h", "low", "high"], ["inner"], "clip"),
        helper.make_node("ReduceMin", ["x"], ["least"], keepdims=0),
        helper.make_node("Clip", ["inner", "", "least"], ["y"], "of_data"),
        helper.make_node("ReduceSum", ["y"], ["loss"], "loss", keepdims=0),
    ]
    w = np.array([-3, -2.5, 0.5, 2.5, 0.75], np.float32)
    model = mpctest.make_model(
        *(nodes, {"x": (np.float32, [1, 5])}, {"loss": (np.float32, [])}),
        {"w": w, "high": np.array(2, np.float32)},
    )
    _, trained = mpctest.train(
        *(model, {"x": np.ones((1, 5), np.float32)}, tmp_path),
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1", "--train", "^(w|high)$"),
    )
    np.testing.assert_array_equal(w - trained["w"], [0, 0, 1, 0, 1])
    np.testing.assert_array_equal(2 - trained["high"], -2)
