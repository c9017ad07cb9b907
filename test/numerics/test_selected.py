"""Operators whose result size depends on data, Unique and NonMaxSuppression,
match NumPy and the definition. Their inputs are constants of the model, or
given to `mpc run`, which binds them.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest


def run(op, arguments, types, folder, constant=(), opset=18, **attributes):
    """Returns the results of one node. Arguments named in `constant` are
    initializers."""
    outputs = [f"out{i}" for i in range(len(types))]
    node = helper.make_node(op, list(arguments), outputs, "node", **attributes)
    given = {k: v for k, v in arguments.items() if k not in constant}
    model = mpctest.make_model(
        [node],
        {k: (v.dtype, v.shape) for k, v in given.items()},
        {name: (dtype, None) for name, dtype in zip(outputs, types)},
        {k: v for k, v in arguments.items() if k in constant},
        opset,
    )
    results = mpctest.run(model, given, folder)
    return [results[name] for name in outputs]


def unique(x, axis, is_sorted):
    """Follows NumPy. If not sorted, values are in the order of first
    occurrence."""
    y, first, inverse, counts = np.unique(
        x, True, True, True, axis=axis, equal_nan=True
    )
    inverse = inverse.reshape(-1)
    if not is_sorted:
        order = np.argsort(first)
        y = np.take(y, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return y, first, inverse, counts


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, -1, 1])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u8", "i8", "?"])
def test_unique(dtype, axis, is_sorted, constant, tmp_path):
    random = np.random.RandomState(3)
    x = random.randint(0, 2, (4, 3, 2)).astype(dtype)
    x[:, 1] = x[:, 0]
    x[3] = x[0]
    if np.dtype(dtype).kind in "iu":
        x[1, 0] = np.iinfo(dtype).max
    if np.dtype(dtype).kind == "f":
        x[1] += 0.5
        if axis is None:  # NumPy treats slices with NaN as different
            x[0, 0] = np.nan
    attributes = {} if axis is None else {"axis": axis}
    results = run(
        "Unique",
        {"x": x},
        [x.dtype, *[np.int64] * 3],
        tmp_path,
        constant=("x",) if constant else (),
        sorted=is_sorted,
        **attributes,
    )
    for actual, expected in zip(results, unique(x, axis, is_sorted)):
        np.testing.assert_array_equal(actual, expected)
    assert results[0].dtype == x.dtype


def test_unique_of_nothing(tmp_path):
    x = np.zeros((0,), np.float32)
    results = run("Unique", {"x": x}, [x.dtype, *[np.int64] * 3], tmp_path)
    assert [result.shape for result in results] == [(0,)] * 4


def test_unique_decides_shapes_of_what_follows(tmp_path):
    """Computes counts as shares of values that are given to `mpc run`."""
    nodes = [
        helper.make_node("Unique", ["x"], ["y", "", "", "n"], "unique"),
        helper.make_node("Cast", ["n"], ["f"], "cast", to=1),
        helper.make_node("Div", ["f", "all"], ["share"], "share"),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, (6,))},
        {"y": (np.float32, None), "share": (np.float32, None)},
        {"all": np.array(6, np.float32)},
    )
    x = np.float32([3, 1, 3, 2.5, 3, 1])
    results = mpctest.run(model, {"x": x}, tmp_path)
    np.testing.assert_array_equal(results["y"], np.float32([1, 2.5, 3]))
    np.testing.assert_allclose(results["share"], np.array([2, 1, 3]) / 6, 1e-6)


def suppress(boxes, scores, most, overlap, score=None, centered=0):
    """Follows the definition: a box is taken unless it overlaps a taken box
    with a higher score."""
    low, high = boxes[..., :2], boxes[..., 2:]
    if centered:
        low, high = low - high / 2, low + high / 2
    low, high = np.minimum(low, high), np.maximum(low, high)
    areas = (high - low).prod(-1)
    taken = []
    for n, c in np.ndindex(*scores.shape[:2]):
        mine = []
        for box in np.argsort(-scores[n, c], kind="stable"):
            if score is not None and scores[n, c, box] <= score:
                continue
            sides = [
                np.minimum(high[n, box], high[n, other])
                - np.maximum(low[n, box], low[n, other])
                for other in mine
            ]
            both = [np.maximum(side, 0).prod() for side in sides]
            shares = [
                b / (areas[n, box] + areas[n, other] - b)
                for b, other in zip(both, mine)
            ]
            if len(mine) < most and all(s <= overlap for s in shares):
                mine.append(box)
        taken += [[n, c, box] for box in mine]
    return np.array(taken, np.int64).reshape(-1, 3)


@pytest.mark.parametrize("constant", [(), ("most", "overlap"), "all"])
@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("score", [None, 0.3])
@pytest.mark.parametrize("most, overlap", [(3, 0.5), (100, 0.2), (0, 0.5)])
def test_suppression(most, overlap, score, centered, constant, tmp_path):
    random = np.random.RandomState(5)
    boxes = random.rand(2, 40, 4).astype(np.float32)
    scores = random.rand(2, 3, 40).astype(np.float32)
    scores[0, 0, 3:9] = 0.75  # of equal scores, the first box is taken first
    arguments = {
        "boxes": boxes,
        "scores": scores,
        "most": np.array([most]),
        "overlap": np.array([overlap], np.float32),
    }
    if score is not None:
        arguments["score"] = np.array([score], np.float32)
    (taken,) = run(
        "NonMaxSuppression",
        arguments,
        [np.int64],
        tmp_path,
        constant=tuple(arguments) if constant == "all" else constant,
        center_point_box=centered,
    )
    expected = suppress(
        boxes.astype(np.float64), scores, most, overlap, score, centered
    )
    np.testing.assert_array_equal(taken, expected)


def test_boxes_given_to_run_decide_adaptive_samples(tmp_path):
    """RoiAlign with sampling_ratio 0 takes a number of samples that depends on
    the box."""
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    rois = np.float32([[0, 0, 4, 8], [1, 2, 7, 3]])
    arguments = {"x": x, "rois": rois, "images": np.zeros(2, np.int64)}
    (y,) = run(
        "RoiAlign", arguments, [np.float32], tmp_path, opset=16, output_width=2
    )
    # The image is linear, so that a mean is the value at the centre.
    lines = 8 * (rois[:, 1] + rois[:, 3] - 1) / 2
    wide = rois[:, 2] - rois[:, 0]
    columns = rois[:, 0, None] + wide[:, None] * [0.25, 0.75] - 0.5
    np.testing.assert_allclose(y[:, 0, 0], lines[:, None] + columns, atol=1e-4)
