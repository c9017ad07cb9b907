"""Means and variances on an emulated GPU match float64 within the type's
rounding, also for numbers far from zero.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
from test_gpu import emulated


def to_bfloat16(array):
    """Truncates each number to its first 16 bits."""
    bits = np.asarray(array, np.float32).view(np.uint32) & 0xFFFF0000
    return bits.view(np.float32)


def far_images():
    """Returns images in which channel 1 is far from zero, and channel 2 has one
    outlier pixel in the middle of an image."""
    images = np.random.RandomState(0).randn(8, 9, 10, 8)
    images[..., 1] += 64
    images[3, 4, 5, 2] = 500
    return to_bfloat16(images)


def lonely_pixels(height, width):
    """Returns images that are constant per channel except for the middle pixel
    of the first."""
    images = np.empty((2, height, width, 4))
    images[:] = [1.0078125, -3.046875, 3.015625, 7.21875]
    images[0, height // 2, width // 2] = [-257, 371, -171, 1004]
    return to_bfloat16(images)


def distant_images():
    """Returns images whose mean is a thousand times their deviation."""
    noise = np.random.RandomState(0).randn(4, 9, 10, 8)
    return (1000 + noise).astype(np.float32)


def write_normalized_images(images, folder):
    """Writes BatchNormalization of images, (N, H, W, C), behind an identity
    convolution, and the data."""
    samples, height, width, channels = images.shape
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    eye = np.eye(channels, dtype=np.float32)
    weights = {"w": eye.reshape(channels, channels, 1, 1)}
    weights |= {"scale": ones, "bias": zeros, "mean": zeros, "var": ones}
    random = np.random.RandomState(1)
    weights["v"] = random.randn(channels, 2).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"]),
        helper.make_node(
            "BatchNormalization", ["h", *list(weights)[1:5]], ["n"]
        ),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["y"]),
    ]
    x = {"x": (np.float32, [samples, channels, height, width])}
    y = {"y": (np.float32, [samples, 2])}
    onnx.save(mpctest.make_model(nodes, x, y, weights), folder / "images.onnx")
    x, target = np.moveaxis(images, 3, 1), np.arange(samples) % 2
    np.savez(folder / "images.npz", x=x, target=target)


# In 16 bits, one pass reads bands of at most 4096 pixels. It errs by 2^-23 per
# pixel of a band whose pixels are alike except for the middle one. 124 rows are
# 4 bands of 31 rows. 127 rows, a prime number, are bands of one row. In
# float32, values far from zero are read twice: each of 360 terms is rounded,
# without a long chain.
CASES = {
    "far": (far_images, "bf16-mixed", 1e-5),
    "bands": (lambda: lonely_pixels(124, 132), "bf16-mixed", 2**-11),
    "rows": (lambda: lonely_pixels(127, 130), "bf16-mixed", 2**-11),
    "float32": (distant_images, "32-true", 16 * 2**-24),
}


@pytest.mark.parametrize("case", CASES)
def test_moments_of_images_are_exact(case, tmp_path):
    """One pass over the images gives the moments of two passes."""
    make, precision, tolerance = CASES[case]
    write_normalized_images(images := make(), tmp_path)
    mpctest.mpc_ok(
        *("train", tmp_path / "images.onnx", "--precision", precision),
        *("--data", tmp_path / "images.npz", "--epochs", "1"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--device", "cuda", "--target", "sm_90"),
        *("--output", tmp_path / "trained.onnx"),
        env=emulated("sm_90", tmp_path),
    )
    trained = mpctest.read_weights(tmp_path / "trained.onnx")
    # ONNX's momentum defaults to 0.9. The running variance is rounded once
    # more.
    images = images.astype(np.float64)
    mean, var = images.mean((0, 1, 2)), images.var((0, 1, 2))
    np.testing.assert_allclose(
        trained["mean"], 0.1 * mean, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        (trained["var"] - 0.9) / 0.1,
        var,
        rtol=tolerance,
        atol=10 * 2**-23 * (0.9 + 0.1 * var.max()),
    )


NORMALIZATIONS = {
    "LayerNormalization": {"axis": 1},
    "GroupNormalization": {"num_groups": 2},
    "InstanceNormalization": {},
}


@pytest.mark.parametrize("op", NORMALIZATIONS)
def test_normalizes_what_is_far_from_zero(op, tmp_path):
    """x - mean keeps the digits of x: a number near a thousand and the mean
    have errors of 2^-24 relative, and deviations are 1. The mean of squares
    minus the squared mean would keep one digit."""
    shape = [3, 4, 8, 9]
    x = (1000 + np.random.RandomState(0).randn(*shape)).astype(np.float32)
    channels = shape[1:] if op == "LayerNormalization" else [4]
    weights = {
        "scale": np.ones(channels, np.float32),
        "bias": np.zeros(channels, np.float32),
    }
    node = helper.make_node(op, ["x", "scale", "bias"], ["y"])
    node.attribute.extend(
        helper.make_attribute(k, v) for k, v in NORMALIZATIONS[op].items()
    )
    types = {"x": (np.float32, shape)}, {"y": (np.float32, shape)}
    onnx.save(
        mpctest.make_model([node], *types, weights, opset=21),
        tmp_path / "model.onnx",
    )
    np.save(tmp_path / "x.npy", x)
    mpctest.mpc_ok(
        *("run", tmp_path / "model.onnx", "--input", f"x=@{tmp_path}/x.npy"),
        *("--output", tmp_path / "y.npz", "--precision", "32-true"),
        *("--device", "cuda", "--target", "sm_90"),
        env=emulated("sm_90", tmp_path),
    )
    # Each sample is normalized as a whole, in two groups of channels, or per
    # channel.
    parts = {"LayerNormalization": 1, "GroupNormalization": 2}.get(op, 4)
    rows = x.astype(np.float64).reshape(3, parts, -1)
    centred = rows - rows.mean(-1, keepdims=True)
    expected = centred / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    with np.load(tmp_path / "y.npz") as outputs:
        found = outputs["y"].reshape(rows.shape)
    np.testing.assert_allclose(found, expected, atol=4 * 1000 * 2**-24, rtol=0)
