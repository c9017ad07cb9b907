"""Whole training runs on an emulated GPU give the CPU's losses.

The compiler makes PTX and the runtime's CUDA device runs it. test/emulator
replaces the driver, cuBLASLt and cuDNN.

SPDX-License-Identifier: Apache-2.0
"""

import os

import numpy as np
import onnx
import pytest
from onnx import helper
from safetensors.numpy import load_file

import mpctest
from test_families import LOSSES, PATHS

EMULATOR = mpctest.BUILD / "test" / "emulator"
DATA = mpctest.DIGITS / "digits-train.npz"
STEPS = 6

# Relative bounds on the difference to the CPU's loss. Values stored between
# kernels are rounded at other places, because fusion differs.
TOLERANCES = {
    "32-true": 1e-4,
    "64-true": 1e-10,
    "bf16-mixed": 3e-2,
    "16-mixed": 4e-3,
}


def emulated(target, folder):
    """Returns the environment in which mpc finds the emulated GPU."""
    return {
        **os.environ,
        "MPC_CUDA_LIBRARY_PATH": str(EMULATOR),
        "MPC_EMULATOR_DEVICE": target,
        "MPC_EMULATOR_LOG": str(folder / "calls.log"),
    }


def train(model, precision, device, folder, *flags, target="sm_80"):
    """Returns the training events of a short run, and its trained weights."""
    arguments = ["--target", target] if device == "cuda" else mpctest.TARGET
    metrics, output = folder / f"{device}.jsonl", folder / f"{device}.onnx"
    mpctest.mpc_ok(
        *("train", mpctest.MODELS / f"{model}.onnx", "--no-shuffle"),
        *("--data", DATA, "--device", device),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--batch-size", "8", "--max-steps", STEPS, "--precision", precision),
        *("--metrics", metrics, "--overwrite-metrics"),
        *("--output", output),
        *arguments,
        *flags,
        env=emulated(target, folder),
    )
    events = mpctest.read_metrics(metrics)
    weights = mpctest.read_weights(output)
    return [e for e in events if e["event"] == "train"], weights


def calls(folder):
    """Returns the names of the called driver functions, in order."""
    lines = (folder / "calls.log").read_text().splitlines()
    return [line.split("(")[0] for line in lines if "(" in line]


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("model", ["mlp", "digits-cnn", "resnet"])
def test_losses_equal_the_cpus(model, precision, tmp_path):
    cpu, cpu_weights = train(model, precision, "cpu", tmp_path)
    gpu, gpu_weights = train(model, precision, "cuda", tmp_path)
    assert len(gpu) == STEPS
    tolerance = TOLERANCES[precision]
    np.testing.assert_allclose(
        [float(e["loss"]) for e in gpu],
        [float(e["loss"]) for e in cpu],
        rtol=tolerance,
    )
    assert [e["skipped"] for e in gpu] == [e["skipped"] for e in cpu]
    for name, weight in cpu_weights.items():
        # AdamW's first updates have the size of the rate. If a gradient's sign
        # differs, a weight may be off by twice the rate.
        np.testing.assert_allclose(
            gpu_weights[name], weight, atol=2e-3 * STEPS, rtol=tolerance
        )


# The emulated GPU does not execute the packed additions of sm_100 and sm_120.
@pytest.mark.parametrize("device, target", [("sm_87", "sm_86"), ("sm_89", "sm_89")])
def test_gpus_between_the_main_targets_train(device, target, tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    mpctest.mpc_ok(
        *("train", mpctest.MODELS / "mlp.onnx", "--data", DATA, "--no-shuffle"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--batch-size", "8", "--max-steps", STEPS, "--precision", "bf16-mixed"),
        *("--device", "cuda", "--metrics", metrics),
        env=emulated(device, tmp_path),
    )
    lines = mpctest.read_metrics(metrics)
    start = next(line for line in lines if line["event"] == "start")
    assert start["target"] == target
    cpu, _ = train("mlp", "bf16-mixed", "cpu", tmp_path)
    np.testing.assert_allclose(
        mpctest.losses(lines),
        [float(event["loss"]) for event in cpu],
        rtol=TOLERANCES["bf16-mixed"],
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_steps_are_launches_of_one_graph(target, tmp_path):
    train("mlp", "16-mixed", "cuda", tmp_path, target=target)
    names = calls(tmp_path)
    # One step runs eagerly, and the next step is recorded.
    assert names.count("cuGraphInstantiateWithFlags") == 1
    assert names.count("cuGraphLaunch") == STEPS - 1
    # After the recording, only the graph launches kernels.
    recorded = names.index("cuGraphInstantiateWithFlags")
    assert "cuLaunchKernel" not in names[recorded:]


def test_the_next_batch_is_on_its_way_before_the_loss_is_waited_for(tmp_path):
    train("mlp", "32-true", "cuda", tmp_path)
    lines = (tmp_path / "calls.log").read_text().splitlines()
    launches = [i for i, l in enumerate(lines) if l.startswith("cuGraphLaunch")]
    stream = lines[launches[0]].split("stream=")[1]
    assert len(launches) == STEPS - 1
    for number, launch in enumerate(launches, start=2):
        rest = lines[launch:]
        wait = next(
            i for i, l in enumerate(rest) if l.startswith("cuStreamSynchronize")
        )
        # Another stream copies samples and labels. The last step copies none.
        copies = [l for l in rest[:wait] if l.startswith("cuMemcpyHtoD")]
        assert len(copies) == (2 if number < STEPS else 0)
        assert not any(l.endswith(stream) for l in copies)


def train_on_few(folder, name, *flags, steps=7, fault=""):
    """Returns the losses and the weights of a run over the first 20 samples."""
    with np.load(DATA) as arrays:
        few = {key: array[:20] for key, array in arrays.items()}
    np.savez(folder / "few.npz", **few)
    metrics, output = folder / f"{name}.jsonl", folder / f"{name}.onnx"
    mpctest.mpc_ok(
        *("train", mpctest.MODELS / "mlp.onnx", "--data", folder / "few.npz"),
        *("--val-data", folder / "few.npz", "--batch-size", "8"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--device", "cuda", "--target", "sm_80", "--metrics", metrics),
        *("--output", output, "--max-steps", steps, *flags),
        env={**emulated("sm_80", folder), "MPC_EMULATOR_FAULT": fault},
    )
    losses = [
        (e["event"], e["step"], e.get("loss"), e.get("eval_loss"))
        for e in mpctest.read_metrics(metrics)
        if e["event"] in ("train", "eval")
    ]
    weights = mpctest.read_weights(output)
    return losses, {key: array.tobytes() for key, array in weights.items()}


@pytest.mark.parametrize(
    "flags",
    [
        ["--last-batch", "keep"],
        ["--last-batch", "drop", "--val-every", "2"],
        ["--last-batch", "keep", "--accumulate-grad-batches", "2"],
    ],
    ids=["keep", "drop", "accumulate"],
)
def test_batches_are_the_same_on_whichever_way(flags, tmp_path):
    staged = train_on_few(tmp_path, "staged", *flags)
    log = (tmp_path / "calls.log").read_text()
    assert "cuStreamWaitEvent" in log
    # Without a second stream, each batch is uploaded just before its step.
    (tmp_path / "calls.log").unlink()
    fault = "cuStreamCreate:2+=2"
    assert train_on_few(tmp_path, "bound", *flags, fault=fault) == staged
    assert "cuStreamWaitEvent" not in (tmp_path / "calls.log").read_text()
    # A resumed run gives the same values.
    saving = ["--checkpoint-dir", tmp_path / "states", "--checkpoint-every", "1"]
    train_on_few(tmp_path, "half", *flags, *saving, steps=3)
    saving += ["--resume", "auto"]
    resumed = train_on_few(tmp_path, "rest", *flags, *saving)
    assert resumed[1] == staged[1]
    after = [[e for e in run[0] if e[1] > 3] for run in (resumed, staged)]
    assert after[0] == after[1]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("contractions", ["bare", "library"])
def test_libraries_may_do_more_or_less(contractions, precision, tmp_path):
    cpu, _ = train("mlp", precision, "cpu", tmp_path)
    flags = ["--contractions", contractions]
    gpu, _ = train("mlp", precision, "cuda", tmp_path, *flags)
    np.testing.assert_allclose(
        [float(e["loss"]) for e in gpu],
        [float(e["loss"]) for e in cpu],
        rtol=TOLERANCES[precision],
    )


# Products with a bias, and with the gradient of a bias.
EPILOGUES = ["BIAS", "BGRADA,BGRADB", "BIAS,BGRADA,BGRADB"]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("missing", EPILOGUES)
def test_kernels_do_what_a_library_cannot(
    missing, precision, tmp_path, monkeypatch
):
    fused, _ = train("mlp", precision, "cuda", tmp_path)
    log = tmp_path / "choices.log"
    monkeypatch.setenv("MPC_CUDA_LOG", str(log))
    monkeypatch.setenv("MPC_EMULATOR_NO_ALGORITHM", missing)
    gpu, _ = train("mlp", precision, "cuda", tmp_path)
    assert "kernels beside a product: cuBLASLt" in log.read_text()
    np.testing.assert_allclose(
        [float(e["loss"]) for e in gpu],
        [float(e["loss"]) for e in fused],
        rtol=TOLERANCES[precision],
    )


def test_a_product_without_an_algorithm_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("MPC_EMULATOR_NO_ALGORITHM", "BIAS,DEFAULT")
    process = mpctest.mpc(
        *("train", mpctest.MODELS / "mlp.onnx", "--data", DATA),
        *("--loss", "softmax_cross_entropy", "--batch-size", "8"),
        *("--device", "cuda", "--target", "sm_80"),
        env=emulated("sm_80", tmp_path),
    )
    assert process.returncode == 6, process.stderr
    assert "has no deterministic algorithm" in process.stderr


@pytest.mark.parametrize("contractions", ["table", "library"])
def test_only_a_library_that_was_asked_for_loses_nan(contractions, tmp_path):
    """cuBLASLt's relu turns NaN into 0."""
    weight = np.ones((8, 8), np.float32)
    model = mpctest.make_model(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
            helper.make_node("Relu", ["h"], ["y"]),
        ],
        {"x": (np.float32, [4, 8])},
        {"y": (np.float32, [4, 8])},
        {"w": weight, "b": weight[0]},
    )
    onnx.save(model, tmp_path / "model.onnx")
    x = np.zeros((4, 8), np.float32)
    x[2, 3] = np.nan
    np.save(tmp_path / "x.npy", x)
    mpctest.mpc_ok(
        *("run", tmp_path / "model.onnx", "--input", f"x=@{tmp_path}/x.npy"),
        *("--device", "cuda", "--target", "sm_80"),
        *("--contractions", contractions, "--output", tmp_path / "y.npz"),
        env=emulated("sm_80", tmp_path),
    )
    expected = np.ones((4, 8), np.float32)
    expected[2] = np.nan if contractions == "table" else 0
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], expected)


def test_a_library_may_do_all(tmp_path):
    """The model is one product: mpc generates no kernel."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    model = mpctest.make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (np.float32, x.shape)},
        {"y": (np.float32, None)},
        {"w": w},
    )
    onnx.save(model, tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", x)
    mpctest.mpc_ok(
        *("run", tmp_path / "model.onnx", "--input", f"x=@{tmp_path}/x.npy"),
        *("--device", "cuda", "--target", "sm_80"),
        *("--output", tmp_path / "y.npz"),
        env=emulated("sm_80", tmp_path),
    )
    with np.load(tmp_path / "y.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], x @ w)


def test_skips_the_steps_that_the_cpu_skips(tmp_path):
    """Only some steps survive the loss scale. The first step is skipped and
    leaves the weights unchanged. All other steps match the CPU."""
    states = tmp_path / "states"
    flags = ["--loss-scale", "5.755e5"]
    saving = ["--checkpoint-dir", states, "--checkpoint-every", "1"]
    saving += ["--keep-checkpoints", STEPS]
    cpu, cpu_weights = train("mlp", "16-mixed", "cpu", tmp_path, *flags)
    gpu, gpu_weights = train("mlp", "16-mixed", "cuda", tmp_path, *flags, *saving)
    assert cpu[0]["skipped"] and not cpu[-1]["skipped"]
    for key in ("skipped", "skipped_total", "loss_scale", "step"):
        assert [e[key] for e in gpu] == [e[key] for e in cpu], key
    start = mpctest.read_weights(mpctest.MODELS / "mlp.onnx")
    after_first = load_file(states / "step-1" / "state.safetensors")
    trained = start.keys() & after_first.keys()
    assert len(trained) == 6
    for name in trained:
        np.testing.assert_array_equal(after_first[name], start[name])
        np.testing.assert_allclose(
            gpu_weights[name], cpu_weights[name], atol=TOLERANCES["16-mixed"]
        )
        assert not np.array_equal(gpu_weights[name], start[name])


def write_two_samples_alike(folder):
    """Writes a model with BatchNormalization of two samples that differ by
    1e-3, and data. The gradient grows by about 1 / sqrt(epsilon) = 316."""
    random = np.random.RandomState(0)
    weights = {
        "w0": random.randn(8, 8).astype(np.float32) / 8,
        "scale": np.ones(8, np.float32),
        "bias": np.zeros(8, np.float32),
        "mean": np.zeros(8, np.float32),
        "var": np.ones(8, np.float32),
        "w1": random.randn(8, 2).astype(np.float32),
    }
    statistics = ["scale", "bias", "mean", "var"]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h"]),
        helper.make_node("BatchNormalization", ["h", *statistics], ["n"]),
        helper.make_node("MatMul", ["n", "w1"], ["y"]),
    ]
    types = {"x": (np.float32, [2, 8])}, {"y": (np.float32, [2, 2])}
    onnx.save(
        mpctest.make_model(nodes, *types, weights), folder / "alike.onnx"
    )
    x = np.ones((2, 8), np.float32) + [[0], [1e-3]]
    np.savez(
        folder / "alike.npz", x=x.astype(np.float32), target=np.arange(2)
    )


def test_skips_where_a_normalization_leaves_the_range(tmp_path):
    """With few values per channel, the normalization's gradient overflows
    float16. Steps are skipped until the scale is low enough, as on a CPU."""
    write_two_samples_alike(tmp_path)
    events = {}
    for device, target in (("cpu", "x86-64-v3"), ("cuda", "sm_80")):
        metrics = tmp_path / f"{device}.jsonl"
        mpctest.mpc_ok(
            *("train", tmp_path / "alike.onnx", "--no-shuffle"),
            *("--data", tmp_path / "alike.npz", "--precision", "16-mixed"),
            *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
            *("--lr", "1e-5", "--epochs", "12"),
            *("--device", device, "--target", target),
            *("--metrics", metrics, "--output", tmp_path / "trained.onnx"),
            env=emulated("sm_80", tmp_path),
        )
        read = mpctest.read_metrics(metrics)
        events[device] = [e for e in read if e["event"] == "train"]
    skipped = [e["skipped"] for e in events["cpu"]]
    assert skipped[0] and not skipped[-1]
    for key in ("skipped", "skipped_total", "loss_scale", "step"):
        of_both = [[e[key] for e in found] for found in events.values()]
        assert of_both[0] == of_both[1], key
    # Skipped steps leave the weights and so the loss unchanged.
    losses = [float(e["loss"]) for e in events["cuda"]]
    assert len(set(losses[: skipped.index(False) + 1])) == 1
    assert losses[-1] < losses[0]


def test_many_parameters_are_updated_in_several_kernels(tmp_path):
    """PTX before 8.1 limits a kernel's parameters to 4352 bytes."""
    layers, nodes, weights = 48, [], {}
    for i in range(layers):
        weights[f"w{i}"] = np.eye(4, dtype=np.float32)
        weights[f"b{i}"] = np.zeros(4, np.float32)
        names = [f"h{i}", f"w{i}", f"b{i}"]
        nodes.append(helper.make_node("Gemm", names, [f"h{i + 1}"]))
    model = mpctest.make_model(
        nodes,
        {"h0": (np.float32, [8, 4])},
        {f"h{layers}": (np.float32, [8, 4])},
        weights,
    )
    onnx.save(model, tmp_path / "deep.onnx")
    images = np.random.RandomState(0).rand(8, 4).astype(np.float32)
    np.savez(tmp_path / "d.npz", h0=images, target=np.arange(8) % 4)
    losses = {}
    for device, target in (("cpu", "x86-64-v3"), ("cuda", "sm_80")):
        mpctest.mpc_ok(
            *("train", tmp_path / "deep.onnx", "--data", tmp_path / "d.npz"),
            *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
            *("--epochs", "3", "--device", device, "--target", target),
            *("--metrics", tmp_path / f"{device}.jsonl"),
            env=emulated("sm_80", tmp_path),
        )
        metrics = mpctest.read_metrics(tmp_path / f"{device}.jsonl")
        losses[device] = mpctest.losses(metrics)
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=1e-4)


def write_biases_of_zeros(folder):
    """Writes convolutions of three taps and of one, with biases of zeros, as
    PyTorch's exporter writes missing biases; and data."""
    random = np.random.RandomState(0)
    weights = {
        "w0": random.randn(8, 3, 3, 3).astype(np.float32) / 5,
        "w1": random.randn(8, 8, 1, 1).astype(np.float32) / 3,
        "w2": random.randn(8, 4).astype(np.float32) / 3,
    }
    weights["shape"] = np.array([8])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Conv", ["x", "w0", "zeros"], ["h0"], pads=[1] * 4),
        helper.make_node("Conv", ["h0", "w1", "zeros"], ["h1"]),
        helper.make_node("Relu", ["h1"], ["h2"]),
        helper.make_node("GlobalAveragePool", ["h2"], ["h3"]),
        helper.make_node("Flatten", ["h3"], ["h4"]),
        helper.make_node("MatMul", ["h4", "w2"], ["y"]),
    ]
    types = {"x": (np.float32, [8, 3, 8, 8])}, {"y": (np.float32, [8, 4])}
    onnx.save(
        mpctest.make_model(nodes, *types, weights), folder / "zeros.onnx"
    )
    images = random.randn(8, 3, 8, 8).astype(np.float32)
    np.savez(folder / "zeros.npz", x=images, target=np.arange(8) % 4)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_a_bias_of_zeros_leaves_convolutions_low(
    precision, tmp_path, monkeypatch
):
    write_biases_of_zeros(tmp_path)
    log = tmp_path / "choices.log"
    monkeypatch.setenv("MPC_CUDA_LOG", str(log))
    losses = {}
    for device, target in (("cpu", "x86-64-v3"), ("cuda", "sm_90")):
        mpctest.mpc_ok(
            *("train", tmp_path / "zeros.onnx"),
            *("--data", tmp_path / "zeros.npz", "--precision", precision),
            *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
            *("--epochs", "3", "--device", device, "--target", target),
            *("--metrics", tmp_path / f"{device}.jsonl"),
            env=emulated("sm_90", tmp_path),
        )
        metrics = mpctest.read_metrics(tmp_path / f"{device}.jsonl")
        losses[device] = mpctest.losses(metrics)
    np.testing.assert_allclose(
        losses["cuda"], losses["cpu"], rtol=TOLERANCES[precision]
    )
    chosen = log.read_text().splitlines()
    low = {"bf16-mixed": "bf16", "16-mixed": "f16"}[precision]
    forward = [line for line in chosen if "the forward convolution" in line]
    assert forward
    for line in forward:
        assert f"of x {low} " in line and f", y {low} " in line, line
    taps = [line for line in chosen if "1 of 512x8x8, b transposed" in line]
    assert taps
    for line in taps:
        assert f"{low} x {low} to {low}" in line, line


FAMILIES = sorted(name for name in PATHS if name.endswith("dynamo-18"))


def family_cases():
    """Yields every family in both precisions. A sample has each in one."""
    for index, model in enumerate(FAMILIES):
        for offset, precision in enumerate(["32-true", "bf16-mixed"]):
            marks = [pytest.mark.full] if (index + offset) % 2 else []
            yield pytest.param(model, precision, marks=marks)


@pytest.mark.parametrize("model, precision", family_cases())
def test_families_lose_what_they_do_in_pytorch(model, precision, tmp_path):
    """Two steps of each family and other kind, compiled for sm_90.
    test_families covers the losses on a CPU."""
    name = model.split("-")[0]
    case, path = LOSSES[name], PATHS[model]
    axes = [f"{key}={axis}" for key, axis in case["batch_axes"].items()]
    metrics = tmp_path / "metrics.jsonl"
    mpctest.mpc_ok(
        *("train", path, "--data", path.with_name(f"{name}.npz")),
        *("--loss", case["loss"], "--optimizer", "sgd", "--lr", case["lr"]),
        *("--batch-size", case["batch_size"], "--max-steps", 2),
        *(word for axis in axes for word in ("--batch-axis", axis)),
        *("--precision", precision, "--no-shuffle"),
        *("--device", "cuda", "--target", "sm_90"),
        *("--metrics", metrics, "--output", tmp_path / "trained.onnx"),
        env=emulated("sm_90", tmp_path),
    )
    np.testing.assert_allclose(
        mpctest.losses(mpctest.read_metrics(metrics)),
        case["float32"][:2],
        rtol=TOLERANCES[precision],
    )


@pytest.mark.starts_mpc
def test_repeats_bit_for_bit(tmp_path):
    (tmp_path / "again").mkdir()
    once = train("digits-cnn", "bf16-mixed", "cuda", tmp_path)
    again = train("digits-cnn", "bf16-mixed", "cuda", tmp_path / "again")
    assert [e["loss"] for e in once[0]] == [e["loss"] for e in again[0]]
    for name, weight in once[1].items():
        assert weight.tobytes() == again[1][name].tobytes(), name


@pytest.mark.parametrize(
    "gpu, device, target",
    [
        ("sm_90", "cuda", "sm_90"),
        ("sm_86", "cuda", "sm_86"),
        ("sm_87", "cuda", "sm_86"),
        ("sm_103,driver=13000", "auto", "sm_100"),
        ("sm_121,driver=13000", "auto", "sm_120"),
        ("none", "cuda", "sm_80"),
    ],
)
def test_code_is_for_the_gpu_that_is_there(gpu, device, target, tmp_path):
    """mpc compiles for the newest target that the GPU runs, and for the oldest
    target without a GPU."""
    output = mpctest.mpc_ok(
        *("compile", mpctest.MODELS / "mlp.onnx", "--batch-size", 4),
        *("--device", device, "--emit=ptx"),
        env=emulated(gpu, tmp_path),
    ).stdout
    assert f".target {target}" in output


def test_a_gpu_is_trained_on_by_its_number(tmp_path):
    arguments = [
        *("train", mpctest.MODELS / "mlp.onnx", "--data", DATA),
        *("--loss", "softmax_cross_entropy", "--batch-size", 8),
        *("--max-steps", 1),
    ]
    environment = emulated("sm_90,count=2", tmp_path)
    process = mpctest.mpc_ok(*arguments, "--device", "cuda:1", env=environment)
    assert "target: sm_90 on cuda:1" in process.stderr
    assert "cuDevicePrimaryCtxRetain(device=1)" in (
        tmp_path / "calls.log"
    ).read_text()
    process = mpctest.mpc(*arguments, "--device", "cuda:2", env=environment)
    assert process.returncode == 6
    assert "no GPU 2; the driver shows 2" in process.stderr
    process = mpctest.mpc(*arguments, "--device", "gpu", env=environment)
    assert process.returncode == 2
    assert "unknown device 'gpu'" in process.stderr


@pytest.mark.parametrize(
    "device, reason",
    [
        ("sm_75", "the GPU found is sm_75, but mpc generates code for sm_80 and newer"),
        ("sm_80,driver=11040", "needs a driver for CUDA 12.0 or newer"),
    ],
)
def test_a_gpu_that_is_too_old_is_not_chosen(device, reason, tmp_path):
    """--device auto falls back to the CPU and says why. --device cuda is an
    error before compilation."""

    def run(choice):
        return mpctest.mpc(
            *("train", mpctest.MODELS / "mlp.onnx", "--data", DATA),
            *("--loss", "softmax_cross_entropy", "--batch-size", "8"),
            *("--max-steps", "2", "--device", choice),
            *("--output", tmp_path / "trained.onnx"),
            env=emulated(device, tmp_path),
        )

    process = run("auto")
    assert process.returncode == 0, process.stderr
    notes = [l for l in process.stderr.splitlines() if "--device auto" in l]
    assert len(notes) == 1 and reason in notes[0], process.stderr
    assert "note: --device auto uses the CPU: " in notes[0]
    process = run("cuda")
    assert process.returncode == 6, process.stderr
    assert reason in process.stderr and "trainable" not in process.stderr
