"""Low-rank adapters: the merged model, the adapter's file, and resuming.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.numpy
from onnx import helper

import mpctest

MODEL = mpctest.MODELS / "mlp.onnx"
CNN = mpctest.MODELS / "digits-cnn.onnx"
TRAIN = mpctest.DIGITS / "digits-train.npz"
TEST = mpctest.DIGITS / "digits-test.npz"
LOSS = ["--loss", "softmax_cross_entropy"]


def train(output, *flags, lora=("--lora", "4:8"), model=MODEL):
    return mpctest.mpc_ok(
        *("train", model, "--data", TRAIN, *LOSS, *lora, "--batch-size", 32),
        *("--optimizer", "adamw", "--lr", 0.01, "--max-steps", 20),
        *("--output", output, *mpctest.TARGET, *flags),
    )


def evaluate(model, *flags):
    """Evaluates in float32, whatever precision a trained model records."""
    return mpctest.mpc_ok(
        *("eval", model, "--data", TEST, *LOSS, *flags, "--batch-size", 32),
        *("--no-metadata", *mpctest.TARGET),
    ).stdout


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_merged_model_computes_the_same(precision, tmp_path):
    adapter = tmp_path / "adapter_model.safetensors"
    train(adapter, "--trained-only", "--precision", precision)
    names = safetensors.numpy.load_file(adapter)
    layers = ["fc1", "fc2"]
    assert set(names) == {
        f"base_model.model.{layer}.lora_{part}.weight" for layer in layers for part in "AB"
    }
    assert all(value.dtype == np.float32 and value.any() for value in names.values())
    merged = tmp_path / "merged.onnx"
    train(merged, "--precision", precision)
    with np.load(TEST) as arrays:
        name = next(key for key in arrays if key != "target")
        samples, labels = arrays[name][:64].astype(np.float32), arrays["target"]
    session = onnxruntime.InferenceSession(merged)
    (scores,) = session.run(None, {session.get_inputs()[0].name: samples})
    loaded = ["--lora", "4:8", "--weights", adapter]
    outputs = tmp_path / "outputs.npz"
    np.save(tmp_path / "x.npy", samples)
    mpctest.mpc_ok(
        *("run", MODEL, "--input", f"{session.get_inputs()[0].name}=@{tmp_path}/x.npy"),
        *(*loaded, "--batch-size", 64, "--output", outputs, *mpctest.TARGET),
    )
    with np.load(outputs) as arrays:
        (found,) = arrays.values()
    np.testing.assert_allclose(scores, found, rtol=1e-4, atol=1e-4)
    # The adapter has changed the model.
    assert evaluate(merged) == evaluate(MODEL, *loaded)
    assert evaluate(merged) != evaluate(MODEL)


def test_resumed_run_gives_the_same_bits(tmp_path):
    files = []
    for folder, steps in [("whole", [20]), ("parts", [7, 20])]:
        for limit in steps:
            output = tmp_path / f"{folder}.safetensors"
            train(
                *(output, "--trained-only", "--checkpoint-dir", tmp_path / folder),
                *("--resume", "auto", "--max-steps", limit, "--seed", 3),
            )
        files.append(output.read_bytes())
    assert files[0] == files[1]
    # Only adapters have optimizer state.
    (state,) = sorted((tmp_path / "whole").glob("*/state.safetensors"))[-1:]
    moments = [name for name in safetensors.numpy.load_file(state) if name.endswith(".m")]
    assert len(moments) == 4 and all(".lora_" in name for name in moments)


def test_export_of_a_checkpoint_merges_the_adapters(tmp_path):
    """mpc export gives the model of --output. A file of adapters alone does not
    say how they are scaled."""
    merged, exported = tmp_path / "merged.onnx", tmp_path / "exported.onnx"
    train(merged, "--checkpoint-dir", tmp_path / "run", "--ema", 0.9)
    mpctest.mpc_ok("export", MODEL, "--checkpoint", tmp_path / "run", "-o", exported)
    for expected, found in zip(
        onnx.load(merged).graph.initializer, onnx.load(exported).graph.initializer
    ):
        assert expected == found, expected.name
    assert evaluate(exported) == evaluate(merged) != evaluate(MODEL)
    # Another ALPHA would scale the adapters otherwise, without any error.
    flags = ("--checkpoint", tmp_path / "run", "--lora")
    assert evaluate(MODEL, *flags, "4:8") == evaluate(merged)
    other = mpctest.mpc(
        *("eval", MODEL, "--data", TEST, *LOSS, *flags, "4:64", "--batch-size", 32)
    )
    assert other.returncode == 8
    assert "was trained with --lora 4:8" in other.stderr
    (step,) = (tmp_path / "run").glob("step-*")
    process = mpctest.mpc(
        *("export", MODEL, "--weights", step / "state.safetensors", "-o", exported)
    )
    assert process.returncode == 4
    assert "only a checkpoint says how adapters are scaled" in process.stderr


def test_export_of_an_adapter_in_two_files(tmp_path):
    """The checkpoint comes after the files of --weights."""
    adapter, run = tmp_path / "adapter_model.safetensors", tmp_path / "run"
    train(adapter, "--trained-only", "--max-steps", 1)
    train(tmp_path / "merged.onnx", "--checkpoint-dir", run)
    flags = ("--checkpoint", run, "--weights", adapter)
    mpctest.mpc_ok("export", MODEL, *flags, "-o", tmp_path / "exported.onnx")
    expected, found = (
        mpctest.read_weights(tmp_path / f"{name}.onnx") for name in ("merged", "exported")
    )
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name])
    for output, words in (
        (("-o", tmp_path / "a.onnx_adapter", *flags), "mpc export merges adapters"),
        (("-o", tmp_path / "x.onnx", "--weights-type", "f16", "--no-ema"), "no effect"),
    ):
        process = mpctest.mpc("export", MODEL, *output)
        assert process.returncode == 2 and words in process.stderr


def test_seed_decides_the_start(tmp_path):
    values = []
    for seed in [1, 1, 2]:
        output = tmp_path / "a.safetensors"
        train(output, "--trained-only", "--seed", seed, "--lr", 0)
        values.append(output.read_bytes())
    assert values[0] == values[1] != values[2]
    start = safetensors.numpy.load_file(output)
    a = start["base_model.model.fc1.lora_A.weight"]
    assert not start["base_model.model.fc1.lora_B.weight"].any()
    assert 0.9 * 64**-0.5 < np.abs(a).max() <= 64**-0.5


def test_batch_normalizations_keep_their_statistics(tmp_path):
    before = mpctest.read_weights(CNN)
    output = tmp_path / "cnn.onnx"
    train(output, lora=["--lora", "4"], model=CNN)
    after = mpctest.read_weights(output)
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed == {"fc1.weight"}
    # With the scale trained too, the statistics are updated.
    train(output, "--train", "^bn1", lora=["--lora", "4"], model=CNN)
    after = mpctest.read_weights(output)
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed == {
        *("fc1.weight", "bn1.weight", "bn1.bias"),
        *("bn1.running_mean", "bn1.running_var"),
    }


def test_file_of_another_rank_is_refused(tmp_path):
    adapter = tmp_path / "a.safetensors"
    train(adapter, "--trained-only")
    base = ["eval", MODEL, "--data", TEST, *LOSS, "--weights", adapter]
    process = mpctest.mpc(*base, "--lora", "2")
    assert process.returncode == 2
    assert "node 'fc1" in process.stderr.lower()
    assert "'fc1.lora_A.weight' is" in process.stderr
    process = mpctest.mpc(*base)
    assert process.returncode == 2
    assert "add --lora RANK:ALPHA" in process.stderr
    process = mpctest.mpc(*base, "--lora", "4@fc1")
    assert process.returncode == 2
    assert "gives 'fc2.lora_A.weight', and --lora adapts no such layer" in process.stderr


def test_a_loaded_adapter_may_have_any_rank(tmp_path):
    """PEFT allows more rows than the layer has outputs."""
    random = np.random.default_rng(5)
    a = random.standard_normal((12, 64), np.float32) / 8
    b = random.standard_normal((10, 12), np.float32) / 8
    names = [f"base_model.model.fc3.lora_{part}.weight" for part in "AB"]
    adapter = tmp_path / "adapter_model.safetensors"
    safetensors.numpy.save_file(dict(zip(names, (a, b))), adapter)
    flags = ("--lora", "12:6@fc3", "--weights", adapter)
    done = mpctest.mpc_ok("eval", MODEL, "--data", TEST, *LOSS, *flags, "--batch-size", 32)
    # The note of what stays names no values that came from the file.
    (stays,) = [line for line in done.stderr.splitlines() if "values stay" in line]
    assert "lora" not in stays and "'fc3.weight'" in stays
    model = onnx.load(MODEL)
    (weight,) = [w for w in model.graph.initializer if w.name == "fc3.weight"]
    merged = onnx.numpy_helper.to_array(weight) + 0.5 * b @ a
    weight.CopyFrom(onnx.numpy_helper.from_array(merged, "fc3.weight"))
    onnx.save(model, tmp_path / "merged.onnx")
    assert evaluate(MODEL, *flags) == evaluate(tmp_path / "merged.onnx") != evaluate(MODEL)


@pytest.mark.parametrize(
    "setting,name,shape",
    [
        ({"use_dora": True}, "fc1.lora_magnitude_vector", [128]),
        ({"lora_bias": True}, "fc1.lora_B.bias", [128]),
        ({"bias": "lora_only"}, "fc1.base_layer.bias", [128]),
        ({"peft_type": "LOHA"}, "fc1.hada_w1_a", [128, 4]),
    ],
)
def test_adapters_of_other_kinds_are_refused(setting, name, shape, tmp_path):
    """Each changes what the layer computes, so its LoRA part alone is wrong."""
    adapter = tmp_path / "adapter_model.safetensors"
    train(adapter, "--trained-only")
    values = safetensors.numpy.load_file(adapter)
    values[f"base_model.model.{name}"] = np.ones(shape, np.float32)
    safetensors.numpy.save_file(values, adapter)
    config = tmp_path / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | setting))
    flags = ("--weights", adapter, "--batch-size", 32)
    for command in (
        ("eval", MODEL, "--data", TEST, *LOSS, *flags, "--lora", "4:8"),
        ("export", MODEL, *flags[:2], "--output", tmp_path / "x.onnx"),
    ):
        process = mpctest.mpc(*command)
        assert process.returncode == 4
        ((key, value),) = setting.items()
        assert f'found "{key}": {json.dumps(value)} in {config}' in process.stderr
        assert "merge_and_unload()" in process.stderr


def test_config_of_another_scale_is_refused(tmp_path):
    """PEFT's configuration beside the file says how adapters are scaled."""
    adapter, config = tmp_path / "adapter_model.safetensors", tmp_path / "adapter_config.json"
    train(adapter, "--trained-only")
    before = adapter.read_bytes(), config.read_bytes()

    def load(lora):
        flags = ("--data", TEST, *LOSS, "--weights", adapter, "--batch-size", 32)
        return mpctest.mpc("eval", MODEL, *flags, "--lora", lora, *mpctest.TARGET)

    assert load("4:8").returncode == 0
    for lora, found in (("4:64", "64"), ("4", "4")):
        process = load(lora)
        assert process.returncode == 2, process.stderr
        assert f"has lora_alpha 8 in {config}, found --lora with ALPHA {found}" in process.stderr
        assert "use --lora 4:8" in process.stderr
    flags = ("--trained-only", "--weights", adapter)
    process = mpctest.mpc(
        *("train", MODEL, "--data", TRAIN, *LOSS, "--lora", "4:64", "--batch-size", 32),
        *("--max-steps", 1, "--output", adapter, *flags, *mpctest.TARGET),
    )
    assert process.returncode == 2
    assert before == (adapter.read_bytes(), config.read_bytes())
    # A module may have an alpha of its own, and PEFT may divide by a root.
    facts = json.loads(config.read_text())
    config.write_text(json.dumps(facts | {"alpha_pattern": {"fc[2]": 16}}))
    assert "'fc2.lora_A.weight' has lora_alpha 16" in load("4:8").stderr
    config.write_text(json.dumps(facts | {"use_rslora": True, "lora_alpha": 4}))
    assert load("4:8").returncode == 0
    assert "lora_alpha 4 with use_rslora" in load("4:4").stderr
    config.write_text("[]")
    assert load("4:8").returncode == 3
    config.unlink()
    assert load("4:64").returncode == 0


def test_adapter_of_onnx_runtime(tmp_path):
    plain, adapter = tmp_path / "a.npz", tmp_path / "a.onnx_adapter"
    train(plain, "--trained-only")
    train(adapter, "--trained-only")
    found = onnxruntime.AdapterFormat.read_adapter(str(adapter)).get_parameters()
    with np.load(plain) as arrays:
        right = {name.removeprefix("base_model.model."): arrays[name] for name in arrays}
    assert set(found) == set(right)
    for name, value in right.items():
        np.testing.assert_array_equal(found[name].numpy(), value)
    for flags, message in [
        (["--lora", "4"], "the file holds adapters alone; add --trained-only"),
        (["--trained-only"], "the model has none; add --lora RANK"),
    ]:
        process = mpctest.mpc(
            *("train", MODEL, "--data", TRAIN, *LOSS, "--output", adapter, *flags)
        )
        assert process.returncode == 2 and message in process.stderr


def convolutions(folder):
    """Returns a model with a 1x1 convolution, a shared MatMul and a Gemm with a
    factor, and its data."""
    random = np.random.default_rng(2)
    shapes = {"conv": (6, 3, 1, 1), "mix": (6, 6), "gemm": (6, 5), "head": (5, 2)}
    weights = {
        f"{name}.weight": random.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["c"], "conv", strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "mix.weight"], ["m1"], "mix1"),
        helper.make_node("Tanh", ["m1"], ["t1"], "tanh1"),
        helper.make_node("MatMul", ["t1", "mix.weight"], ["m2"], "mix2"),
        helper.make_node("Gemm", ["m2", "gemm.weight"], ["g"], "gemm", alpha=0.5),
        helper.make_node("Tanh", ["g"], ["t2"], "tanh2"),
        helper.make_node("MatMul", ["t2", "head.weight"], ["y"], "head"),
    ]
    model = mpctest.make_model(
        *(nodes, {"x": (np.float32, ["N", 3, 4, 4])}, {"y": (np.float32, ["N", 2])}),
        weights,
    )
    onnx.save(model, folder / "model.onnx")
    x = random.standard_normal((16, 3, 4, 4)).astype(np.float32)
    target = random.standard_normal((16, 2)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, target=target)
    return x


def test_unmerged_model_takes_adapters_of_onnx_runtime(tmp_path):
    x = convolutions(tmp_path)

    def tune(output, *flags):
        mpctest.mpc_ok(
            *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
            *("--loss", "mse", "--lora", "2:3@.", "--batch-size", 16, "--epochs", 8),
            *("--optimizer", "adam", "--lr", 0.05, "--output", tmp_path / output),
            *(*flags, *mpctest.TARGET),
        )

    def scores(model, options=None):
        session = onnxruntime.InferenceSession(tmp_path / model)
        return session.run(None, {"x": x}, options)[0]

    tune("merged.onnx")
    tune("apart.onnx", "--unmerged")
    onnx.checker.check_model(tmp_path / "apart.onnx", full_check=True)
    merged = scores("merged.onnx")
    assert np.abs(merged - scores("model.onnx")).max() > 0.1
    np.testing.assert_allclose(scores("apart.onnx"), merged, rtol=1e-4, atol=1e-5)
    # Another run's adapter replaces the model's own.
    tune("other.onnx", "--seed", 7)
    tune("other.onnx_adapter", "--seed", 7, "--trained-only")
    adapter = onnxruntime.LoraAdapter()
    adapter.Load(str(tmp_path / "other.onnx_adapter"))
    options = onnxruntime.RunOptions()
    options.add_active_adapter(adapter)
    other = scores("other.onnx")
    assert np.abs(merged - other).max() > 0.01
    np.testing.assert_allclose(scores("apart.onnx", options), other, rtol=1e-4, atol=1e-5)
    # mpc reads the model too: it has the adapters as parameters.
    outputs = tmp_path / "o.npz"
    np.save(tmp_path / "x.npy", x)
    mpctest.mpc_ok(
        *("run", tmp_path / "apart.onnx", "--input", f"x=@{tmp_path}/x.npy"),
        *("--batch-size", 16, "--output", outputs, *mpctest.TARGET),
    )
    with np.load(outputs) as arrays:
        np.testing.assert_allclose(arrays["y"], merged, rtol=1e-4, atol=1e-5)
    process = mpctest.mpc(
        *("train", MODEL, "--data", TRAIN, *LOSS, "--output", tmp_path / "n.onnx"),
        "--unmerged",
    )
    assert process.returncode == 2
    assert "--unmerged is for a model with adapters; add --lora RANK" in process.stderr


def test_base_of_int8_stays_frozen(tmp_path):
    random = np.random.default_rng(4)
    weights = {
        "q": random.integers(-100, 100, (8, 6), np.int8),
        "scale": random.uniform(0.001, 0.01, 6).astype(np.float32),
        "head": random.standard_normal((6, 2)).astype(np.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale"], ["w"], "fc1", axis=1),
        helper.make_node("MatMul", ["x", "w"], ["h"], "product"),
        helper.make_node("Tanh", ["h"], ["t"], "tanh"),
        helper.make_node("MatMul", ["t", "head"], ["y"], "last"),
    ]
    model = mpctest.make_model(
        *(nodes, {"x": (np.float32, ["N", 8])}, {"y": (np.float32, ["N", 2])}),
        weights,
    )
    onnx.save(model, tmp_path / "model.onnx")
    x = random.standard_normal((32, 8)).astype(np.float32)
    target = random.standard_normal((32, 2)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, target=target)
    common = [tmp_path / "model.onnx", "--data", tmp_path / "data.npz", "--loss", "mse"]
    common += ["--batch-size", 32, *mpctest.TARGET]
    adapter, metrics = tmp_path / "a.safetensors", tmp_path / "m.jsonl"
    mpctest.mpc_ok(
        *("train", *common, "--lora", "2:4", "--epochs", 40, "--optimizer", "adam"),
        *("--lr", 0.03, "--output", adapter, "--trained-only", "--metrics", metrics),
    )
    losses = mpctest.losses(mpctest.read_metrics(metrics))
    assert losses[-1] < 0.8 * losses[0]
    a, b = (
        safetensors.numpy.load_file(adapter)[f"base_model.model.fc1.lora_{part}.weight"]
        for part in "AB"
    )
    w = weights["q"] * weights["scale"] + 2 * (b @ a).T
    loss = np.mean((np.tanh(x @ w) @ weights["head"] - target) ** 2)
    said = mpctest.mpc_ok(
        *("eval", *common, "--lora", "2:4", "--weights", adapter, "--format", "jsonl")
    ).stdout
    np.testing.assert_allclose(json.loads(said)["eval_loss"], loss, rtol=1e-5)
    # The same run, with the adapters as nodes behind the product.
    run = tmp_path / "run"
    mpctest.mpc_ok(
        *("train", *common, "--lora", "2:4", "--epochs", 40, "--optimizer", "adam"),
        *("--lr", 0.03, "--output", tmp_path / "apart.onnx", "--unmerged"),
        *("--checkpoint-dir", run),
    )
    onnx.checker.check_model(tmp_path / "apart.onnx", full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / "apart.onnx")
    (scores,) = session.run(None, {"x": x})
    np.testing.assert_allclose(scores, np.tanh(x @ w) @ weights["head"], rtol=1e-4, atol=1e-5)
    process = mpctest.mpc(
        *("export", tmp_path / "model.onnx", "--checkpoint", run, "-o", tmp_path / "x.onnx")
    )
    assert process.returncode == 4
    assert "the weights of 'fc1' are computed or quantized" in process.stderr
    assert f"with --unmerged, --resume {run}/step-40" in process.stderr
