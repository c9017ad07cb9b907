"""Products and kernels write their columns of a concatenated tensor in place.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
from test_gpu import emulated
from test_repeated_heads import normal

BATCH, TOKENS = 2, 24
# Seeds of random joins. MPC_RANDOM_GRAPHS=0:200 draws more.
SEEDS = range(*map(int, os.environ.get("MPC_RANDOM_GRAPHS", "0:6").split(":")))


def make_attention(heads, size, joined):
    """Returns attention whose queries, keys and values are columns of one
    product, or of three products with the same weights."""
    width = heads * size
    weights = {name: normal(width + i, width)[i:] for i, name in enumerate("qkv")}
    values = {
        "scale": np.float32(size**-0.5),
        "heads": np.array([BATCH, TOKENS, heads, size]),
        "columns": np.array([BATCH, TOKENS, width]),
    }
    nodes = []

    def add(op, inputs, outputs, **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        nodes.append(helper.make_node(op, inputs, outputs, outputs[0], **attributes))

    if joined:
        values["w"] = np.concatenate(list(weights.values()), axis=1)
        values["widths"] = np.array([width] * 3)
        add("MatMul", ["x", "w"], "qkv0")
        add("Split", ["qkv0", "widths"], ["q0", "k0", "v0"], axis=2)
    else:
        for name, weight in weights.items():
            values["w" + name] = weight
            add("MatMul", ["x", "w" + name], name + "0")
    for name in "qkv":
        add("Reshape", [name + "0", "heads"], name + "1")
        add("Transpose", [name + "1"], name, perm=[0, 2, 1, 3])
    add("Transpose", ["k"], "kt", perm=[0, 1, 3, 2])
    add("MatMul", ["q", "kt"], "s0")
    add("Mul", ["s0", "scale"], "s1")
    add("Softmax", ["s1"], "p", axis=-1)
    add("MatMul", ["p", "v"], "o0")
    add("Transpose", ["o0"], "o1", perm=[0, 2, 1, 3])
    add("Reshape", ["o1", "columns"], "y")
    shape = [BATCH, TOKENS, width]
    return mpctest.make_model(
        nodes, {"x": (np.float32, shape)}, {"y": (np.float32, shape)}, values
    )


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "sapphirerapids"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("contractions", ["table", "generated"])
def test_no_kernel_joins(contractions, precision, target, tmp_path):
    onnx.save(make_attention(4, 8, joined=True), tmp_path / "model.onnx")
    plan = mpctest.mpc_ok(
        *("compile", tmp_path / "model.onnx", "-o", "-", "--emit=plan"),
        *("--loss", "mse", "--precision", precision, "--target", target),
        *("--contractions", contractions),
    ).stdout
    assert "plan.program @step" in plan
    assert "mpc.concat" not in plan
    assert "movement" not in re.findall(r"mpc.kernel = #mpc.kernel<(\w+)>", plan)


@pytest.mark.parametrize("contractions", ["table", "generated"])
@pytest.mark.parametrize("heads, size", [(4, 8), (3, 5), (1, 33)])
@pytest.mark.parametrize(
    "precision,tolerance", [("64-true", 1e-12), ("32-true", 1e-5), ("bf16-mixed", 0.02)]
)
def test_the_same_is_learnt(precision, tolerance, heads, size, contractions, tmp_path):
    x = normal(BATCH, TOKENS, heads * size) * 8
    data = {"x": x, "target": np.tanh(x[:, ::-1])}
    flags = ("--loss", "mse", "--optimizer", "sgd", "--lr", 1, "--epochs", 4)
    flags += ("--batch-size", BATCH, "--precision", precision)
    flags += ("--contractions", contractions)
    (found, trained), (expected, apart) = (
        mpctest.train(make_attention(heads, size, joined), data, tmp_path, *flags)
        for joined in (True, False)
    )
    losses = mpctest.losses(found)
    assert losses[-1] < 0.999 * losses[0]
    np.testing.assert_allclose(losses, mpctest.losses(expected), rtol=tolerance)
    columns = np.concatenate([apart["w" + name] for name in "qkv"], axis=1)
    np.testing.assert_allclose(trained["w"], columns, rtol=0, atol=tolerance)


def test_tensor_cores_write_columns(tmp_path):
    """Compares an emulated GPU with float64 on a CPU."""
    model, x = make_attention(4, 16, joined=True), normal(BATCH, TOKENS, 64) * 8
    data = {"x": x, "target": np.tanh(x[:, ::-1])}
    flags = ("--loss", "mse", "--optimizer", "sgd", "--lr", 1, "--epochs", 3)
    flags += ("--batch-size", BATCH, "--contractions", "generated")
    gpu = ("--device", "cuda", "--target", "sm_80", "--precision", "bf16-mixed")
    exact, _ = mpctest.train(model, data, tmp_path, *flags, "--precision", "64-true")
    found, _ = mpctest.train(
        *(model, data, tmp_path, *flags, *gpu), env=emulated("sm_80", tmp_path)
    )
    np.testing.assert_allclose(
        mpctest.losses(found), mpctest.losses(exact), rtol=0.02
    )


class RandomJoin:
    """Makes a random join and an op that reads it. The join is (rows, columns)
    or (samples, rows, columns). Its parts along the last axis are products of
    heads, elementwise rows and normalized rows, in random order."""

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.nodes, self.inputs, self.constants = [], {}, {}
        samples, rows = self.random.randint(1, 5), self.random.randint(2, 9)
        count = self.random.randint(2, 5)
        # Some parts have widths that a head's size divides, and later parts do
        # not.
        size = self.random.choice([1, 3, 4, 8])
        parts = [
            self.make_part(samples, rows, self.random.randint(1, 5), size)
            for _ in range(count)
        ]
        names = [f"p{i}" for i in range(count)]
        for name, (node, _) in zip(names, parts):
            self.nodes.append(helper.make_node("Identity", [node], [name]))
        joined = np.concatenate([value for _, value in parts], axis=2)
        self.nodes.append(helper.make_node("Concat", names, ["joined"], axis=2))
        # A kernel, a product, or both read the join.
        weight = self.add(self.random.standard_normal((joined.shape[2], 5)))
        self.nodes.append(helper.make_node("Sin", ["joined"], ["y"]))
        self.nodes.append(helper.make_node("MatMul", ["joined", weight], ["z"]))
        self.expected = {"y": np.sin(joined), "z": joined @ self.inputs[weight]}

    def add(self, values):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = values
        return name

    def make_part(self, samples, rows, heads, size):
        number = len(self.nodes)
        shape = np.array([samples, rows, heads * size])
        kind = self.random.randint(4)
        if kind == 0:
            values = self.random.standard_normal(tuple(shape))
            name = self.add(values)
            self.nodes.append(helper.make_node("Neg", [name], [f"n{number}"]))
            return f"n{number}", -values
        if kind == 1:
            values = self.random.standard_normal(tuple(shape))
            name = self.add(values)
            self.nodes.append(
                helper.make_node("Softmax", [name], [f"n{number}"], axis=-1)
            )
            e = np.exp(values - values.max(-1, keepdims=True))
            return f"n{number}", e / e.sum(-1, keepdims=True)
        # Heads precede rows, and a transpose moves the heads behind the rows.
        a = self.random.standard_normal((samples, heads, rows, 6))
        b = self.random.standard_normal((samples, heads, 6, size))
        product = a @ b
        names = [self.add(a), self.add(b)]
        self.nodes.append(helper.make_node("MatMul", names, [f"m{number}"]))
        last = f"m{number}"
        if kind == 3:
            self.nodes.append(helper.make_node("Relu", [last], [f"r{number}"]))
            product, last = np.maximum(product, 0), f"r{number}"
        self.nodes.append(
            helper.make_node("Transpose", [last], [f"t{number}"], perm=[0, 2, 1, 3])
        )
        self.constants[f"s{number}"] = shape
        self.nodes.append(
            helper.make_node("Reshape", [f"t{number}", f"s{number}"], [f"v{number}"])
        )
        return f"v{number}", product.transpose(0, 2, 1, 3).reshape(shape)

    def check(self, folder, dtype, *flags, **options):
        def types(arrays):
            return {k: (dtype, v.shape) for k, v in arrays.items()}

        model = mpctest.make_model(
            self.nodes, types(self.inputs), types(self.expected), self.constants
        )
        onnx.save(model, folder / "model.onnx")
        arguments = []
        for name, values in self.inputs.items():
            np.save(folder / f"{name}.npy", values.astype(dtype))
            arguments += ["--input", f"{name}=@{folder}/{name}.npy"]
        output = folder / "y.npz"
        mpctest.mpc_ok(
            *("run", folder / "model.onnx", *arguments, *flags, "--output", output),
            **options,
        )
        atol = 1e-13 if dtype == np.float64 else 3e-5
        with np.load(output) as found:
            for name, expected in self.expected.items():
                np.testing.assert_allclose(
                    found[name], expected, rtol=0, atol=atol, err_msg=name
                )


@pytest.mark.parametrize("contractions", ["table", "generated"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_joins(seed, contractions, tmp_path):
    flags = ("--contractions", contractions)
    graph = RandomJoin(seed)
    graph.check(tmp_path, np.float64, "--precision", "64-true", *flags)
    graph.check(tmp_path, np.float32, "--precision", "32-true", *flags)


@pytest.mark.parametrize("contractions", ["table", "generated"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_joins_on_gpus(seed, contractions, tmp_path):
    RandomJoin(seed).check(
        *(tmp_path, np.float32, "--precision", "32-true"),
        *("--device", "cuda", "--target", "sm_90", "--contractions", contractions),
        env=emulated("sm_90", tmp_path),
    )
