"""Models that are partly or wholly in 16 bits keep their own casts and weights
in every --precision.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
import safetensors.numpy
from onnx import TensorProto, helper

import mpctest

MODES = ("32-true", "16-mixed", "bf16-mixed")
BATCH, WIDTH = 32, 16


def weights(dtype=np.float32):
    random = np.random.RandomState(7)
    return {
        "w1": (random.standard_normal((WIDTH, WIDTH)) / 4).astype(dtype),
        "w2": (random.standard_normal((WIDTH, WIDTH)) / 4).astype(dtype),
    }


def cast(source, result, to):
    return helper.make_node("Cast", [source], [result], result, to=to)


# Modes that lower the values around the model's own casts.
CASES = [
    ("island", "16-mixed"),
    ("island", "bf16-mixed"),
    ("fake_quantisation", "16-mixed"),
]
HALF, FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT
# Ops between the two products: a ReLU in float16, and fake quantisation.
ISLANDS = {
    "island": [
        cast("h", "down", HALF),
        helper.make_node("Relu", ["down"], ["relu"], "relu"),
        cast("relu", "r", FLOAT),
    ],
    "fake_quantisation": [cast("h", "down", HALF), cast("down", "r", FLOAT)],
}


def island(name):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "fc1"),
        *ISLANDS[name],
        helper.make_node("MatMul", ["r", "w2"], ["y"], "fc2"),
    ]
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", WIDTH])},
        {"y": (np.float32, ["N", WIDTH])},
        weights(),
    )


def half_network():
    """Returns a network with weights and arithmetic in float16, and float32 at
    either end."""
    nodes = [
        cast("x", "x16", HALF),
        helper.make_node("MatMul", ["x16", "w1"], ["h"], "fc1"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "w2"], ["y16"], "fc2"),
        cast("y16", "y", FLOAT),
    ]
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", WIDTH])},
        {"y": (np.float32, ["N", WIDTH])},
        weights(np.float16),
    )


def data():
    random = np.random.RandomState(8)
    x = random.standard_normal((BATCH, WIDTH)).astype(np.float32)
    return {"x": x, "target": np.maximum(x, 0)}


def fit(model, folder, precision):
    metrics, trained = mpctest.train(
        model,
        data(),
        folder,
        *("--loss", "mse", "--lr", "0.5", "--batch-size", BATCH),
        *("--epochs", "60", "--precision", precision),
    )
    return mpctest.losses(metrics), trained


@pytest.mark.parametrize("name, precision", CASES)
def test_own_casts_are_rounded_where_the_model_says(name, precision, tmp_path):
    x, w = data()["x"], weights()
    y = mpctest.run(
        island(name), {"x": x}, tmp_path, "--precision", precision
    )["y"]
    h = (x @ w["w1"]).astype(np.float16)
    h = np.maximum(h, 0) if name == "island" else h
    tolerance = {"16-mixed": 4e-3, "bf16-mixed": 3e-2}
    np.testing.assert_allclose(
        y, h.astype(np.float64) @ w["w2"], atol=tolerance[precision]
    )


@pytest.mark.parametrize("name, precision", CASES)
def test_model_with_own_casts_trains(name, precision, tmp_path):
    losses, _ = fit(island(name), tmp_path, precision)
    assert losses[-1] < 0.5 * losses[0]


def test_own_casts_are_not_counted_as_lowered(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(island("island").SerializeToString())
    flags = ("--loss", "mse", "--batch-size", BATCH)
    summary = mpctest.mpc_ok("explain", path, *flags).stdout
    assert summary.startswith("32-true: 0 of "), summary


def test_product_of_float16_arrays_runs(tmp_path):
    """The product is summed in float32 and rounded once."""
    random = np.random.RandomState(9)
    x = random.standard_normal((BATCH, WIDTH)).astype(np.float16)
    w = weights(np.float16)["w1"]
    model = mpctest.make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")],
        {"x": (np.float16, [BATCH, WIDTH])},
        {"y": (np.float16, [BATCH, WIDTH])},
        {"w": w},
    )
    y = mpctest.run(model, {"x": x}, tmp_path)["y"]
    exact = x.astype(np.float64) @ w.astype(np.float64)
    assert y.dtype == np.float16
    # One rounding of float16, plus the roundings of 16 sums in float32.
    np.testing.assert_allclose(y, exact, rtol=2.0**-11 + 2.0**-19, atol=1e-6)


@pytest.mark.parametrize("precision", MODES)
def test_float16_weights_train_as_float32_masters(precision, tmp_path):
    """The written file has the weights in their own type."""
    losses, trained = fit(half_network(), tmp_path, precision)
    assert losses[-1] < 0.5 * losses[0]
    assert all(value.dtype == np.float16 for value in trained.values())


def test_float16_weights_keep_small_updates(tmp_path):
    """A float16 weight of 1 would lose updates of 2^-12. Its float32 master
    moves, and so does the file's weight in the end."""
    steps, update = 64, 2.0**-12
    model = mpctest.make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], "layer"),
            helper.make_node("ReduceSum", ["y"], ["s"], "sum", keepdims=0),
            cast("s", "loss", FLOAT),
        ],
        {"x": (np.float16, ["N", 4])},
        {"loss": (np.float32, [])},
        {"w": np.ones((4, 3), np.float16)},
    )
    _, trained = mpctest.train(
        model,
        {"x": np.ones((1, 4), np.float16)},
        tmp_path,
        *("--loss", "output:loss", "--lr", update, "--batch-size", "1"),
        *("--epochs", steps),
    )
    np.testing.assert_array_equal(
        trained["w"], np.full((4, 3), 1 - steps * update, np.float16)
    )
    assert np.float16(1) - np.float16(update) == np.float16(1)


def test_weights_too_large_for_the_types_of_the_file_are_not_written(tmp_path):
    """The weights are trained in float32. The file must not hold them as
    infinities, so mpc writes them to a separate file."""
    model, samples = half_network(), data()
    model_path, data_path = tmp_path / "model.onnx", tmp_path / "data.npz"
    model_path.write_bytes(model.SerializeToString())
    np.savez(data_path, **samples)
    process = mpctest.mpc(
        *("train", model_path, "--data", data_path, "--loss", "mse"),
        *("--optimizer", "sgd", "--lr", "1e8", "--batch-size", BATCH),
        *("--max-steps", "1", "--output", tmp_path / "trained.onnx"),
    )
    assert process.returncode == 7, process.stderr
    assert "a new value is" in process.stderr
    assert "which does not fit f16" in process.stderr
    assert not (tmp_path / "trained.onnx").exists()
    kept = list(tmp_path.glob("mpc-recovered-*.safetensors"))
    assert len(kept) == 1, process.stderr
    # The user did not choose the file's folder, which others may read.
    assert kept[0].stat().st_mode & 0o777 == 0o600
    weights = safetensors.numpy.load_file(kept[0])
    largest = max(float(np.abs(w).max()) for w in weights.values())
    assert 65504 < largest < np.inf


FLOAT_TARGETS = ("mse", "huber", "bce_with_logits", "cross_entropy")


@pytest.mark.parametrize("loss", FLOAT_TARGETS)
def test_float16_outputs_have_losses_of_the_mode(loss, tmp_path):
    """In 64-true the loss of a float16 output, its targets and the numbers of
    its flags are float64."""
    random = np.random.RandomState(10)
    x = random.standard_normal((BATCH, WIDTH)).astype(np.float16)
    w = weights(np.float16)["w1"]
    model = mpctest.make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")],
        {"x": (np.float16, ["N", WIDTH])},
        {"y": (np.float16, ["N", WIDTH])},
        {"w": w},
    )
    # Sixteenths, which add up to 1.
    target = np.roll(np.repeat([2.0, 0.0], WIDTH // 2), 3) / WIDTH
    target = np.tile(target, (BATCH, 1)) + np.float64(0)
    y = (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float16)
    y = y.astype(np.float64)
    size = np.abs(y - target)
    logs = y - np.log(np.exp(y).sum(1, keepdims=True))
    smooth = 0.9 * target + 0.1 / WIDTH
    expected = {
        "mse": np.mean(size**2),
        "huber": np.mean(np.where(size < 1, size**2 / 2, size - 0.5)),
        "bce_with_logits": np.mean(np.log1p(np.exp(y)) - target * y),
        "cross_entropy": -np.mean((smooth * logs).sum(1)),
    }[loss]
    smoothing = ("--label-smoothing", "0.1") if loss == "cross_entropy" else ()
    metrics, trained = mpctest.train(
        *(model, {"x": x, "target": target}, tmp_path, "--loss", loss),
        *("--precision", "64-true", "--batch-size", BATCH, *smoothing),
    )
    np.testing.assert_allclose(mpctest.losses(metrics)[0], expected, rtol=1e-12)
    assert trained["w"].dtype == np.float16
