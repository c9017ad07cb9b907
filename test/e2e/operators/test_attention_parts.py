"""Attention that computes scores in parts, and recomputes them in the backward
pass, has the gradients of stored scores.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

import mpctest

WIDTH = 16


def softmax(add, scores):
    return add("Softmax", scores, axis=-1)


def spelt_softmax(add, scores):
    shifted = add("Sub", scores, add("ReduceMax", scores, axes=[-1]))
    numbers = add("Exp", shifted)
    return add("Div", numbers, add("ReduceSum", numbers, "last"))


def maximum(add, scores):
    return add("Mul", scores, add("ReduceMax", scores, axes=[-1]))


def model(weigh, dtype, queries, keys):
    """Returns the loss of `weigh` applied to the scores, times values."""
    random = np.random.RandomState(0)
    nodes = []

    def add(op, *inputs, **attributes):
        name = f"{op.lower()}{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    weights = {
        f"w{part}": random.normal(size=(8, WIDTH), scale=0.5).astype(dtype)
        for part in "qkv"
    }
    query = add("MatMul", "x", "wq")
    key = add("Transpose", add("MatMul", "m", "wk"), perm=[0, 1, 3, 2])
    value = add("MatMul", "v", "wv")
    mixed = add("MatMul", weigh(add, add("MatMul", query, key)), value)
    add("ReduceMean", add("Mul", mixed, "t"), keepdims=0)
    nodes[-1].output[0] = "loss"
    shapes = {
        "x": (2, 1, queries, 8),
        "m": (2, 1, keys, 8),
        "v": (2, 1, keys, 8),
        "t": (2, 1, queries, WIDTH),
    }
    made = mpctest.make_model(
        nodes,
        {name: (dtype, shape) for name, shape in shapes.items()},
        {"loss": (dtype, [])},
        {**weights, "last": np.array([-1])},
    )
    data = {
        name: random.normal(size=shape).astype(dtype)
        for name, shape in shapes.items()
    }
    return made, data, weights


# Both samples' scores are larger than a part: a loop over samples contains a
# loop over rows. With 1472 rows, products in parts use other block heights.
@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed"])
@pytest.mark.parametrize("weigh", [softmax, spelt_softmax, maximum])
@pytest.mark.parametrize("queries,keys", [(1184, 1184), (1472, 719)])
def test_parts_have_the_gradients_of_the_whole(
    weigh, precision, queries, keys, tmp_path
):
    dtype = np.float64 if precision == "64-true" else np.float32
    made, data, before = model(weigh, dtype, queries, keys)
    found = {}
    for name, flags in (("parts", ()), ("whole", ("--no-recompute",))):
        _, trained = mpctest.train(
            made,
            data,
            tmp_path / name,
            *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
            *("--batch-size", "2", "--max-steps", "1"),
            *("--precision", precision, "--train", "^w", *flags),
        )
        found[name] = {key: before[key] - trained[key] for key in before}
    tolerance = {"32-true": 1e-4, "64-true": 1e-9, "bf16-mixed": 2e-2}
    for key, whole in found["whole"].items():
        np.testing.assert_allclose(
            found["parts"][key],
            whole,
            atol=tolerance[precision] * np.abs(whole).max() + 1e-12,
            err_msg=key,
        )
