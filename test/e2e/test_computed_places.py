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
