"""A head of 257 classes on an emulated GPU has the CPU's losses.
`plan-pad-rows` pads the rows of the scores and of their gradient there, and
pads nothing on a CPU.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
from test_gpu import TOLERANCES, emulated

STEPS = 3


def write_model(folder, bias):
    """Writes two layers over 16 samples of 16 tokens, and tokens to learn."""
    random = np.random.RandomState(0)
    weights = {
        "w0": random.randn(8, 256).astype(np.float32),
        "w1": random.randn(257, 256).astype(np.float32) / 16,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h"]),
        helper.make_node("Relu", ["h"], ["a"]),
        helper.make_node("Transpose", ["w1"], ["w"], perm=[1, 0]),
        helper.make_node("MatMul", ["a", "w"], ["scores"]),
    ]
    if bias:
        weights["b1"] = random.randn(257).astype(np.float32)
        nodes.append(helper.make_node("Add", ["scores", "b1"], ["y"]))
    else:
        nodes[-1].output[0] = "y"
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [16, 16, 8])},
        {"y": (np.float32, [16, 16, 257])},
        weights,
    )
    onnx.save(model, folder / "model.onnx")
    np.savez(
        folder / "data.npz",
        x=random.randn(16, 16, 8).astype(np.float32),
        target=random.randint(0, 257, (16, 16)),
    )


def train(folder, precision, device, target):
    metrics = folder / f"{device}.jsonl"
    mpctest.mpc_ok(
        *("train", folder / "model.onnx", "--no-shuffle"),
        *("--data", folder / "data.npz", "--precision", precision),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--lr", "0.5", "--epochs", STEPS, "--batch-size", "16"),
        *("--device", device, "--target", target),
        *("--metrics", metrics, "--overwrite-metrics"),
        *("--output", folder / f"{device}.onnx"),
        env=emulated(target, folder),
    )
    return mpctest.losses(mpctest.read_metrics(metrics))


@pytest.mark.parametrize("bias", [False, True], ids=["bare", "bias"])
@pytest.mark.parametrize("precision", TOLERANCES)
def test_loses_what_the_cpu_loses(precision, bias, tmp_path):
    write_model(tmp_path, bias)
    cpu = train(tmp_path, precision, "cpu", "x86-64-v3")
    gpu = train(tmp_path, precision, "cuda", "sm_90")
    assert len(gpu) == STEPS and gpu[-1] < gpu[0]
    np.testing.assert_allclose(gpu, cpu, rtol=TOLERANCES[precision])
    # Weights that read padding would differ widely.
    expected = mpctest.read_weights(tmp_path / "cpu.onnx")
    for name, weight in mpctest.read_weights(tmp_path / "cuda.onnx").items():
        np.testing.assert_allclose(
            weight, expected[name], atol=TOLERANCES[precision], err_msg=name
        )


def test_kernels_add_a_bias_to_padded_rows(tmp_path, monkeypatch):
    """Here the library has no algorithm for a bias."""
    write_model(tmp_path, bias=True)
    expected = train(tmp_path, "bf16-mixed", "cuda", "sm_90")
    log = tmp_path / "choices.log"
    monkeypatch.setenv("MPC_CUDA_LOG", str(log))
    monkeypatch.setenv("MPC_EMULATOR_NO_ALGORITHM", "BIAS")
    gpu = train(tmp_path, "bf16-mixed", "cuda", "sm_90")
    assert "kernels beside a product: cuBLASLt" in log.read_text()
    np.testing.assert_allclose(gpu, expected, rtol=TOLERANCES["bf16-mixed"])


def plan_step(folder, precision):
    """Returns the program of a training step, as text."""
    plan = mpctest.mpc_ok(
        *("compile", folder / "model.onnx", "--emit=plan", "-o", "-"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--precision", precision, "--target", "sm_90"),
    ).stdout
    step = plan[plan.index("plan.program @step") :]
    return step[: step.index("plan.program @eval")]


def test_one_kernel_makes_the_gradient_of_scores(tmp_path):
    """In bf16 one kernel writes the gradient, and no other kernel writes a
    tensor of its size. Both products read this gradient, one of them in the
    scores' shape."""
    write_model(tmp_path, bias=False)
    launches = re.findall(
        r"plan\.launch .*", plan_step(tmp_path, "bf16-mixed")
    )
    wide = [launch for launch in launches if "x264x" in launch]
    assert len(wide) == 1
    written = wide[0][wide[0].index("outs(") :]
    assert "256x264xbf16" in written and "x264xf32" not in written


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_products_of_16_bits_find_aligned_rows(precision, tmp_path):
    write_model(tmp_path, bias=True)
    step = plan_step(tmp_path, precision)
    rows = re.findall(r"\bld[abc] = (\d+)", step)
    assert "264" in rows
    assert all(int(row) % 8 == 0 for row in rows), rows
