"""Sums of millions of terms are right to a millionth, on any number of threads.

A chain of float32 additions of 0.1 is off by a hundredth after four million
terms: as the partial sum grows, fewer digits of each term remain.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest

SHAPES = {
    "columns": ((1 << 22, 16), 0),
    "few_columns": ((1 << 20, 2), 0),
    "row": ((1, 1 << 22), 1),
    "odd": ((1000003, 3), 0),
    "wide": ((8192, 1000), 0),
    "wide_blocks": ((4096, 2048), 0),
}


def reduced(op, shape, axis, folder, *options):
    """Reduces a tensor of 0.1 of the given shape. The model makes the tensor,
    so that no file is read."""
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["full"], "expand"),
        helper.make_node(op, ["full"], ["y"], "reduce", axes=[axis], keepdims=0)
        if op == "ReduceMean"
        else helper.make_node(op, ["full", "axes"], ["y"], "reduce", keepdims=0),
    ]
    result = [extent for i, extent in enumerate(shape) if i != axis]
    initializers = {"shape": np.array(shape)}
    if op == "ReduceSum":
        initializers["axes"] = np.array([axis])
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [1, shape[1]])},
        {"y": (np.float32, result)},
        initializers,
    )
    x = np.full((1, shape[1]), 0.1, np.float32)
    return mpctest.run(model, {"x": x}, folder, *options)["y"]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("op", ("ReduceSum", "ReduceMean"))
def test_many_equal_terms(op, name, tmp_path):
    shape, axis = SHAPES[name]
    y = reduced(op, shape, axis, tmp_path, "--threads", "1")
    count = shape[axis] if op == "ReduceSum" else 1
    np.testing.assert_allclose(y, count * float(np.float32(0.1)), rtol=1e-6)
    for threads in ("2", "3"):
        threaded = reduced(op, shape, axis, tmp_path, "--threads", threads)
        np.testing.assert_array_equal(threaded, y)
