"""With conditions in a step, training takes the branch that the data selects,
in every precision and on both devices.

SPDX-License-Identifier: Apache-2.0
"""

import os

import numpy as np
import pytest
from onnx import TensorProto, helper

import mpctest

BATCH, WIDTH, CLASSES = 8, 16, 4
EMULATOR = mpctest.BUILD / "test" / "emulator"

# Relative bounds on the difference to float64 losses.
TOLERANCES = {"32-true": 1e-5, "bf16-mixed": 2e-2, "16-mixed": 4e-3}
FLAGS = (
    *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
    *("--lr", "1e-2", "--no-shuffle"),
)


def make_branch(name, result, activation):
    nodes = [
        helper.make_node("MatMul", ["hidden", f"{name}_w"], [f"{name}_m"]),
        helper.make_node(activation, [f"{name}_m"], [f"{name}_a"]),
        helper.make_node("Dropout", [f"{name}_a", "ratio", "training"], [result]),
    ]
    output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
    return helper.make_graph(nodes, name, [], [output])


def make_model(beside=False):
    """Returns a shared layer, then one of two layers, selected by the batch's
    kind. With `beside`, a product reads the shared layer too."""
    random = np.random.RandomState(0)

    def weight(*shape):
        return (random.randn(*shape) / np.sqrt(shape[0])).astype(np.float32)

    nodes = [
        helper.make_node("ReduceSum", ["kind"], ["sum"], "sum", keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["is_first"], "greater"),
        helper.make_node("MatMul", ["x", "in_w"], ["hidden"], "in"),
        helper.make_node(
            *("If", ["is_first"], ["y"], "choice"),
            then_branch=make_branch("first", "first_y", "Tanh"),
            else_branch=make_branch("second", "second_y", "Relu"),
        ),
        helper.make_node("MatMul", ["y", "out_w"], ["scores"], "out"),
    ]
    if beside:
        nodes[-1].output[0] = "part"
        nodes += [
            helper.make_node("MatMul", ["hidden", "beside_w"], ["other"], "beside"),
            helper.make_node("Add", ["part", "other"], ["scores"], "both"),
        ]
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", WIDTH]), "kind": (np.float32, ["N"])},
        {"scores": (np.float32, ["N", CLASSES])},
        {
            "in_w": weight(WIDTH, WIDTH),
            "first_w": weight(WIDTH, WIDTH),
            "second_w": weight(WIDTH, WIDTH),
            "out_w": weight(WIDTH, CLASSES),
            **({"beside_w": weight(WIDTH, CLASSES)} if beside else {}),
            "zero": np.array(0, np.float32),
            "ratio": np.array(0.1, np.float32),
            "training": np.array(True),
        },
        opset=17,
    )


def make_data():
    """Returns alternating batches of both kinds, which have opposite signs."""
    random = np.random.RandomState(1)
    x = random.randn(32 * BATCH, WIDTH).astype(np.float32)
    kind = np.repeat(np.tile([1.0, -1.0], 16), BATCH).astype(np.float32)
    target = np.argmax(x[:, :CLASSES] * kind[:, None], axis=1)
    return {"x": x, "kind": kind, "target": target}


def train_losses(precision, folder, *flags, model=None):
    metrics, weights = mpctest.train(
        *(model or make_model(), make_data(), folder, *FLAGS),
        *("--batch-size", str(BATCH), "--precision", precision, *flags),
    )
    return mpctest.losses(metrics), weights


@pytest.mark.parametrize("precision", TOLERANCES)
def test_losses_are_those_in_float64(precision, tmp_path):
    """The first losses match float64. By the end the model has learned both
    kinds."""
    exact, _ = train_losses("64-true", tmp_path / "exact", "--max-steps", "16")
    losses, _ = train_losses(precision, tmp_path / "run", "--epochs", "12")
    np.testing.assert_allclose(
        losses[: len(exact)], exact, rtol=TOLERANCES[precision]
    )
    assert np.mean(losses[-8:]) < 0.4 * losses[0]


@pytest.mark.parametrize("precision", TOLERANCES)
def test_branches_read_what_a_product_beside_them_reads(precision, tmp_path):
    """The product reads the value in 16 bits, the branches in the model's type."""
    model, steps = make_model(beside=True), ("--max-steps", "16")
    exact, _ = train_losses("64-true", tmp_path / "exact", *steps, model=model)
    losses, _ = train_losses(precision, tmp_path / "run", *steps, model=model)
    np.testing.assert_allclose(losses, exact, rtol=TOLERANCES[precision])


def test_a_branch_that_is_not_taken_keeps_its_weights(tmp_path):
    data = make_data()
    data["kind"][:] = 1
    _, weights = mpctest.train(
        *(make_model(), data, tmp_path, *FLAGS),
        *("--weight-decay", "0", "--batch-size", str(BATCH), "--max-steps", "4"),
    )
    starts = {
        tensor.name: np.frombuffer(tensor.raw_data, np.float32)
        for tensor in make_model().graph.initializer
        if tensor.name in ("first_w", "second_w")
    }
    assert np.abs(weights["first_w"].ravel() - starts["first_w"]).min() > 0
    np.testing.assert_array_equal(weights["second_w"].ravel(), starts["second_w"])


@pytest.mark.starts_mpc
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_same_bits_on_any_number_of_threads(precision, tmp_path):
    runs = [
        train_losses(
            *(precision, tmp_path / str(threads), "--max-steps", "8"),
            *("--threads", threads),
        )
        for threads in (1, 2, 3)
    ]
    for losses, weights in runs[1:]:
        assert losses == runs[0][0]
        for name, value in weights.items():
            np.testing.assert_array_equal(value, runs[0][1][name], name)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_an_emulated_gpu_has_the_same_losses(precision, tmp_path):
    cpu, _ = train_losses(precision, tmp_path, "--max-steps", "4")
    path, metrics = tmp_path / "model.onnx", tmp_path / "gpu.jsonl"
    mpctest.mpc_ok(
        *("train", path, "--data", tmp_path / "data.npz", *FLAGS),
        *("--batch-size", str(BATCH), "--max-steps", "4"),
        *("--precision", precision, "--metrics", metrics),
        *("--output", tmp_path / "gpu.onnx"),
        *("--device", "cuda", "--target", "sm_80"),
        env={
            **os.environ,
            "MPC_CUDA_LIBRARY_PATH": str(EMULATOR),
            "MPC_EMULATOR_DEVICE": "sm_80",
        },
    )
    gpu = mpctest.losses(mpctest.read_metrics(metrics))
    np.testing.assert_allclose(gpu, cpu, rtol=TOLERANCES[precision])
