"""Operators at the edges of what they take: infinities, no elements, places
that are no numbers.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest


def one_node(op, x, initializers, result, **attributes):
    """A model of one node on x and initializers."""
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
    assert "the region of interest is not in a sane range" in process.stdout


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
