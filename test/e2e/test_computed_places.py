"""Operators that read or write at computed places: what they refuse, and places
that are no numbers.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest


def build(op, arguments, attributes, opset, results=1):
    """A model of one node: an argument that is a shape, or a pair of a type and
    a shape, is an input; one that is an array an initializer."""
    inputs, initializers = {}, {}
    names = []
    for i, argument in enumerate(arguments):
        name = f"in{i}" if argument is not None else ""
        names.append(name)
        if isinstance(argument, np.ndarray):
            initializers[name] = argument
        elif argument is not None:
            typed = isinstance(argument[0], type) if argument else False
            inputs[name] = argument if typed else (np.float32, argument)
    outputs = [f"out{i}" for i in range(results)]
    node = helper.make_node(op, names, outputs, "node", **attributes)
    types = {name: (np.float32, None) for name in outputs}
    return mpctest.make_model([node], inputs, types, initializers, opset)


def ints(*values):
    return np.array(values, np.int64)


INVALID, UNSUPPORTED = 3, 4
REFUSED = {
    "crop_negative": (
        "CenterCropPad",
        [(4, 4), ints(2, -1)],
        {},
        (18, INVALID, "expected extents of 0 and more, found -1"),
    ),
    "crop_extents": (
        "CenterCropPad",
        [(4, 4), ints(2)],
        {},
        (18, INVALID, "expected 2 extents, one per axis, found 1"),
    ),
    "crop_axis": (
        "CenterCropPad",
        [(4, 4), ints(2)],
        {"axes": [2]},
        (18, INVALID, "axis 2 is not in [-2, 2)"),
    ),
    "crop_huge": (
        "CenterCropPad",
        [(4, 4), ints(2**62, 2**62)],
        {},
        (18, INVALID, "the result is too large"),
    ),
    "affine_rank": (
        "AffineGrid",
        [(1, 2, 3), ints(1, 1, 4)],
        {},
        (20, INVALID, "expected a size of 4 or 5 elements, found 3"),
    ),
    "affine_matrix": (
        "AffineGrid",
        [(1, 2, 3), ints(1, 1, 4, 4, 4)],
        {},
        (20, INVALID, "expected matrices of shape (1, 3, 4)"),
    ),
    "affine_negative": (
        "AffineGrid",
        [(1, 2, 3), ints(1, 1, -4, 4)],
        {},
        (20, INVALID, "has a negative extent or is too large"),
    ),
    "affine_unknown_size": (
        "AffineGrid",
        [(1, 2, 3), (np.int64, (4,))],
        {},
        (20, UNSUPPORTED, "expected the size (input 'in1') to be known"),
    ),
    "grid_mode": (
        "GridSample",
        [(1, 1, 4, 4), (1, 2, 2, 2)],
        {"mode": "area"},
        (20, INVALID, "expected attribute 'mode' to be linear, nearest or"),
    ),
    "grid_padding": (
        "GridSample",
        [(1, 1, 4, 4), (1, 2, 2, 2)],
        {"padding_mode": "wrap"},
        (20, INVALID, "expected attribute 'padding_mode' to be zeros, border"),
    ),
    "grid_rank": (
        "GridSample",
        [(1, 1, 4, 4, 4), (1, 2, 2, 2, 3)],
        {},
        (16, UNSUPPORTED, "expected an input of rank 4, or from opset 20 on"),
    ),
    "grid_shape": (
        "GridSample",
        [(1, 1, 4, 4), (1, 2, 2, 3)],
        {},
        (20, INVALID, "expected a grid of floats of shape (1, ..., 2)"),
    ),
    "grid_of_nothing": (
        "GridSample",
        [(1, 1, 0, 4), (1, 2, 2, 2)],
        {},
        (20, INVALID, "the input has no elements to read"),
    ),
    "grid_integers": (
        "GridSample",
        [(np.int32, (1, 1, 4, 4)), (1, 2, 2, 2)],
        {},
        (20, UNSUPPORTED, "expected floats to interpolate, found integers"),
    ),
    "roi_mode": (
        "RoiAlign",
        [(1, 1, 4, 4), (2, 4), (np.int64, (2,))],
        {"mode": "sum"},
        (16, INVALID, "expected attribute 'mode' to be avg or max"),
    ),
    "roi_ratio": (
        "RoiAlign",
        [(1, 1, 4, 4), (2, 4), (np.int64, (2,))],
        {"sampling_ratio": -1},
        (16, INVALID, "expected attribute 'sampling_ratio' from 0 to 65536"),
    ),
    "roi_bins": (
        "RoiAlign",
        [(1, 1, 4, 4), (2, 4), (np.int64, (2,))],
        {"output_width": 0, "sampling_ratio": 1},
        (16, INVALID, "expected 'output_height' and 'output_width' from 1"),
    ),
    "roi_boxes": (
        "RoiAlign",
        [(1, 1, 4, 4), (2, 5), (np.int64, (2,))],
        {"sampling_ratio": 1},
        (16, INVALID, "boxes of shape (R, 4) and R numbers of images"),
    ),
    "roi_image": (
        "RoiAlign",
        [(3, 1, 4, 4), (2, 4), ints(0, 3)],
        {"sampling_ratio": 1},
        (16, INVALID, "image 3 is not one of 3"),
    ),
    "roi_adaptive": (
        "RoiAlign",
        [(1, 1, 4, 4), (2, 4), (np.int64, (2,))],
        {"sampling_ratio": 0},
        (16, UNSUPPORTED, "with sampling_ratio 0 boxes decide how much is read"),
    ),
    "roi_adaptive_huge": (
        "RoiAlign",
        [(1, 1, 4, 4), np.float32([[0, 0, 1e30, 2]]), ints(0)],
        {"output_width": 64},
        (16, UNSUPPORTED, "elements is too long, expected"),
    ),
    "deform_group": (
        "DeformConv",
        [(1, 3, 4, 4), (2, 1, 2, 2), (1, 8, 3, 3)],
        {"group": 2},
        (19, INVALID, "groups do not divide the channels"),
    ),
    "deform_offsets": (
        "DeformConv",
        [(1, 2, 4, 4), (2, 2, 2, 2), (1, 4, 3, 3)],
        {},
        (19, INVALID, "expected offsets of shape (N, 8, results...)"),
    ),
    "deform_mask": (
        "DeformConv",
        [(1, 2, 4, 4), (2, 2, 2, 2), (1, 8, 3, 3), None, (1, 8, 3, 3)],
        {},
        (19, INVALID, "expected a mask of shape (N, 4, results...)"),
    ),
    "deform_large_kernel": (
        "DeformConv",
        [(1, 2, 4, 4), (2, 2, 5, 5), (1, 50, 0, 0)],
        {},
        (19, INVALID, "expected offsets of shape (N, 50, results...)"),
    ),
    "deform_auto_pad": (
        "DeformConv",
        [(1, 2, 4, 4), (2, 2, 2, 2), (1, 8, 3, 3)],
        {"auto_pad": "SAME_UPPER"},
        (19, INVALID, "attribute 'auto_pad' is not one of DeformConv"),
    ),
    "columns_count": (
        "Col2Im",
        [(1, 4, 5), ints(3, 3), ints(2, 2)],
        {},
        (18, INVALID, "expected columns of a multiple of 4 elements for 4"),
    ),
    "columns_ranks": (
        "Col2Im",
        [(1, 4, 4), ints(3, 3), ints(4)],
        {},
        (18, INVALID, "an image and a block of one rank"),
    ),
    "columns_negative": (
        "Col2Im",
        [(1, 4, 4), ints(3, -3), ints(2, 2)],
        {},
        (18, INVALID, "an image and a block of one rank"),
    ),
    "columns_no_block": (
        "Col2Im",
        [(1, 4, 0), ints(3, 3), ints(4, 1)],
        {},
        (18, INVALID, "the image has room for no block, or for too many"),
    ),
    "columns_huge_pads": (
        "Col2Im",
        [(1, 1, 0), ints(1, 1, 1), ints(1, 1, 1)],
        {"pads": [2**30] * 6},
        (18, INVALID, "the image has room for no block, or for too many"),
    ),
    "cache_axis": (
        "TensorScatter",
        [(2, 3, 4), (2, 1, 4), (np.int64, (2,))],
        {"axis": 0},
        (24, INVALID, "expected an update of the cache's shape but for an axis"),
    ),
    "cache_long": (
        "TensorScatter",
        [(2, 3, 4), (2, 4, 4), (np.int64, (2,))],
        {},
        (24, INVALID, "along which it is no longer"),
    ),
    "cache_place": (
        "TensorScatter",
        [(2, 3, 4), (2, 2, 4), ints(0, 2)],
        {},
        (24, INVALID, "an update of 2 at place 2 is not within a cache of 3"),
    ),
    "cache_mode": (
        "TensorScatter",
        [(2, 3, 4), (2, 2, 4), ints(0, 0)],
        {"mode": "ring"},
        (24, INVALID, "expected attribute 'mode' to be linear or circular"),
    ),
    "top_more": (
        "TopK",
        [(2, 3), ints(4)],
        {},
        (11, INVALID, "expected k from 0 to 3, the length of axis 1, found 4"),
    ),
    "top_negative": (
        "TopK",
        [(2, 3), ints(-1)],
        {"axis": 0},
        (11, INVALID, "expected k from 0 to 2, the length of axis 0, found -1"),
    ),
    "top_several": (
        "TopK",
        [(2, 3), ints(1, 2)],
        {},
        (11, INVALID, "expected one number k, found 2"),
    ),
    "top_axis": (
        "TopK",
        [(2, 3), ints(1)],
        {"axis": 2},
        (11, INVALID, "axis 2 is not in [-2, 2)"),
    ),
    "top_scalar": (
        "TopK",
        [(), ints(1)],
        {},
        (11, INVALID, "axis -1 is not in [0, 0)"),
    ),
    "top_unknown": (
        "TopK",
        [(2, 3), (np.int64, (1,))],
        {},
        (11, UNSUPPORTED, "expected k (input 'in1') to be known at import"),
    ),
    "top_without_k": (
        "TopK",
        [(2, 3)],
        {},
        (9, INVALID, "attribute 'k' is missing"),
    ),
    "dft_axis": (
        "DFT",
        [(2, 8, 1)],
        {"axis": 2},
        (17, INVALID, "axis 2 is that of real and imaginary parts"),
    ),
    "dft_outside": (
        "DFT",
        [(2, 8, 1), None, ints(3)],
        {},
        (20, INVALID, "axis 3 is not in [-3, 3)"),
    ),
    "dft_parts": (
        "DFT",
        [(2, 8, 3)],
        {},
        (17, INVALID, "expected a last axis of 1 or 2 elements"),
    ),
    "dft_onesided": (
        "DFT",
        [(2, 8, 2)],
        {"onesided": 1},
        (17, INVALID, "with attribute 'onesided' expected a real input"),
    ),
    "dft_length": (
        "DFT",
        [(2, 8, 1), ints(-4)],
        {},
        (17, INVALID, "expected the length to be one integer from 1"),
    ),
    "dft_unknown_length": (
        "DFT",
        [(2, 8, 1), (np.int64, ())],
        {},
        (17, UNSUPPORTED, "expected the length (input 'in1') to be known"),
    ),
    "dft_prime": (
        "DFT",
        [(2, 10007, 1)],
        {},
        (17, UNSUPPORTED, "expected one whose prime factors are below 2048"),
    ),
    "dft_nothing": (
        "DFT",
        [(2, 0, 1)],
        {},
        (17, INVALID, "the input has no elements"),
    ),
    "dft_integers": (
        "DFT",
        [(np.int32, (2, 4, 1))],
        {},
        (17, INVALID, "expected floats, found integers"),
    ),
    "stft_frame": (
        "STFT",
        [(1, 8, 1), ints(1), None, ints(9)],
        {},
        (17, INVALID, "a frame of 9 elements is not within a signal of 8"),
    ),
    "stft_window": (
        "STFT",
        [(1, 8, 1), ints(1), (4,), ints(5)],
        {},
        (17, INVALID, "expected a window of 5 elements, as a frame has"),
    ),
    "stft_step": (
        "STFT",
        [(1, 8, 1), ints(0), (4,)],
        {},
        (17, INVALID, "expected the step to be one integer from 1"),
    ),
    "stft_complex": (
        "STFT",
        [(1, 8, 2), ints(1), (4,)],
        {},
        (17, INVALID, "with attribute 'onesided', which is 1 by default"),
    ),
    "unique_data": (
        "Unique",
        [(2, 8)],
        {},
        (11, UNSUPPORTED, "input 'in0' decides how many elements the result has"),
    ),
    "unique_axis": (
        "Unique",
        [np.float32([1, 2])],
        {"axis": 1},
        (11, INVALID, "axis 1 is not in [-1, 1)"),
    ),
    "suppress_data": (
        "NonMaxSuppression",
        [(1, 3, 4), np.zeros((1, 1, 3), np.float32)],
        {},
        (11, UNSUPPORTED, "run the model with 'mpc run', which binds inputs"),
    ),
    "suppress_boxes": (
        "NonMaxSuppression",
        [np.zeros((1, 3, 5), np.float32), np.zeros((1, 1, 3), np.float32)],
        {},
        (11, INVALID, "expected boxes of floats of shape (N, boxes, 4)"),
    ),
    "suppress_scores": (
        "NonMaxSuppression",
        [np.zeros((1, 3, 4), np.float32), np.zeros((1, 1, 4), np.float32)],
        {},
        (11, INVALID, "scores of shape (N, classes, boxes)"),
    ),
    "suppress_overlap": (
        "NonMaxSuppression",
        [
            np.zeros((1, 3, 4), np.float32),
            np.zeros((1, 1, 3), np.float32),
            ints(1),
            np.float32([1.5]),
        ],
        {},
        (11, INVALID, "expected an iou_threshold from 0 to 1"),
    ),
    "suppress_count": (
        "NonMaxSuppression",
        [
            np.zeros((1, 3, 4), np.float32),
            np.zeros((1, 1, 3), np.float32),
            ints(1, 2),
        ],
        {},
        (11, INVALID, "expected a number as input 'in2'"),
    ),
    "quantize_axis": (
        "QuantizeLinear",
        [(2, 3), (3,)],
        {"axis": 2},
        (13, INVALID, "axis 2 is not in [-2, 2)"),
    ),
    "quantize_scale": (
        "QuantizeLinear",
        [(2, 3), (2,)],
        {},
        (13, INVALID, "expected 'in1' to be one number or 3, one for each"),
    ),
    "quantize_zero": (
        "QuantizeLinear",
        [(2, 3), (3,), (np.uint8, ())],
        {},
        (13, INVALID, "expected a zero point of the scale's shape"),
    ),
    "quantize_block": (
        "QuantizeLinear",
        [(2, 7), (2, 2)],
        {"block_size": 3},
        (21, INVALID, "one for each block of 3"),
    ),
    "quantize_negative_block": (
        "QuantizeLinear",
        [(2, 7), (2, 2)],
        {"block_size": -1},
        (21, INVALID, "expected attribute 'block_size' from 0 to 1073741824"),
    ),
    "quantize_types": (
        "QuantizeLinear",
        [(2, 3), (), (np.uint8, ())],
        {"output_dtype": 3},
        (21, INVALID, "attribute 'output_dtype' is not the zero point's type"),
    ),
    "quantize_wide": (
        "QuantizeLinear",
        [(2, 3), (), (np.int32, ())],
        {},
        (13, UNSUPPORTED, "expected a result of 8 or 16 bits"),
    ),
    "dequantize_floats": (
        "DequantizeLinear",
        [(2, 3), ()],
        {},
        (13, UNSUPPORTED, "expected integers of 8 to 32 bits"),
    ),
    "dynamic_nothing": (
        "DynamicQuantizeLinear",
        [(0, 3)],
        {},
        (11, INVALID, "expected an input of elements of f32"),
    ),
    "product_floats": (
        "MatMulInteger",
        [(2, 3), (np.int8, (3, 2))],
        {},
        (10, INVALID, "expected 'in0' to be integers of 8 bits"),
    ),
    "product_lines": (
        "MatMulInteger",
        [(np.int8, (2, 3)), (np.int8, (3, 2)), (np.int8, (1, 3))],
        {},
        (10, INVALID, "to be one number for each line of the matrices"),
    ),
    "product_scalar": (
        "MatMulInteger",
        [(np.int8, ()), (np.int8, (3, 2))],
        {},
        (10, INVALID, "expected operands of rank 1 and more"),
    ),
    "conv_ranks": (
        "ConvInteger",
        [(np.int8, (1, 1, 4)), (np.int8, (1, 1, 2, 2))],
        {},
        (10, INVALID, "expected an input of shape (N, C, d...) and a weight"),
    ),
    "conv_zeros": (
        "ConvInteger",
        [(np.int8, (1, 2, 4)), (np.int8, (1, 2, 2)), (np.int8, (2,))],
        {},
        (10, INVALID, "expected one zero point of the input"),
    ),
    "top_long": (
        "TopK",
        [(1, 2**30), ints(1)],
        {},
        (11, UNSUPPORTED, "elements is too long"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case, tmp_path):
    op, arguments, attributes, (opset, code, message) = REFUSED[case]
    onnx.save(build(op, arguments, attributes, opset), tmp_path / "model.onnx")
    process = mpctest.mpc(
        *("compile", tmp_path / "model.onnx"),
        *("--emit=import", "-o", tmp_path / "model.mlir"),
    )
    assert process.returncode == code, process.stderr
    assert f"node 'node' ({op})" in process.stderr
    assert message in process.stderr


def test_updates_outside_of_a_cache_are_left_out(tmp_path):
    """What a place that is computed leads to is no error that anybody could
    see; nothing else is written."""
    cache = np.zeros((3, 4, 2), np.float32)
    update = np.ones((3, 2, 2), np.float32)
    model = mpctest.make_model(
        [
            helper.make_node("Add", ["first", "shift"], ["places"], "add"),
            helper.make_node(
                *("TensorScatter", ["cache", "update", "places"], ["y"]),
                axis=1,
            ),
        ],
        {
            "cache": (np.float32, cache.shape),
            "update": (np.float32, update.shape),
            "first": (np.int64, (3,)),
        },
        {"y": (np.float32, cache.shape)},
        {"shift": ints(-10)},
        24,
    )
    inputs = {"cache": cache, "update": update, "first": ints(9, 11, 13)}
    y = mpctest.run(model, inputs, tmp_path)["y"]
    written = [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(y[..., 0], written)


def test_boxes_of_images_that_do_not_exist_are_refused(tmp_path):
    model = build(
        "RoiAlign",
        [(2, 1, 4, 4), (1, 4), (np.int64, (1,))],
        {"sampling_ratio": 1},
        16,
    )
    onnx.save(model, tmp_path / "model.onnx")
    inputs = [np.ones((2, 1, 4, 4), np.float32), np.zeros((1, 4), np.float32)]
    flags = []
    for i, value in enumerate([*inputs, ints(2)]):
        np.save(tmp_path / f"in{i}.npy", value)
        flags += ["--input", f"in{i}=@{tmp_path}/in{i}.npy"]
    process = mpctest.mpc("run", tmp_path / "model.onnx", *flags)
    assert process.returncode == INVALID, process.stderr
    assert "in2" in process.stderr


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grids_of_no_numbers_read_nothing_else(mode, padding, tmp_path):
    """Places that are infinite, NaN or far away are read within the image, or
    not at all; the others are not changed by them."""
    x = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
    odd = [np.nan, np.inf, -np.inf, 1e38, -1e38, 1e18, -1e18, 3e9, -3e9]
    grid = np.zeros((1, 1, len(odd) + 1, 2), np.float32)
    grid[0, 0, 1:, 0] = odd
    model = build(
        "GridSample",
        [x.shape, grid.shape],
        {"mode": mode, "padding_mode": padding},
        20,
    )
    y = mpctest.run(model, {"in0": x, "in1": grid}, tmp_path)["out0"].ravel()
    alone = build(
        "GridSample",
        [x.shape, (1, 1, 1, 2)],
        {"mode": mode, "padding_mode": padding},
        20,
    )
    inputs = {"in0": x, "in1": grid[:, :, :1]}
    assert y[0] == mpctest.run(alone, inputs, tmp_path)["out0"].ravel()[0]
    far = y[4:]
    assert ((far == 0) if padding == "zeros" else (abs(far) < 20)).all()
    # Where every element has a place, so has what is no number.
    if mode == "nearest":
        assert np.isin(y, [0, *x.ravel()]).all()
