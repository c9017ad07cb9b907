"""Random operators on an emulated GPU match NumPy, at sizes near those of
vectors, warps and tiles.

    MPC_RANDOM_GRAPHS=0:200 pytest test/e2e/gpu/test_gpu_random.py

draws 200 graphs; the default is a few. The emulated GPU also reports accesses
out of bounds, and races in which one thread reads an element while another
writes it.

SPDX-License-Identifier: Apache-2.0
"""

import os

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
from test_gpu import emulated

SEEDS = range(*map(int, os.environ.get("MPC_RANDOM_GRAPHS", "0:4").split(":")))
SIZES = [1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 128, 257]
# The number of operators of each kind in one model.
OPERATORS = 6


class Operators:
    """Collects nodes, their inputs and expected results. Each node has an
    output of its own."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.nodes, self.inputs, self.expected = [], {}, {}

    def choose(self, options):
        return options[self.random.randint(len(options))]

    def shape(self, rank, elements):
        """Returns a shape of at most `elements` elements, with axes in any
        order."""
        shape = []
        for _ in range(rank):
            shape.append(self.choose([s for s in SIZES if s <= elements]))
            elements //= shape[-1]
        return self.random.permutation(shape).tolist()

    def input(self, values):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.ascontiguousarray(values)
        return name

    def add(self, op, inputs, expected, **attributes):
        name = f"y{len(self.expected)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.expected[name] = expected

    def check(self, folder, rtol=0.0, atol=0.0):
        def types(arrays):
            return {k: (v.dtype, v.shape) for k, v in arrays.items()}

        model = mpctest.make_model(
            self.nodes, types(self.inputs), types(self.expected), {}, opset=18
        )
        onnx.save(model, folder / "model.onnx")
        arguments = []
        for name, array in self.inputs.items():
            np.save(folder / f"{name}.npy", array)
            arguments += ["--input", f"{name}=@{folder}/{name}.npy"]
        mpctest.mpc_ok(
            *("run", folder / "model.onnx", *arguments),
            *("--device", "cuda", "--target", "sm_90"),
            *("--output", folder / "y.npz"),
            env=emulated("sm_90", folder),
        )
        with np.load(folder / "y.npz") as found:
            for name, expected in self.expected.items():
                np.testing.assert_allclose(
                    found[name], expected, rtol, atol, err_msg=name
                )


@pytest.mark.parametrize("seed", SEEDS)
def test_transposes(seed, tmp_path):
    """Covers every element type, some with a cast."""
    operators = Operators(seed)
    random, choose = operators.random, operators.choose
    kinds = [np.float32, np.float16, np.float64, np.int8, np.int64, np.bool_]
    for _ in range(OPERATORS):
        shape = operators.shape(random.randint(2, 6), 6000)
        values = random.randint(-100, 100, shape).astype(choose(kinds))
        perm = [int(axis) for axis in random.permutation(len(shape))]
        name = operators.input(values)
        if values.dtype.kind == "f" and random.rand() < 0.5:
            values = values.astype(choose([np.float32, np.float16]))
            kind = helper.np_dtype_to_tensor_dtype(values.dtype)
            node = helper.make_node("Cast", [name], [name + "c"], to=kind)
            operators.nodes.append(node)
            name += "c"
        operators.add("Transpose", [name], values.transpose(perm), perm=perm)
    operators.check(tmp_path)


REDUCTIONS = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceSumSquare": lambda x, axis, keepdims: (x * x).sum(
        axis, keepdims=keepdims
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
def test_reductions(seed, tmp_path):
    """The numbers have exact sums, over any axes, in one step and in two."""
    operators = Operators(seed)
    random, choose = operators.random, operators.choose
    for _ in range(OPERATORS):
        rank = random.randint(1, 6)
        shape = operators.shape(rank, choose([2000, 60000, 400000]))
        axes = [axis for axis in range(rank) if random.rand() < 0.6] or [0]
        x = random.randint(-3, 4, shape).astype(choose([np.float32, np.float64]))
        op, keeps = choose(list(REDUCTIONS)), bool(random.randint(2))
        exact = REDUCTIONS[op](x.astype(float), tuple(axes), keepdims=keeps)
        name = f"axes{len(operators.nodes)}"
        constant = helper.make_node("Constant", [], [name], value_ints=axes)
        operators.nodes.append(constant)
        operators.add(
            op,
            [operators.input(x), name],
            np.asarray(exact).astype(x.dtype),
            keepdims=int(keeps),
        )
    operators.check(tmp_path, rtol=1e-6, atol=1e-7)


SCATTERS = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_scatters(seed, tmp_path):
    """Many updates of few rows, few of many, and none. The sums are exact in
    any order."""
    operators = Operators(seed)
    random, choose = operators.random, operators.choose
    for _ in range(OPERATORS):
        kind = choose([np.float32, np.float16, np.float64, np.int32])
        rows, updates = choose([1, 3, 8, 33, 1000]), choose([0, 1, 33, 257, 2100])
        inner = operators.shape(random.randint(3), 600 if updates < 300 else 20)
        data = random.randint(-3, 4, [rows, *inner]).astype(kind)
        indices = random.randint(-rows, rows, (updates, 1))
        if random.rand() < 0.3:
            indices[:] = random.randint(rows)
        reduction = choose(list(SCATTERS))
        values = random.choice([-1, 1], (updates, *inner)).astype(kind)
        expected = data.astype(float)
        for index, value in zip(indices[:, 0], values):
            expected[index] = SCATTERS[reduction](expected[index], value)
        inputs = [operators.input(v) for v in (data, indices, values)]
        operators.add(
            "ScatterND", inputs, expected.astype(kind), reduction=reduction
        )
    operators.check(tmp_path)
