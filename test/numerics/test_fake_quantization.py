"""Fake quantisation (QuantizeLinear and DequantizeLinear of floats) has its
defined results and gradient, which passes straight through the rounding. Finite
differences would see steps with slope 0, so the reference is the definition,
and PyTorch where installed.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mpctest

F4 = np.float32
MODES = ("32-true", "bf16-mixed", "16-mixed")
# For each name: the type, the zero points, the bounds of a Clip between the two
# nodes, and the axis of the scales.
FORMS = {
    "bytes": ("u1", 128, None, None),
    "signed": ("i1", 0, None, None),
    "seven_bits": ("u1", 0, (None, 127), None),
    "narrow": ("i1", 3, (-127, 127), None),
    "short": ("i2", -5, None, None),
    "no_zero_point": ("u1", None, None, None),
    "rows": ("i1", [0, 1, -2, 7, 0, 0], None, 0),
    "columns": ("u1", [100, 120, 128, 0, 255], None, 1),
    "last": ("i1", [0, 1, 2, 3, 4], None, -1),
}
SHAPE = (6, 5)


def spread(value, axis):
    value = np.asarray(value, np.float64)
    lines = [1] * len(SHAPE)
    if axis is not None:
        lines[axis] = -1
    return value.reshape(lines if value.ndim else ())


def quantize(name):
    """Returns x, the scale, and PyTorch's fake_quantize of them: the result,
    and a mask of the gradient."""
    dtype, zero, bounds, axis = FORMS[name]
    random = np.random.RandomState(len(name))
    count = () if axis is None else (SHAPE[axis],)
    # Also in 16 bits, many values exceed the range.
    step = 2.0**-12 if dtype == "i2" else 2.0**-5
    scale = np.asarray(step * (1 + random.rand(*count)), F4)
    limits = np.iinfo(dtype)
    low, high = bounds or (None, None)
    low = limits.min if low is None else low
    high = limits.max if high is None else high
    s, z = spread(scale, axis), spread(zero or 0, axis)
    # Whole numbers plus up to a third of a step, from below the range to beyond
    # it, including the bounds.
    p = random.randint(low - (high - low) // 4, high + (high - low) // 4, SHAPE)
    p[0, :4] = low, high, low - 1, high + 1
    x = ((p - z + random.uniform(-0.33, 0.33, SHAPE)) * s).astype(F4)
    q = np.clip(p, low, high)
    return {
        "x": x,
        "scale": scale,
        "y": (q - z) * s,
        "passes": p == q,
        # The scale's gradient if rounding had slope 1.
        "by_scale": np.where(p == q, p - z - x / s, q - z),
        "axis": axis,
    }


def make_pair(name, source, target, scale):
    """Returns the nodes, and their initializers without the scale."""
    dtype, zero, bounds, axis = FORMS[name]
    attributes = {} if axis is None else {"axis": axis}
    tensors, points = {}, []
    if zero is not None:
        tensors["zero"], points = np.asarray(zero, dtype), ["zero"]
    middle = "integers"
    nodes = []
    if bounds:
        for key, bound in zip(("low", "high"), bounds):
            if bound is not None:
                tensors[key] = np.asarray(bound, dtype)
        names = [key if key in tensors else "" for key in ("low", "high")]
        nodes = [helper.make_node("Clip", ["integers", *names], ["bounded"], "clip")]
        middle = "bounded"
    return [
        helper.make_node(
            *("QuantizeLinear", [source, scale, *points], ["integers"]),
            *("quantize",),
            **attributes,
        ),
        *nodes,
        helper.make_node(
            *("DequantizeLinear", [middle, scale, *points], [target], "back"),
            **attributes,
        ),
    ], tensors


def train_step(nodes, initializers, direction, folder, *flags):
    """Returns the changes of x and scale in one step of SGD at rate 1. The loss
    is the sum of y * direction."""
    nodes = [
        *nodes,
        helper.make_node("Mul", ["y", "direction"], ["terms"], "weigh"),
        helper.make_node("ReduceSum", ["terms"], ["loss"], "sum", keepdims=0),
    ]
    model = mpctest.make_model(
        nodes,
        {"direction": (F4, ["N", *SHAPE])},
        {"loss": (F4, [])},
        initializers,
    )
    metrics, weights = mpctest.train(
        model,
        {"direction": direction[None]},
        folder,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1", "--train", "^(x|scale)$"),
        *flags,
    )
    taken = {k: initializers[k] - weights[k] for k in ("x", "scale")}
    return mpctest.losses(metrics)[0], taken


def direction():
    return np.random.RandomState(5).standard_normal(SHAPE).astype(F4)


@pytest.mark.parametrize("precision", MODES)
@pytest.mark.parametrize("name", FORMS)
def test_gradient_is_straight_through(name, precision, tmp_path):
    expected = quantize(name)
    nodes, tensors = make_pair(name, "x", "y", "scale")
    tensors = {"x": expected["x"], "scale": expected["scale"], **tensors}
    d = direction()
    loss, taken = train_step(
        nodes, tensors, d, tmp_path, "--precision", precision
    )
    # float32 rounds the sum's terms, and the parameter minus its gradient.
    size = np.abs(expected["y"] * d).sum()
    assert abs(loss - (expected["y"] * d).sum()) <= 1e-6 * size
    limit = 2.0**-23 * (np.abs(expected["x"]) + np.abs(d))
    assert (np.abs(taken["x"] - expected["passes"] * d) <= limit).all()
    axis = expected["axis"]
    others = tuple(i for i in range(2) if axis is None or i != axis % 2)
    by_scale = (expected["by_scale"] * d).sum(others)
    parts = np.abs(expected["by_scale"] * d).sum(others)
    assert (np.abs(taken["scale"] - by_scale) <= 2e-5 * parts + 1e-6).all()


@pytest.mark.parametrize("name", FORMS)
def test_gradient_is_that_of_pytorch(name, tmp_path):
    torch = pytest.importorskip("torch")
    dtype, zero, bounds, axis = FORMS[name]
    limits, given = np.iinfo(dtype), quantize(name)
    low, high = bounds or (None, None)
    low = limits.min if low is None else low
    high = limits.max if high is None else high
    x = torch.tensor(given["x"], requires_grad=True)
    if axis is None:
        y = torch.fake_quantize_per_tensor_affine(
            x, float(given["scale"]), zero or 0, int(low), int(high)
        )
    else:
        points = torch.tensor(zero, dtype=torch.int32)
        y = torch.fake_quantize_per_channel_affine(
            *(x, torch.tensor(given["scale"]), points),
            *(axis % 2, int(low), int(high)),
        )
    y.backward(torch.tensor(direction()))
    nodes, tensors = make_pair(name, "x", "y", "scale")
    tensors = {"x": given["x"], "scale": given["scale"], **tensors}
    _, taken = train_step(nodes, tensors, direction(), tmp_path)
    np.testing.assert_allclose(
        y.detach(), given["y"], atol=2.0**-22 * np.abs(given["y"]).max()
    )
    np.testing.assert_allclose(
        taken["x"], x.grad, atol=2.0**-22 * np.abs(given["x"]).max()
    )


def test_nodes_of_onnx_runtime_have_the_gradient_too(tmp_path):
    expected, d = quantize("short"), direction()
    nodes, tensors = make_pair("short", "x", "y", "scale")
    for node in nodes:
        node.domain = "com.microsoft"
    tensors = {"x": expected["x"], "scale": expected["scale"], **tensors}
    _, taken = train_step(nodes, tensors, d, tmp_path)
    limit = 2.0**-23 * (np.abs(expected["x"]) + np.abs(d))
    assert (np.abs(taken["x"] - expected["passes"] * d) <= limit).all()


@pytest.mark.parametrize("precision", MODES)
def test_results_are_the_integers_results(precision, tmp_path):
    """The one op gives the results of the two nodes, which compute integers."""
    name = "columns"
    given = quantize(name)
    nodes, tensors = make_pair(name, "x", "y", "scale")
    model = mpctest.make_model(
        nodes,
        {"x": (F4, SHAPE)},
        {"y": (F4, SHAPE), "integers": (np.uint8, SHAPE)},
        {"scale": given["scale"], **tensors},
    )
    got = mpctest.run(model, {"x": given["x"]}, tmp_path, "--precision", precision)
    difference = got["integers"] - spread(tensors["zero"], 1)
    expected = difference.astype(F4) * spread(given["scale"], 1).astype(F4)
    np.testing.assert_array_equal(got["y"], expected)


def test_what_is_not_a_number_stays_that(tmp_path):
    nodes, tensors = make_pair("bytes", "x", "y", "scale")
    model = mpctest.make_model(
        nodes,
        {"x": (F4, [3])},
        {"y": (F4, [3])},
        {"scale": np.asarray(0.5, F4), **tensors},
    )
    x = np.array([np.nan, np.inf, -np.inf], F4)
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    np.testing.assert_array_equal(y, [np.nan, 63.5, -64])


WIDTHS = (12, 16, 4)


def network():
    """Returns two layers of quantisation-aware training: weights by output
    channel, activations by tensor."""
    random = np.random.RandomState(9)
    tensors, nodes, value = {}, [], "x"
    for i, (inputs, outputs) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        w = (random.standard_normal((inputs, outputs)) / 3).astype(F4)
        tensors |= {
            f"w{i}": w,
            f"b{i}": (random.standard_normal(outputs) / 8).astype(F4),
            f"ws{i}": np.abs(w).max(0) / F4(127),
            f"wz{i}": np.zeros(outputs, np.int8),
            f"xs{i}": np.asarray(0.04 if i == 0 else 0.02, F4),
            f"xz{i}": np.asarray(128 if i == 0 else 0, np.uint8),
        }
        for kind, source, axis in (("x", value, None), ("w", f"w{i}", 1)):
            scales = [f"{kind}s{i}", f"{kind}z{i}"]
            attributes = {} if axis is None else {"axis": axis}
            nodes += [
                helper.make_node(
                    *("QuantizeLinear", [source, *scales], [f"{kind}q{i}"]),
                    **attributes,
                ),
                helper.make_node(
                    *("DequantizeLinear", [f"{kind}q{i}", *scales]),
                    *([f"{kind}f{i}"],),
                    **attributes,
                ),
            ]
        nodes += [
            helper.make_node("MatMul", [f"xf{i}", f"wf{i}"], [f"p{i}"], f"fc{i}"),
            helper.make_node("Add", [f"p{i}", f"b{i}"], [f"h{i}"], f"bias{i}"),
        ]
        value = f"h{i}"
        if i == 0:
            nodes.append(helper.make_node("Relu", ["h0"], ["a0"], "relu"))
            value = "a0"
    model = mpctest.make_model(
        nodes, {"x": (F4, ["N", WIDTHS[0]])}, {value: (F4, ["N", WIDTHS[-1]])}, tensors
    )
    return model, tensors


def reference(tensors, data, rate, batch):
    """Returns the losses and the parameters after training, in float64."""
    p = {k: v.astype(np.float64) for k, v in tensors.items()}

    def fake(x, s, z, low, high):
        place = np.rint(x / s) + z
        q = np.clip(place, low, high)
        return (q - z) * s, place == q

    losses = []
    for rows in range(0, len(data["x"]), batch):
        x = data["x"][rows : rows + batch].astype(np.float64)
        t = data["target"][rows : rows + batch]
        f0, _ = fake(x, p["xs0"], 128, 0, 255)
        v0, in0 = fake(p["w0"], p["ws0"], 0, -128, 127)
        h = f0 @ v0 + p["b0"]
        f1, in1 = fake(np.maximum(h, 0), p["xs1"], 0, 0, 255)
        v1, in2 = fake(p["w1"], p["ws1"], 0, -128, 127)
        error = f1 @ v1 + p["b1"] - t
        losses.append((error**2).mean())
        d = 2 * error / error.size
        d_h = (d @ v1.T) * in1 * (h > 0)
        p["w1"] -= rate * (f1.T @ d) * in2
        p["b1"] -= rate * d.sum(0)
        p["w0"] -= rate * (f0.T @ d_h) * in0
        p["b0"] -= rate * d_h.sum(0)
    return losses, p


# A rounding of the product can move a fake-quantised value by one step.
@pytest.mark.parametrize(
    "precision, bound", [("32-true", 1e-3), ("bf16-mixed", 0.05), ("16-mixed", 0.02)]
)
def test_network_for_quantisation_trains(precision, bound, tmp_path):
    """Weights and biases are trained, scales are not."""
    model, tensors = network()
    random = np.random.RandomState(3)
    x = random.standard_normal((320, WIDTHS[0])).astype(F4)
    target = np.tanh(x[:, :4] + x[:, 4:8]).astype(F4)
    data = {"x": x, "target": target}
    metrics, weights = mpctest.train(
        model,
        data,
        tmp_path,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", "0.2", "--no-shuffle"),
        *("--batch-size", "16", "--epochs", "1", "--precision", precision),
    )
    losses, trained = reference(tensors, data, 0.2, 16)
    np.testing.assert_allclose(mpctest.losses(metrics), losses, rtol=bound)
    assert losses[-1] < 0.5 * losses[0]
    for name in ("w0", "b0", "w1", "b1"):
        error = np.linalg.norm(weights[name] - trained[name])
        assert error <= bound * np.linalg.norm(trained[name]), name
    for name in ("ws0", "xs0", "ws1", "xs1"):
        np.testing.assert_array_equal(weights[name], tensors[name])


def test_table_for_quantisation_trains(tmp_path):
    """An embedding reads its table through a fake quantisation. The table is a
    weight although the file does not say so. Unread rows stay."""
    random = np.random.RandomState(4)
    table = random.standard_normal((6, 3)).astype(F4)
    model = mpctest.make_model(
        [
            helper.make_node("QuantizeLinear", ["table", "s", "z"], ["q"]),
            helper.make_node("Clip", ["q", "", "most"], ["c"]),
            helper.make_node("DequantizeLinear", ["c", "s", "z"], ["f"]),
            helper.make_node("Gather", ["f", "word"], ["y"]),
        ],
        {"word": (np.int64, ["N"])},
        {"y": (F4, ["N", 3])},
        {
            "table": table,
            "s": np.asarray(0.03125, F4),
            "z": np.asarray(64, np.uint8),
            "most": np.asarray(127, np.uint8),
        },
    )
    words = np.array([1, 4])
    _, weights = mpctest.train(
        model,
        {"word": words, "target": np.zeros((2, 3), F4)},
        tmp_path,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "2", "--max-steps", "1"),
    )
    place = np.rint(table / 0.03125) + 64
    y = (np.clip(place, 0, 127) - 64) * 0.03125
    gradient = np.zeros_like(table)
    gradient[words] = (2 * y / 6 * (np.clip(place, 0, 127) == place))[words]
    np.testing.assert_allclose(weights["table"], table - gradient, atol=1e-6)


def refuse(nodes, tensors, folder):
    model = mpctest.make_model(
        [
            *nodes,
            helper.make_node("ReduceSum", ["y"], ["loss"], "sum", keepdims=0),
        ],
        {"d": (F4, ["N", 3])},
        {"loss": (F4, [])},
        tensors,
    )
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "data.npz", d=np.ones((1, 3), F4))
    process = mpctest.mpc(
        *("train", folder / "model.onnx", "--data", folder / "data.npz"),
        *("--loss", "output:loss", "--batch-size", "1", "--max-steps", "1"),
        *("--train", "^w$", "--output", folder / "trained.onnx"),
    )
    assert process.returncode == 4, process.stderr
    return process.stderr


QUANTIZE = helper.make_node("QuantizeLinear", ["w", "s"], ["q"], "quantize")
TENSORS = {"w": F4([1, 2, 3]), "s": np.asarray(0.5, F4)}


def test_integers_that_another_node_reads_are_refused(tmp_path):
    """Rounding has no slope. mpc must not treat the gradient as 0."""
    cast = helper.make_node("Cast", ["q"], ["y"], "cast", to=TensorProto.FLOAT)
    error = refuse([QUANTIZE, cast], TENSORS, tmp_path)
    assert (
        "value 'q' is supported as an input of DequantizeLinear only, found Cast; "
        "integers have no gradient" in error
    )


def test_another_scale_on_the_way_back_is_refused(tmp_path):
    back = helper.make_node("DequantizeLinear", ["q", "other"], ["y"], "back")
    error = refuse(
        [QUANTIZE, back], {**TENSORS, "other": np.asarray(0.25, F4)}, tmp_path
    )
    assert (
        "node 'back' (DequantizeLinear): has no gradient: expected the scale and "
        "zero point of the QuantizeLinear whose integers it reads" in error
    )
