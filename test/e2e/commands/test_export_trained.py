"""`mpc export` writes the weights of a checkpoint or of files into a model,
without data. ONNX Runtime then computes what the trained model computes.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.numpy
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import mpctest

USAGE, INVALID, UNSUPPORTED, CHECKPOINT = 2, 3, 4, 8
LOSS = ("--loss", "cross_entropy")


def perceptron(opset=17, hidden=32):
    """x -> Gemm -> Relu -> a branch that reads `fc2.weight` -> y."""
    random = np.random.default_rng(0)

    def draw(*shape):
        return random.normal(0, 0.5, shape).astype(np.float32)

    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "fc2.weight"], ["m"]),
        helper.make_node("Add", ["m", "fc2.bias"], ["y"]),
    ]
    return mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", 4])},
        {"y": (np.float32, ["N", 3])},
        {
            "fc1.weight": draw(hidden, 4),
            "fc1.bias": draw(hidden),
            "fc2.weight": draw(hidden, 3),
            "fc2.bias": draw(3),
        },
        opset=opset,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with model.onnx, data.npz, trained.onnx and checkpoints of steps
    2, 4 and 6, with averages."""
    folder = tmp_path_factory.mktemp("trained")
    onnx.save(perceptron(), folder / "model.onnx")
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 64)
    samples = random.normal(0, 1, (64, 4)).astype(np.float32)
    samples[np.arange(64), labels] += 2
    np.savez(folder / "data.npz", x=samples, target=labels)
    mpctest.mpc_ok(
        *("train", folder / "model.onnx", "--data", folder / "data.npz", *LOSS),
        *("--optimizer", "adamw", "--lr", 0.05, "--batch-size", 16, "--ema", 0.5),
        *("--max-steps", 6, "--checkpoint-every", 2, "--val-split", 0.25),
        *("--best", "loss", "--checkpoint-dir", folder / "run"),
        *("--normalize", "0.5:2", "--metric", "f1"),
        *("--output", folder / "trained.onnx", *mpctest.TARGET),
    )
    return folder


def infer(path, samples):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": samples})[0]


def samples_of(folder):
    with np.load(folder / "data.npz") as arrays:
        return arrays["x"]


def export(*arguments):
    return mpctest.mpc_ok("export", *arguments)


@pytest.mark.parametrize("place", ("run/best", "run", "run/last", "run/step-6"))
def test_a_checkpoint_becomes_the_trained_model(trained, place, tmp_path):
    process = export(
        *(trained / "model.onnx", "--checkpoint", trained / place),
        *("--output", tmp_path / "x.onnx"),
    )
    step = (trained / place).resolve().name if "best" in place else "step-6"
    assert f"with the weights of step {step.removeprefix('step-')}" in process.stdout
    found = mpctest.read_weights(tmp_path / "x.onnx")
    state = safetensors.numpy.load_file(trained / "run" / step / "state.safetensors")
    for name, value in found.items():
        np.testing.assert_array_equal(value, state[name + ".ema"])
    if "best" in place:
        # Training wrote the best weights, too, with the same record.
        assert (tmp_path / "x.onnx").read_bytes() == (
            trained / "trained.onnx"
        ).read_bytes()


def test_parameters_instead_of_averages(trained, tmp_path):
    export(
        *(trained / "model.onnx", "--checkpoint", trained / "run", "--no-ema"),
        *("--output", tmp_path / "x.onnx"),
    )
    state = safetensors.numpy.load_file(trained / "run/step-6/state.safetensors")
    for name, value in mpctest.read_weights(tmp_path / "x.onnx").items():
        np.testing.assert_array_equal(value, state[name])
        assert (value != state[name + ".ema"]).any()


def test_averages_must_be_there_to_be_left_out(trained, tmp_path):
    """The trained model has the averages as its only weights."""
    done = mpctest.mpc(
        *("export", trained / "model.onnx", "--weights", trained / "trained.onnx"),
        *("--no-ema", "--output", tmp_path / "x.onnx"),
    )
    assert done.returncode == 2
    assert "--no-ema has no effect: " in done.stderr
    assert "trained.onnx has no averages" in done.stderr
    assert not (tmp_path / "x.onnx").exists()


@pytest.mark.parametrize("suffix", ("npz", "safetensors", "onnx"))
def test_files_of_weights_become_a_model(trained, suffix, tmp_path):
    weights = tmp_path / f"w.{suffix}"
    export(trained / "trained.onnx", "--weights", trained / "trained.onnx", "-o", weights)
    export(trained / "model.onnx", "--weights", weights, "-o", tmp_path / "x.onnx")
    samples = samples_of(trained)
    np.testing.assert_array_equal(
        infer(tmp_path / "x.onnx", samples), infer(trained / "trained.onnx", samples)
    )
    assert (infer(trained / "model.onnx", samples) != infer(weights, samples)).any() if (
        suffix == "onnx"
    ) else True


@pytest.mark.parametrize("name,code,precision", (("f16", 10, 2e-3), ("bf16", 16, 2e-2)))
def test_weights_of_half_the_size(trained, name, code, precision, tmp_path):
    output = tmp_path / "x.onnx"
    process = export(
        *(trained / "model.onnx", "--checkpoint", trained / "run/best"),
        *("--weights-type", name, "--output", output),
    )
    assert f"2 weights are stored in {name}" in process.stderr
    model = onnx.load(output)
    onnx.checker.check_model(model, full_check=True)
    types = {init.name: init.data_type for init in model.graph.initializer}
    # Biases stay float32. The names stay, so that --weights takes the file.
    assert types == {
        **{"fc1.weight": code, "fc2.weight": code},
        **{"fc1.bias": 1, "fc2.bias": 1},
    }
    samples = samples_of(trained)
    whole, half = infer(trained / "trained.onnx", samples), infer(output, samples)
    assert 0 < abs(whole - half).max() < precision * abs(whole).max()
    # mpc reads the file, and other models take its weights.
    figures = [
        json.loads(
            mpctest.mpc_ok(
                *("eval", path, "--data", trained / "data.npz", "--format", "jsonl"),
                *("--batch-size", 16, *mpctest.TARGET),
            ).stdout
        )["eval_loss"]
        for path in (trained / "trained.onnx", output)
    ]
    assert figures[0] == pytest.approx(figures[1], rel=0.02)
    export(trained / "model.onnx", "--weights", output, "-o", tmp_path / "y.onnx")
    found = mpctest.read_weights(tmp_path / "y.onnx")["fc1.weight"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found,
        mpctest.read_weights(trained / "trained.onnx")["fc1.weight"],
        rtol=precision,
        atol=1e-4,
    )


def test_a_large_model_is_half_as_large(tmp_path):
    onnx.save(perceptron(hidden=20000), tmp_path / "model.onnx")
    export(tmp_path / "model.onnx", "--weights-type", "f16", "-o", tmp_path / "x.onnx")
    before = (tmp_path / "model.onnx").stat().st_size
    # The weights of 7 values per unit are halved; its bias is not.
    assert (tmp_path / "x.onnx").stat().st_size / before == pytest.approx(
        (7 * 2 + 4) / (7 * 4 + 4), rel=0.01
    )


def test_what_overflows_stays_float32(trained, tmp_path):
    model = onnx.load(trained / "trained.onnx")
    (weight,) = [t for t in model.graph.initializer if t.name == "fc2.weight"]
    values = numpy_helper.to_array(weight).copy()
    values[3, 1], values[4, 1] = 70000, 1e-9
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save(model, tmp_path / "large.onnx")
    flags = ("--weights-type", "f16", "-o", tmp_path / "x.onnx")
    process = export(tmp_path / "large.onnx", *flags)
    assert "1 weights are stored in f16" in process.stderr
    assert "too large for f16: 'fc2.weight' (70000)" in process.stderr
    found = mpctest.read_weights(tmp_path / "x.onnx")
    assert found["fc2.weight"].dtype == np.float32
    assert found["fc1.weight"].dtype == np.float16
    # bfloat16 has the range, and float16 loses the tiny value alone.
    flags = ("--weights-type", "bf16", "-o", tmp_path / "x.onnx")
    assert "too large" not in export(tmp_path / "large.onnx", *flags).stderr
    values[3, 1] = 1
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save(model, tmp_path / "tiny.onnx")
    flags = ("--weights-type", "f16", "-o", tmp_path / "x.onnx")
    assert "1 tiny values became 0" in export(tmp_path / "tiny.onnx", *flags).stderr


def test_bodies_read_weights_through_casts(tmp_path):
    """A weight that a branch reads is cast outside; a name that a body defines
    again stays as it is."""
    branches = []
    for name, factor in (("then", "fc.weight"), ("else", "own")):
        nodes = [helper.make_node("MatMul", ["x", factor], [f"{name}.y"])]
        constants = []
        if name == "else":
            constants = [numpy_helper.from_array(np.eye(4, dtype=np.float32), "own")]
        output = helper.make_tensor_value_info(f"{name}.y", 1, ["N", 4])
        branches.append(helper.make_graph(nodes, name, [], [output], constants))
    weight = np.random.default_rng(0).normal(0, 1, (4, 4)).astype(np.float32)
    model = mpctest.make_model(
        [
            helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
            helper.make_node("Greater", ["s", "zero"], ["c"]),
            helper.make_node(
                "If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]
            ),
        ],
        {"x": (np.float32, ["N", 4])},
        {"y": (np.float32, ["N", 4])},
        {"fc.weight": weight, "zero": np.float32(0)},
    )
    onnx.save(model, tmp_path / "model.onnx")
    export(tmp_path / "model.onnx", "--weights-type", "f16", "-o", tmp_path / "x.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "x.onnx"), full_check=True)
    samples = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(
        infer(tmp_path / "x.onnx", samples), samples @ weight, rtol=0.01, atol=0.01
    )


def test_record_of_the_run_goes_along(trained, tmp_path):
    def record(path):
        return {entry.key: entry.value for entry in onnx.load(path).metadata_props}

    flags = ("--checkpoint", trained / "run", "-o", tmp_path / "x.onnx")
    export(trained / "model.onnx", *flags)
    found = record(tmp_path / "x.onnx")
    assert found == record(trained / "trained.onnx")
    assert found["mpc.preparation"] == "--normalize 0.5:2"
    # Another model may have other outputs, so it gets no loss.
    model = onnx.load(trained / "model.onnx")
    model.doc_string = "another"
    onnx.save(model, tmp_path / "other.onnx")
    process = export(tmp_path / "other.onnx", *flags)
    assert "the run trained another file" in process.stderr
    assert "mpc.loss" in found and "mpc.loss" not in record(tmp_path / "x.onnx")


def test_record_of_an_onnx_file_of_weights_goes_along(trained, tmp_path):
    """The weights were not made as the record of MODEL says."""
    def record(path):
        return {entry.key: entry.value for entry in onnx.load(path).metadata_props}

    model = onnx.load(trained / "trained.onnx")
    for entry in model.metadata_props:
        if entry.key == "mpc.preparation":
            entry.value = "--normalize 0:1"
    onnx.save(model, tmp_path / "other.onnx")
    export(
        *(tmp_path / "other.onnx", "--weights", trained / "trained.onnx"),
        *("-o", tmp_path / "x.onnx"),
    )
    assert record(tmp_path / "x.onnx")["mpc.preparation"] == "--normalize 0.5:2"
    # Weights of a model that was not trained by mpc have no record.
    export(
        *(trained / "trained.onnx", "--weights", trained / "model.onnx"),
        *("-o", tmp_path / "x.onnx"),
    )
    assert "mpc.preparation" not in record(tmp_path / "x.onnx")
    # Arrays say nothing about their training.
    np.savez(tmp_path / "w.npz", **mpctest.read_weights(trained / "model.onnx"))
    export(trained / "trained.onnx", "--weights", tmp_path / "w.npz", "-o", tmp_path / "x.onnx")
    assert record(tmp_path / "x.onnx") == record(trained / "trained.onnx")


def test_values_that_no_file_gave_are_named(trained, tmp_path):
    model, output = trained / "model.onnx", ("-o", tmp_path / "x.onnx")
    weights = mpctest.read_weights(model)
    np.savez(tmp_path / "w.npz", **{"fc1.weight": weights["fc1.weight"]})
    process = export(model, "--weights", tmp_path / "w.npz", *output)
    assert f"note: 3 values of {model} stay, as no file has them: " in process.stderr
    assert "'fc1.bias', 'fc2.weight', 'fc2.bias'" in process.stderr
    np.savez(tmp_path / "w.npz", **weights)
    process = export(model, "--weights", tmp_path / "w.npz", *output)
    assert "stay" not in process.stderr
    process = export(model, "--checkpoint", trained / "run", *output)
    assert "stay" not in process.stderr


@pytest.mark.parametrize("command", ("export", "train"))
def test_external_data_of_the_model_is_not_replaced(trained, command, tmp_path):
    """The model itself may be replaced, together with its data."""
    def save(name, location):
        onnx.save(
            perceptron(hidden=512), tmp_path / name, save_as_external_data=True,
            location=location, size_threshold=64,
        )
        return tmp_path / name

    model = save("model.onnx", "x.onnx.data")
    (tmp_path / "link.onnx.data").symlink_to("x.onnx.data")
    arrays = save("arrays.onnx", "w.safetensors")
    np.savez(tmp_path / "w.npz", **mpctest.read_weights(model))
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    flags = ("--weights", tmp_path / "w.npz")
    if command == "train":
        flags = ("--data", trained / "data.npz", *LOSS, "--max-steps", 1)
        flags += ("--batch-size", 16, *mpctest.TARGET)
    for source, output, data in (
        (model, "x.onnx", "x.onnx.data"),
        (model, "link.onnx", "link.onnx.data"),
        (arrays, "w.safetensors", "w.safetensors"),
    ):
        process = mpctest.mpc(command, source, *flags, "-o", tmp_path / output)
        assert process.returncode == 2, process.stderr
        assert f"{tmp_path / data} is the external data of {source}" in process.stderr
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    for reader in (
        ("compile", arrays, "--batch-size", 16, *mpctest.TARGET),
        ("compile", arrays, "--batch-size", 16, "--emit", "import"),
        ("run", arrays, "--data", trained / "data.npz", *mpctest.TARGET),
    ):
        process = mpctest.mpc(*reader, "-o", tmp_path / "w.safetensors")
        assert process.returncode == 2, process.stderr
        assert "w.safetensors is the external data of" in process.stderr
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    own = save("own.onnx", "own.onnx.data")
    mpctest.mpc_ok(command, own, *flags, "-o", own)
    infer(own, samples_of(trained))


def cast_perceptron(low):
    """x -> Cast -> MatMul -> Cast -> Add -> Relu -> MatMul -> y, the first product
    in `low`, as autocast exports it."""
    model = perceptron()
    (fc1, *others) = model.graph.node
    del model.graph.node[:]
    for source, target, type in (
        ("x", "x.low", low),
        ("fc1.weight", "fc1.low", low),
        ("p.low", "p", onnx.TensorProto.FLOAT),
    ):
        cast = helper.make_node("Cast", [source], [target], to=type)
        if target == "p":
            nodes = [helper.make_node("Transpose", ["fc1.low"], ["fc1.turned"])]
            nodes += [helper.make_node("MatMul", ["x.low", "fc1.turned"], ["p.low"])]
            model.graph.node.extend(nodes)
        model.graph.node.append(cast)
    model.graph.node.append(helper.make_node("Add", ["p", "fc1.bias"], list(fc1.output)))
    model.graph.node.extend(others)
    return model


@pytest.mark.parametrize("low", ("FLOAT16", "BFLOAT16", "DOUBLE"))
@pytest.mark.parametrize("precision", ("32-true", "bf16-mixed"))
def test_models_with_casts_keep_them(low, precision, trained, tmp_path):
    """The checker takes the written models, and ONNX's reference computes what mpc
    computes, also with stored weights of 16 bits."""
    model = cast_perceptron(getattr(onnx.TensorProto, low))
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "model.onnx")
    mpctest.mpc_ok(
        *("train", tmp_path / "model.onnx", "--data", trained / "data.npz", *LOSS),
        *("--optimizer", "adamw", "--lr", 0.05, "--batch-size", 16, "--max-steps", 6),
        *("--checkpoint-dir", tmp_path / "run", "--precision", precision),
        *("--output", tmp_path / "trained.onnx", *mpctest.TARGET),
    )
    samples = samples_of(trained)
    for flags in ((), ("--weights-type", "f16"), ("--weights-type", "bf16")):
        file = tmp_path / "exported.onnx"
        checkpoint = ("--checkpoint", tmp_path / "run", "--output", file)
        export(tmp_path / "model.onnx", *checkpoint, *flags)
        if not flags:
            assert file.read_bytes() == (tmp_path / "trained.onnx").read_bytes()
        written = onnx.load(file)
        onnx.checker.check_model(written, full_check=True)
        casts = [node for node in written.graph.node if node.op_type == "Cast"]
        assert len(casts) == (5 if flags else 3)
        (expected,) = ReferenceEvaluator(written).run(None, {"x": samples})
        mpctest.mpc_ok(
            *("run", file, "--data", trained / "data.npz", "--no-metadata"),
            *("--output", tmp_path / "o.npz", *mpctest.TARGET),
        )
        with np.load(tmp_path / "o.npz") as arrays:
            np.testing.assert_allclose(arrays["y"], expected, rtol=1e-4, atol=1e-5)


def refused(code, *arguments):
    process = mpctest.mpc("export", *arguments)
    assert process.returncode == code, process.stderr
    return process.stderr


def test_what_cannot_be_exported(trained, tmp_path):
    model, output = trained / "model.onnx", ("-o", tmp_path / "x.onnx")
    assert "nothing to export" in refused(USAGE, model, *output)
    said = refused(USAGE, trained / "run", "--weights-type", "f16", *output)
    assert f"--checkpoint {trained}/run/step-6" in said
    flags = ("--checkpoint", trained / "run")
    assert "expected .onnx" in refused(USAGE, model, *flags, "-o", tmp_path / "x.pt")
    state = trained / "run/step-6/state.safetensors"
    assert refused(USAGE, model, *flags, "-o", state)
    assert refused(CHECKPOINT, model, "--checkpoint", tmp_path / "none", *output)
    assert refused(CHECKPOINT, model, "--checkpoint", tmp_path / "last", *output)
    # A model of other shapes, and one of other names.
    onnx.save(perceptron(hidden=8), tmp_path / "small.onnx")
    said = refused(INVALID, tmp_path / "small.onnx", *flags, *output)
    assert "'fc1.weight' has the shape [8, 4], its new value [32, 4]" in said
    other = perceptron()
    for part in (*other.graph.initializer, *other.graph.node):
        part.name = part.name.replace("fc", "layer")
    for node in other.graph.node:
        node.input[:] = [name.replace("fc", "layer") for name in node.input]
    onnx.save(other, tmp_path / "other.onnx")
    said = refused(INVALID, tmp_path / "other.onnx", *flags, *output)
    assert "gives no value for the model" in said
    onnx.save(perceptron(opset=12), tmp_path / "old.onnx")
    said = refused(UNSUPPORTED, tmp_path / "old.onnx", "--weights-type", "bf16", *output)
    assert "opset 12 has no Cast of bfloat16" in said
    assert not (tmp_path / "x.onnx").exists()
    # A damaged checkpoint gives nothing.
    damaged = tmp_path / "step-6"
    damaged.mkdir()
    for file in ("train.json", "state.safetensors"):
        content = bytearray((trained / "run/step-6" / file).read_bytes())
        if file == "state.safetensors":
            content[-1] ^= 1
        (damaged / file).write_bytes(content)
    assert "corrupt" in refused(CHECKPOINT, model, "--checkpoint", damaged, *output)
    assert not (tmp_path / "x.onnx").exists()
