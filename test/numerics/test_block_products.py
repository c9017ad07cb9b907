"""com.microsoft's MatMulNBits computes what ONNX Runtime computes, and passes the
gradient to its data.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import mpctest

random = np.random.default_rng(11)
DEPTH, COLUMNS, BLOCK = 40, 6, 16
BLOCKS = 3  # the last has 8 elements


def weights(bits, zeros):
    """Returns the initializers of the node."""
    values = {
        "b": random.integers(0, 256, (COLUMNS, BLOCKS, BLOCK * bits // 8), np.uint8),
        "scales": random.uniform(0.01, 0.1, COLUMNS * BLOCKS).astype(np.float32),
    }
    if zeros == "packed":
        packed = -(-BLOCKS * bits // 8)
        values["zeros"] = random.integers(0, 256, COLUMNS * packed, np.uint8)
    if zeros == "floats":
        shape = (COLUMNS, BLOCKS)
        values["zeros"] = random.uniform(2, 12, shape).astype(np.float32)
    return values


def make_product(bits, zeros=None, bias=False, batch="N"):
    values = weights(bits, zeros)
    inputs = ["x", "b", "scales", "zeros" if zeros else ""]
    if bias:
        values["bias"] = random.standard_normal(COLUMNS).astype(np.float32)
        inputs += ["", "bias"]
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node(
        *("MatMulNBits", inputs, ["y"], "product"),
        domain="com.microsoft",
        K=DEPTH,
        N=COLUMNS,
        bits=bits,
        block_size=BLOCK,
    )
    return mpctest.make_model(
        *([node], {"x": (np.float32, [batch, DEPTH])}),
        *({"y": (np.float32, [batch, COLUMNS])}, values),
    )


CASES = [(4, None), (4, "packed"), (4, "floats"), (8, None), (8, "packed")]


@pytest.mark.parametrize("bits,zeros", CASES)
def test_equals_onnx_runtime(bits, zeros, tmp_path):
    x = random.standard_normal((5, DEPTH)).astype(np.float32)
    for bias in [False, True]:
        model = make_product(bits, zeros, bias)
        found = mpctest.run(model, {"x": x}, tmp_path, "--batch-size", 5)["y"]
        session = onnxruntime.InferenceSession(model.SerializeToString())
        (right,) = session.run(None, {"x": x})
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)


def test_other_forms_are_refused(tmp_path):
    model = make_product(4)
    model.graph.initializer[1].CopyFrom(
        mpctest.numpy_helper.from_array(np.ones(5, np.float32), "scales")
    )
    mpctest.onnx.save(model, tmp_path / "m.onnx")
    process = mpctest.mpc("check", tmp_path / "m.onnx", "--batch-size", 1)
    assert process.returncode == 1
    assert "expected 18 scales, one of each block" in process.stderr + process.stdout


@pytest.mark.parametrize("shape", [(1, COLUMNS), (5, COLUMNS), (1,), ()])
def test_a_bias_of_another_shape_is_refused(shape, tmp_path):
    """ONNX Runtime refuses these, too: nothing is broadcast."""
    model = make_product(4, bias=True, batch=5)
    model.graph.initializer[-1].CopyFrom(
        mpctest.numpy_helper.from_array(np.ones(shape, np.float32), "bias")
    )
    mpctest.onnx.save(model, tmp_path / "m.onnx")
    process = mpctest.mpc("check", tmp_path / "m.onnx")
    assert process.returncode == 1
    assert f"expected a bias [{COLUMNS}]" in process.stderr + process.stdout
    with pytest.raises(Exception, match="bias"):
        session = onnxruntime.InferenceSession(model.SerializeToString())
        session.run(None, {"x": np.ones((5, DEPTH), np.float32)})


def test_frozen_weight_has_an_adapter(tmp_path):
    """Layers of 4 bits are adapted, and only the adapters change."""
    values = {f"{layer}.{name}": value for layer in "pq" for name, value in weights(4, None).items()}
    values["head"] = random.standard_normal((COLUMNS, 2)).astype(np.float32)

    def product(layer, x, y):
        inputs = [x, f"{layer}.b", f"{layer}.scales"]
        return helper.make_node(
            *("MatMulNBits", inputs, [y], layer),
            domain="com.microsoft",
            K=DEPTH,
            N=COLUMNS,
            bits=4,
            block_size=BLOCK,
        )

    nodes = [
        product("p", "x", "a"),
        product("q", "x", "b"),
        helper.make_node("Add", ["a", "b"], ["s"], "sum"),
        helper.make_node("Tanh", ["s"], ["t"], "tanh"),
        helper.make_node("MatMul", ["t", "head"], ["y"], "head"),
    ]
    model = mpctest.make_model(
        *(nodes, {"x": (np.float32, ["N", DEPTH])}, {"y": (np.float32, ["N", 2])}),
        values,
    )
    mpctest.onnx.save(model, tmp_path / "m.onnx")
    x = random.standard_normal((32, DEPTH)).astype(np.float32)
    target = random.standard_normal((32, 2)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, target=target)
    command = [
        *("train", tmp_path / "m.onnx", "--data", tmp_path / "d.npz", "--loss", "mse"),
        *("--lora", "2", "--epochs", 40, "--batch-size", 32, "--optimizer", "adam"),
        *("--lr", 0.05, "--metrics", tmp_path / "m.jsonl", *mpctest.TARGET),
    ]
    output = tmp_path / "a.npz"
    mpctest.mpc_ok(*command, "--output", output, "--trained-only")
    losses = mpctest.losses(mpctest.read_metrics(tmp_path / "m.jsonl"))
    assert losses[-1] < 0.7 * losses[0]
    with np.load(output) as arrays:
        assert set(arrays) == {
            f"base_model.model.{layer}.lora_{part}.weight" for layer in "pq" for part in "AB"
        }
    command = [*command, "--overwrite-metrics", "--output", tmp_path / "o.onnx"]
    process = mpctest.mpc(*command)
    assert process.returncode == 4
    assert "quantized, and cannot receive their adapter" in process.stderr
    # ONNX Runtime runs the model with the adapters as nodes.
    mpctest.mpc_ok(*command, "--unmerged")
    session = onnxruntime.InferenceSession(tmp_path / "o.onnx")
    (scores,) = session.run(None, {"x": x})
    np.testing.assert_allclose(np.mean((scores - target) ** 2), losses[-1], rtol=0.3)
    loaded = ["--lora", "2", "--weights", output]
    found = mpctest.run(model, {"x": x}, tmp_path, "--batch-size", 32, *loaded)["y"]
    np.testing.assert_allclose(scores, found, rtol=1e-4, atol=1e-4)
