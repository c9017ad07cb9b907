"""bfloat16 does not reach values that need more digits: masks, a model's own
loss, and the sums of a normalisation in primitive ops.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest

BATCH, WIDTH = 16, 32


def weight(random, *shape):
    return (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(
        np.float32
    )


def masked_softmax():
    """Returns softmax(x wq + (1 - mask) * the smallest float) wv, as exporters
    write it, behind a ReLU. All of it lies between products."""
    random = np.random.RandomState(1)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h"], "fc"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "wq"], ["s"], "scores"),
        helper.make_node("Sub", ["one", "mask"], ["off"], "off"),
        helper.make_node("Mul", ["off", "least"], ["am"], "addmask"),
        helper.make_node("Add", ["s", "am"], ["sm"], "masked"),
        helper.make_node("Softmax", ["sm"], ["p"], "softmax", axis=-1),
        helper.make_node("MatMul", ["p", "wv"], ["y"], "values"),
    ]
    return mpctest.make_model(
        nodes,
        {
            "x": (np.float32, [BATCH, WIDTH]),
            "mask": (np.float32, [BATCH, WIDTH]),
        },
        {"y": (np.float32, [BATCH, WIDTH])},
        {
            **{n: weight(random, WIDTH, WIDTH) for n in ("w0", "wq", "wv")},
            "one": np.float32(1),
            "least": np.finfo(np.float32).min,
        },
    )


def mask_inputs():
    random = np.random.RandomState(2)
    mask = (random.uniform(size=(BATCH, WIDTH)) < 0.7).astype(np.float32)
    mask[3] = 0  # padding only
    x = random.standard_normal((BATCH, WIDTH)).astype(np.float32)
    return {"x": x, "mask": mask}


def test_fully_masked_row_is_finite_in_bf16_mixed(tmp_path):
    inputs = mask_inputs()
    exact = mpctest.run(masked_softmax(), inputs, tmp_path)["y"]
    mixed = mpctest.run(
        masked_softmax(), inputs, tmp_path, "--precision", "bf16-mixed"
    )["y"]
    # A few roundings of 2^-9 each, of scores up to 4.
    np.testing.assert_allclose(mixed, exact, atol=0.05)


def test_a_mask_forced_low_is_not_finite(tmp_path):
    """Negative control: rounded to bfloat16, the smallest float becomes minus
    infinity."""
    flags = ("--precision", "bf16-mixed", "--force-low=^masked$")
    mixed = mpctest.run(masked_softmax(), mask_inputs(), tmp_path, *flags)["y"]
    assert np.isnan(mixed[3]).all() and np.isfinite(mixed[:3]).all()


def own_cross_entropy():
    """Returns -mean(sum(target * log(softmax(logits)))) in the model's own ops."""
    random = np.random.RandomState(3)
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "fc1"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "w2"], ["logits"], "fc2"),
        helper.make_node("Softmax", ["logits"], ["p"], "softmax", axis=1),
        helper.make_node("Log", ["p"], ["l"], "log"),
        helper.make_node("Mul", ["l", "t"], ["m"], "pick"),
        helper.make_node("ReduceSum", ["m", "axis"], ["s"], "sum", keepdims=0),
        helper.make_node("Neg", ["s"], ["n"], "neg"),
        helper.make_node("ReduceMean", ["n"], ["loss"], "mean", keepdims=0),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", WIDTH]), "t": (np.float32, ["N", WIDTH])},
        {"loss": (np.float32, [])},
        {
            "w1": weight(random, WIDTH, WIDTH),
            "w2": weight(random, WIDTH, WIDTH),
            "axis": np.array([1], np.int64),
        },
    )
    x = random.standard_normal((BATCH, WIDTH)).astype(np.float32)
    return model, {"x": x, "t": np.eye(WIDTH, dtype=np.float32)[:BATCH]}


def test_own_loss_follows_float32_down_to_small_values(tmp_path):
    """In bfloat16, log(softmax) of a confident sample is 0, and so is its
    gradient."""
    losses = {}
    for precision in ("32-true", "bf16-mixed"):
        metrics, _ = mpctest.train(
            *own_cross_entropy(),
            tmp_path,
            *("--loss", "output:loss", "--lr", "1", "--batch-size", BATCH),
            *("--epochs", "400", "--precision", precision),
        )
        losses[precision] = mpctest.losses(metrics)
    assert losses["32-true"][-1] < 2e-2
    np.testing.assert_allclose(
        losses["bf16-mixed"][-1], losses["32-true"][-1], rtol=0.05
    )


def test_spelled_out_normalisation_keeps_its_sums_in_float32(tmp_path):
    """For values around 50, a mean in bfloat16 is off by a tenth of their
    deviation."""
    random = np.random.RandomState(4)
    nodes = [
        helper.make_node("MatMul", ["x", "eye"], ["h"], "fc"),
        helper.make_node(
            "ReduceMean", ["h"], ["mean"], "mean", axes=[-1], keepdims=1
        ),
        helper.make_node("Sub", ["h", "mean"], ["c"], "center"),
        helper.make_node("Mul", ["c", "c"], ["sq"], "square"),
        helper.make_node(
            "ReduceMean", ["sq"], ["var"], "var", axes=[-1], keepdims=1
        ),
        helper.make_node("Sqrt", ["var"], ["std"], "sqrt"),
        helper.make_node("Div", ["c", "std"], ["n"], "normalise"),
        helper.make_node("MatMul", ["n", "eye"], ["y"], "after"),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [BATCH, WIDTH])},
        {"y": (np.float32, [BATCH, WIDTH])},
        {"eye": np.eye(WIDTH, dtype=np.float32)},
        opset=13,
    )
    # Halves are exact in bfloat16, and so are products by one.
    x = np.round(random.standard_normal((BATCH, WIDTH)) * 4) / 2 + 50
    y = mpctest.run(
        model,
        {"x": x.astype(np.float32)},
        tmp_path,
        *("--precision", "bf16-mixed"),
    )["y"]
    exact = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    # The centred values, their squares, the quotient and the operand of the
    # last product are rounded: 2^-9 each at most.
    np.testing.assert_allclose(y, exact, atol=4 * 2.0**-9 * np.abs(exact).max())


def gate(others, scale, constants):
    """Returns x w, `others`, and a product that reads the result times `scale`."""
    random = np.random.RandomState(3)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
        *others,
        helper.make_node("Mul", ["c", "scale"], ["u"], "unit"),
        helper.make_node("MatMul", ["u", "v"], ["y"], "last"),
    ]
    constants = {name: np.float32(value) for name, value in constants.items()}
    weights = {n: weight(random, WIDTH, WIDTH) for n in ("w", "v")}
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, [BATCH, WIDTH])},
        {"y": (np.float32, [BATCH, WIDTH])},
        weights | constants | {"scale": np.float32(scale)},
    )


def node(op, inputs, output, name):
    return helper.make_node(op, inputs, [output], name)


# Ops that cancel most of a value next to a constant: a sigmoid or an
# exponential next to 1, and data above a large constant. Rounding the nodes
# `rounded` loses the result.
CANCELLATIONS = {
    "complement": gate(
        [
            node("Add", ["h", "seven"], "z", "shift"),
            node("Sigmoid", ["z"], "s", "rounded"),
            node("Sub", ["one", "s"], "c", "difference"),
        ],
        *(500, {"seven": 7, "one": 1}),
    ),
    "negated": gate(
        [
            node("Add", ["h", "seven"], "z", "shift"),
            node("Sigmoid", ["z"], "s", "rounded"),
            node("Neg", ["s"], "n", "rounded_too"),
            node("Add", ["one", "n"], "c", "difference"),
        ],
        *(500, {"seven": 7, "one": 1}),
    ),
    "exponential": gate(
        [
            node("Mul", ["h", "small"], "z", "shift"),
            node("Exp", ["z"], "s", "rounded"),
            node("Sub", ["s", "one"], "c", "difference"),
        ],
        *(1000, {"small": 1e-3, "one": 1}),
    ),
    "square": gate(
        [
            node("Mul", ["h", "tenth"], "d", "narrow"),
            node("Add", ["d", "shift"], "z", "shift"),
            node("Tanh", ["z"], "t", "rounded"),
            node("Mul", ["t", "t"], "s", "rounded_too"),
            node("Sub", ["one", "s"], "c", "difference"),
        ],
        # 1 - t is 0.0018 there, half of bfloat16's step below 1.
        *(100, {"tenth": 0.1, "shift": 3.5, "one": 1}),
    ),
    # As in linear attention.
    "feature map": gate(
        [
            node("Sub", ["h", "seven"], "z", "shift"),
            node("Elu", ["z"], "s", "rounded"),
            node("Add", ["s", "one"], "c", "sum"),
        ],
        *(500, {"seven": 7, "one": 1}),
    ),
    "offset": gate(
        [
            node("Add", ["h", "large"], "z", "rounded"),
            node("Relu", ["z"], "s", "rounded_too"),
            node("Sub", ["s", "large"], "c", "difference"),
        ],
        *(1, {"large": 1e4}),
    ),
}


@pytest.mark.parametrize("precision", ("bf16-mixed", "16-mixed"))
def test_the_root_of_a_complement_of_a_square_trains(precision, tmp_path):
    """If tanh(h) rounds to 1, sqrt(1 - tanh(h)^2) is 0 and its gradient is
    infinite. PyTorch's autocast gives NaN after one step."""
    random = np.random.RandomState(5)
    nodes = [
        node("MatMul", ["x", "w"], "h", "first"),
        node("Tanh", ["h"], "t", "tanh"),
        node("Mul", ["t", "t"], "s", "square"),
        node("Sub", ["one", "s"], "c", "difference"),
        node("Sqrt", ["c"], "r", "root"),
        node("MatMul", ["r", "v"], "y", "last"),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", WIDTH])},
        {"y": (np.float32, ["N", 4])},
        {
            "w": weight(random, WIDTH, WIDTH),
            "v": weight(random, WIDTH, 4),
            "one": np.float32(1),
        },
    )
    # tanh of 4 and more is 1 in bfloat16, of 9 and more in float32.
    x = random.standard_normal((8 * BATCH, WIDTH)).astype(np.float32)
    target = random.standard_normal((8 * BATCH, 4)).astype(np.float32)
    flags = ["--loss", "mse", "--optimizer", "sgd", "--lr", "0.01"]
    flags += ["--batch-size", str(BATCH), "--epochs", "2", "--loss-scale", "1"]
    data = {"x": 2 * x, "target": target}
    exact, _ = mpctest.train(model, data, tmp_path / "exact", *flags)
    mixed, _ = mpctest.train(
        model, data, tmp_path / "mixed", "--precision", precision, *flags
    )
    np.testing.assert_allclose(
        mpctest.losses(mixed), mpctest.losses(exact), rtol=0.03
    )


def cancel(name, folder, *flags):
    """Returns the relative distance of bf16-mixed from float32."""
    x = np.random.RandomState(4).standard_normal((BATCH, WIDTH)).astype(np.float32)
    model = CANCELLATIONS[name]
    exact = mpctest.run(model, {"x": x}, folder)["y"]
    flags = ("--precision", "bf16-mixed", *flags)
    mixed = mpctest.run(model, {"x": x}, folder, *flags)["y"]
    return np.abs(mixed - exact).max() / np.abs(exact).max()


@pytest.mark.parametrize("name", CANCELLATIONS)
def test_what_a_constant_leaves_is_kept_in_bf16_mixed(name, tmp_path):
    # A few roundings of 2^-9 each.
    assert cancel(name, tmp_path) < 0.02


@pytest.mark.parametrize("name", CANCELLATIONS)
def test_what_a_constant_leaves_is_lost_where_it_is_forced_low(name, tmp_path):
    """Negative control."""
    assert cancel(name, tmp_path, "--force-low=^rounded") > 0.1
