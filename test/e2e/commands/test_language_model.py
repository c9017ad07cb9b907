"""A small language model trains: it gathers embeddings, scatters their
gradients, and accesses attention heads in place.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

WORDS, LENGTH, WIDTH, HEADS, BATCH = 61, 12, 32, 4, 4
EMULATOR = mpctest.BUILD / "test" / "emulator"

# Relative bounds on the difference to float64 losses.
TOLERANCES = {"32-true": 1e-5, "bf16-mixed": 3e-2, "16-mixed": 4e-3}


def random_weights():
    random = np.random.RandomState(0)

    def weight(*shape):
        return (random.randn(*shape) / np.sqrt(shape[0])).astype(np.float32)

    return {
        "words": random.randn(WORDS, WIDTH).astype(np.float32),
        "positions": (0.1 * random.randn(LENGTH, WIDTH)).astype(np.float32),
        "qkv": weight(WIDTH, 3 * WIDTH),
        "project": weight(WIDTH, WIDTH),
        "up": weight(WIDTH, 4 * WIDTH),
        "down": weight(4 * WIDTH, WIDTH),
        "head": weight(WIDTH, WORDS),
    }


def constants():
    hidden = np.triu(np.ones((LENGTH, LENGTH), bool), 1)
    return {
        "heads_shape": np.array([0, 0, HEADS, WIDTH // HEADS], np.int64),
        "width_shape": np.array([0, 0, WIDTH], np.int64),
        "mask": np.where(hidden, -1e9, 0).astype(np.float32),
        "scale": np.float32((WIDTH // HEADS) ** -0.5),
    }


def make_language_model():
    node = helper.make_node
    nodes = [
        node("Gather", ["words", "ids"], ["embedded"], "embed"),
        node("Add", ["embedded", "positions"], ["x"], "position"),
        node("MatMul", ["x", "qkv"], ["all"], "qkv_product"),
        node("Split", ["all"], ["q", "k", "v"], "split", axis=2),
    ]
    for name in "qkv":
        nodes += [
            node("Reshape", [name, "heads_shape"], [f"{name}_split"]),
            node(
                *("Transpose", [f"{name}_split"], [f"{name}_heads"]),
                perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3],
            ),
        ]
    nodes += [
        node("MatMul", ["q_heads", "k_heads"], ["scores"], "scores"),
        node("Mul", ["scores", "scale"], ["scaled"]),
        node("Add", ["scaled", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["attention"], "softmax", axis=-1),
        node("MatMul", ["attention", "v_heads"], ["y_heads"], "attend"),
        node("Transpose", ["y_heads"], ["y_split"], perm=[0, 2, 1, 3]),
        node("Reshape", ["y_split", "width_shape"], ["y"]),
        node("MatMul", ["y", "project"], ["projected"], "projection"),
        node("Add", ["x", "projected"], ["residual"]),
        node("MatMul", ["residual", "up"], ["raised"], "up_product"),
        node("Gelu", ["raised"], ["activated"], "gelu"),
        node("MatMul", ["activated", "down"], ["lowered"], "down_product"),
        node("Add", ["residual", "lowered"], ["last"]),
        node("MatMul", ["last", "head"], ["logits"], "head_product"),
    ]
    return mpctest.make_model(
        nodes,
        {"ids": (np.int64, [BATCH, LENGTH])},
        {"logits": (np.float32, [BATCH, LENGTH, WORDS])},
        {**random_weights(), **constants()},
        opset=20,
    )


def make_text():
    """Returns sequences in which each word is the previous word plus seven."""
    starts = np.random.RandomState(1).randint(0, WORDS, (16 * BATCH, 1))
    text = (starts + 7 * np.arange(LENGTH + 1)) % WORDS
    return {"ids": text[:, :-1], "target": text[:, 1:]}


FLAGS = (
    *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
    *("--lr", "3e-3", "--epochs", "2", "--train", ".*"),
)


def train_losses(precision, folder, *flags):
    metrics, weights = mpctest.train(
        make_language_model(),
        make_text(),
        folder,
        *FLAGS,
        *("--precision", precision),
        *flags,
    )
    return mpctest.losses(metrics), weights


@pytest.mark.parametrize("precision", TOLERANCES)
def test_losses_are_those_in_float64(precision, tmp_path):
    exact, _ = train_losses("64-true", tmp_path / "exact")
    losses, _ = train_losses(precision, tmp_path / "run")
    assert losses[-1] < 0.5 * losses[0]
    np.testing.assert_allclose(losses, exact, rtol=TOLERANCES[precision])


@pytest.mark.starts_mpc
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_same_bits_on_any_number_of_threads(precision, tmp_path):
    runs = [
        train_losses(precision, tmp_path / str(threads), "--threads", threads)
        for threads in (1, 2, 3)
    ]
    for losses, weights in runs[1:]:
        assert losses == runs[0][0]
        for name, value in weights.items():
            np.testing.assert_array_equal(value, runs[0][1][name], name)


def compile_plan(folder, *flags):
    path = folder / "model.onnx"
    onnx.save(make_language_model(), path)
    return mpctest.mpc_ok(
        *("compile", path, "-o", "-", "--emit=plan"),
        *("--loss", "softmax_cross_entropy@logits:2", "--optimizer", "adamw"),
        *flags,
    ).stdout


def movements_of_a_step(plan):
    """Returns the ops of the movement kernels of @step, sorted."""
    step = plan.split("plan.program @step")[1].split("plan.program")[0]
    launched = set(re.findall(r"plan\.launch @(\w+)", step))
    return sorted(
        re.search(r"= (mpc\.\w+)", body).group(1)
        for name, body in re.findall(
            r"func\.func private @(\w+)\([^\n]*#mpc\.kernel<movement>\} \{\n"
            r"(.*?)\n  \}",
            plan,
            re.DOTALL,
        )
        if name in launched
    )


def test_heads_are_not_moved(tmp_path):
    """No kernel moves heads or joins the gradients of queries, keys and values.
    A GPU's library takes a batch of one axis: there the kernels that add the
    bias move the heads."""
    cpu = compile_plan(tmp_path, "--target", "x86-64-v3")
    assert movements_of_a_step(cpu) == []
    gpu = compile_plan(tmp_path, "--target", "sm_80")
    assert "mpc.transpose" in movements_of_a_step(gpu)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_an_emulated_gpu_has_the_same_losses(precision, tmp_path):
    cpu, _ = train_losses(precision, tmp_path, "--max-steps", "4")
    path, metrics = tmp_path / "model.onnx", tmp_path / "gpu.jsonl"
    mpctest.mpc_ok(
        *("train", path, "--data", tmp_path / "data.npz", "--no-shuffle"),
        *FLAGS,
        *("--max-steps", "4", "--precision", precision),
        *("--metrics", metrics, "--output", tmp_path / "gpu.onnx"),
        *("--device", "cuda", "--target", "sm_80"),
        env={
            **os.environ,
            "MPC_CUDA_LIBRARY_PATH": str(EMULATOR),
            "MPC_EMULATOR_DEVICE": "sm_80",
        },
    )
    gpu = mpctest.losses(mpctest.read_metrics(metrics))
    tolerance = 1e-5 if precision == "32-true" else 3e-2
    np.testing.assert_allclose(gpu, cpu, rtol=tolerance)


@pytest.mark.parametrize("index", [WORDS, -WORDS - 1, 2**40])
def test_training_refuses_words_that_there_are_not(index, tmp_path):
    text = make_text()
    text["ids"][3, 5] = index
    onnx.save(make_language_model(), tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **text)
    process = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--output", tmp_path / "trained.onnx"),
    )
    assert process.returncode == 3
    assert f"index {index} is not in [-{WORDS},{WORDS})" in process.stderr
    assert not (tmp_path / "trained.onnx").exists()


def test_running_refuses_them_too(tmp_path):
    model = make_language_model()
    onnx.save(model, tmp_path / "model.onnx")
    ids = np.full((BATCH, LENGTH), -WORDS)
    assert np.isfinite(mpctest.run(model, {"ids": ids}, tmp_path)["logits"]).all()
    ids[1, 2] = WORDS
    np.save(tmp_path / "ids.npy", ids)
    process = mpctest.mpc(
        *("run", tmp_path / "model.onnx"),
        *("--input", f"ids=@{tmp_path}/ids.npy", *mpctest.TARGET),
    )
    assert process.returncode == 3
    assert f"index {WORDS} is" in process.stderr
