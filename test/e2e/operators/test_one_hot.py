"""A product with one-hot rows of ids becomes a look-up of rows with the same
result. Ids without a row give zeros.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

ROWS, WIDTH, BATCH = 40, 6, 32
RANDOM = np.random.RandomState(0)
DATA = {
    "ids": RANDOM.randint(-2 * ROWS, 2 * ROWS, (2 * BATCH, 5)).astype(np.int32),
    "target": RANDOM.randn(2 * BATCH, 5, WIDTH).astype(np.float32),
}
# OneHot counts ids from -40 on from the end.
SPELLINGS = {
    "one_hot": [("OneHot", ["ids", "depth", "values"], "ones")],
    "equal": [
        ("Unsqueeze", ["ids", "last"], "apart"),
        ("Equal", ["apart", "count"], "same"),
        ("Cast", ["same"], "ones"),
    ],
}


def make(spelling, has_bias):
    numbers = {
        "depth": np.int64(ROWS),
        "values": np.float32([0, 1]),
        "last": np.int64([2]),
        "count": np.arange(ROWS, dtype=np.int32),
        "table.weight": RANDOM.randn(ROWS, WIDTH).astype(np.float32),
        "table.bias": RANDOM.randn(WIDTH).astype(np.float32),
    }
    nodes = [
        helper.make_node(op, ins, [out], **({"to": 1} if op == "Cast" else {}))
        for op, ins, out in SPELLINGS[spelling]
    ]
    nodes.append(helper.make_node("MatMul", ["ones", "table.weight"], ["rows"]))
    if has_bias:
        nodes.append(helper.make_node("Add", ["rows", "table.bias"], ["y"]))
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, ["N", 5])],
        [
            helper.make_tensor_value_info(
                "y" if has_bias else "rows", TensorProto.FLOAT, ["N", 5, WIDTH]
            )
        ],
        [numpy_helper.from_array(v, k) for k, v in numbers.items() if k in read],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def train(model, folder, *flags):
    flags = (*flags, "--loss", "mse", "--optimizer", "sgd", "--lr", 0.5)
    return mpctest.train(model, DATA, folder, *flags, "--batch-size", BATCH)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("has_bias", [False, True])
def test_means_the_same(spelling, has_bias, tmp_path):
    model = make(spelling, has_bias)
    found, weights = train(model, tmp_path / "a", "--precision", "64-true")
    expected, spelled = train(
        *(model, tmp_path / "b", "--precision", "64-true"),
        *("--no-recognize", "embedding"),
    )
    np.testing.assert_allclose(
        mpctest.losses(found), mpctest.losses(expected), rtol=1e-13
    )
    for name, value in spelled.items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-6)


def test_no_product_is_left(tmp_path):
    mpctest.train(make("one_hot", True), DATA, tmp_path, "--loss", "mse")
    # Values that are trained need not stay 0 and 1.
    trained = ("--train", "^values$", "--loss", "mse")
    for flags, op in (
        ((), "gather"),
        (("--no-recognize", "embedding"), "matmul"),
        (trained, "matmul"),
    ):
        process = mpctest.mpc(
            *("compile", tmp_path / "model.onnx", "--batch-size", 4),
            *("--emit=recognize", "-o", "-", *flags),
        )
        assert f"mpc.{op} " in process.stdout
        assert ("mpc.matmul" in process.stdout) == (op == "matmul")
