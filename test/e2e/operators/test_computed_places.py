"""Operators with computed indices refuse indices out of range, and handle
non-finite positions.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
from refused_places import INVALID, REFUSED, ints


def build(op, arguments, attributes, opset, results=1):
    """Returns a model of one node. A shape, or a pair of type and shape,
    becomes an input. An array becomes an initializer."""
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


@pytest.mark.parametrize("first, element", [((9, 11, 12), 0), ((10, 13, 12), 3)])
def test_updates_that_begin_or_end_outside_of_a_cache_are_refused(
    first, element, tmp_path
):
    """The indices are computed. The message names the first one outside the
    cache."""
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
    inputs = {"cache": cache, "update": update, "first": ints(10, 11, 12)}
    y = mpctest.run(model, inputs, tmp_path)["y"]
    written = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    np.testing.assert_array_equal(y[..., 0], written)
    np.save(tmp_path / "first.npy", ints(*first))
    process = mpctest.mpc(
        *("run", tmp_path / "model.onnx", "--input"),
        *(f"cache=@{tmp_path}/input0.npy", "--input"),
        *(f"update=@{tmp_path}/input1.npy", "--input"),
        *(f"first=@{tmp_path}/first.npy", *mpctest.TARGET),
    )
    assert process.returncode == INVALID
    assert f"element {element}: index 4 is not in [-4, 4)" in process.stderr


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
    """Positions that are infinite, NaN or far away read within the image or
    nothing. They do not affect other positions."""
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
    # Only modes without interpolation guarantee this for NaN and infinite
    # positions.
    if mode == "nearest":
        assert np.isin(y, [0, *x.ravel()]).all()
