"""Bad input ends with the documented exit code and one located error, and
leaves no half-written file.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import os
import re
import typing

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

USAGE, INVALID, UNSUPPORTED, IO, DEVICE = 2, 3, 4, 5, 6
NUMERIC, CHECKPOINT = 7, 8


def digits(name="train", **changes):
    with np.load(mpctest.DIGITS / f"digits-{name}.npz") as arrays:
        return {**arrays, **changes}


def mlp():
    return onnx.load(mpctest.MODELS / "mlp.onnx")


def write_data(folder, **arrays):
    np.savez(folder / "data.npz", **arrays)
    return ["--data", folder / "data.npz"]


def write_model(folder, model):
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


@dataclasses.dataclass
class Bad:
    """`prepare(folder)` returns the model and further flags."""

    name: str
    exit_code: int
    # Texts that the message must contain, each at least once.
    mentions: typing.List[str]
    prepare: typing.Callable


CASES = []


def bad(exit_code, *mentions):
    """Decorates a function that prepares one bad input."""

    def register(prepare):
        name = prepare.__name__
        CASES.append(Bad(name, exit_code, list(mentions), prepare))
        return prepare

    return register


# Model files.


@bad(INVALID, "model.onnx")
def truncated_model(folder):
    whole = (mpctest.MODELS / "mlp.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(whole[: len(whole) // 2])
    return folder / "model.onnx", []


@bad(INVALID, "model.onnx")
def empty_model(folder):
    (folder / "model.onnx").write_bytes(b"")
    return folder / "model.onnx", []


@bad(INVALID, "model.onnx")
def text_instead_of_a_model(folder):
    (folder / "model.onnx").write_text("this is no model\n" * 100)
    return folder / "model.onnx", []


@bad(IO, "missing.onnx")
def missing_model(folder):
    return folder / "missing.onnx", []


@bad(UNSUPPORTED, "model.onnx", "'x'", "at most 32 dimensions, found 100000")
def more_dimensions_than_any_array_has(folder):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1] * 100000)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    graph = helper.make_graph([node], "g", [value], [y])
    return write_model(folder, helper.make_model(graph)), []


@bad(INVALID, "model.onnx", "'v0' is never defined")
def comment_that_has_a_graph(folder):
    """A description in place of a graph must not stop the checks of the graph."""
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(64)]
    relu = helper.make_node("Relu", ["x"], ["y"], name="relu", description="text")
    body = helper.make_graph(nodes, "body", [], [])
    relu.attribute[0].g.CopyFrom(body)
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"
    ]
    graph = helper.make_graph([relu], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return write_model(folder, model), []


@bad(INVALID, "model.onnx", "cycle", "relu1")
def cycle(folder):
    model = mlp()
    for node in model.graph.node:
        if node.name == "fc1":
            node.input[0] = "relu1_out"
    return write_model(folder, model), []


def write_nodes(folder, nodes, opset=18):
    """Writes a model of `nodes` from x, (2, 3, 4), to y. It has the parameter w,
    (2, 4, 4)."""
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, [2, 3, 4])},
        {"y": (np.float32, None)},
        {"w": np.ones((2, 4, 4), np.float32)},
        opset,
    )
    return write_model(folder, model)


@bad(INVALID, "model.onnx", "cycle", "first")
def cycle_in_a_shape(folder):
    """The repair of Gemms of stacks asks how long the shape is."""
    nodes = [
        helper.make_node("Concat", ["b", "b"], ["a"], "first", axis=0),
        helper.make_node("Concat", ["a", "a"], ["b"], "second", axis=0),
        helper.make_node("Reshape", ["x", "a"], ["r"]),
        helper.make_node("Gemm", ["r", "w"], ["y"]),
    ]
    return write_nodes(folder, nodes), []


@bad(UNSUPPORTED, "model.onnx", "known at import")
def shape_that_doubles_at_each_node(folder):
    nodes = [helper.make_node("Constant", [], ["c0"], value_ints=[1])]
    for i in range(64):
        nodes.append(helper.make_node("Add", [f"c{i}"] * 2, [f"c{i + 1}"]))
    nodes += [
        helper.make_node("Cast", ["x"], ["n"], to=TensorProto.INT64),
        helper.make_node("Add", ["c64", "n"], ["s"]),
        helper.make_node("Reshape", ["x", "s"], ["r"]),
        helper.make_node("Gemm", ["r", "w"], ["y"]),
    ]
    return write_nodes(folder, nodes), []


@bad(INVALID, "model.onnx", "node 'pad' (Pad)")
def pad_without_data(folder):
    """The repair of forms of other opsets makes the attribute an input."""
    pad = helper.make_node("Pad", [], ["y"], "pad", value=1.0)
    return write_nodes(folder, [pad]), []


@bad(INVALID, "model.onnx", "node 'cast' (Cast)")
def cast_without_data(folder):
    """The repair of random masks follows casts."""
    nodes = [
        helper.make_node("RandomUniformLike", ["x"], ["u"], dtype=1),
        helper.make_node("Cast", [], ["y"], "cast", to=1),
    ]
    return write_nodes(folder, nodes), []


@bad(INVALID, "model.onnx", "fc2", "fc2.weight")
def missing_initializer(folder):
    model = mlp()
    for i, initializer in enumerate(model.graph.initializer):
        if initializer.name == "fc2.weight":
            del model.graph.initializer[i]
            break
    return write_model(folder, model), []


@bad(INVALID, "model.onnx", "fc1_out")
def value_defined_twice(folder):
    model = mlp()
    model.graph.node.append(
        helper.make_node("Relu", ["scale_out"], ["fc1_out"], "again")
    )
    return write_model(folder, model), []


@bad(INVALID, "model.onnx", "fc2")
def shapes_that_do_not_fit(folder):
    model = mlp()
    for initializer in model.graph.initializer:
        if initializer.name == "fc2.weight":
            wrong = np.zeros((64, 100), np.float32)
            initializer.CopyFrom(numpy_helper.from_array(wrong, "fc2.weight"))
    return write_model(folder, model), []


@bad(INVALID, "model.onnx", "fc2.weight")
def initializer_shorter_than_its_shape(folder):
    model = mlp()
    for initializer in model.graph.initializer:
        if initializer.name == "fc2.weight":
            initializer.raw_data = initializer.raw_data[:-4]
    return write_model(folder, model), []


@bad(UNSUPPORTED, "model.onnx", "Frobnicate", "odd")
def unknown_operator(folder):
    model = mlp()
    logits = model.graph.node[-1]
    logits.output[0] = "before"
    model.graph.node.append(
        helper.make_node("Frobnicate", ["before"], ["logits"], "odd")
    )
    return write_model(folder, model), []


@bad(INVALID, "model.onnx", "pool1", "strides")
def zero_stride(folder):
    model = onnx.load(mpctest.MODELS / "digits-cnn.onnx")
    for node in model.graph.node:
        if node.name == "pool1":
            for attribute in node.attribute:
                if attribute.name == "strides":
                    attribute.ints[:] = [0, 0]
    return write_model(folder, model), []


def external(folder, location):
    """Returns a model whose weight lies in another file."""
    model = mlp()
    for initializer in model.graph.initializer:
        if initializer.name == "fc2.weight":
            initializer.ClearField("raw_data")
            initializer.data_location = TensorProto.EXTERNAL
            initializer.external_data.add(key="location", value=location)
    (folder / "sub").mkdir()
    return write_model(folder / "sub", model)


@bad(INVALID, "model.onnx", "fc2.weight", "../secret.bin")
def external_data_outside_the_folder(folder):
    (folder / "secret.bin").write_bytes(b"\0" * (64 * 128 * 4))
    return external(folder, "../secret.bin"), []


@bad(INVALID, "model.onnx", "fc2.weight", "/etc/passwd")
def external_data_at_an_absolute_path(folder):
    return external(folder, "/etc/passwd"), []


@bad(INVALID, "model.onnx", "fc2.weight", "NUL byte after 'w.bin'")
def external_data_with_a_name_that_goes_on_after_a_nul(folder):
    model = external(folder, "w.bin\0.other")
    (folder / "sub" / "w.bin").write_bytes(b"\0" * (64 * 128 * 4))
    return model, []


@bad(INVALID, "model.onnx", "fc2.weight", "link.bin")
def external_data_behind_a_symlink(folder):
    model = external(folder, "link.bin")
    (folder / "sub" / "link.bin").symlink_to("/etc/passwd")
    return model, []


@bad(INVALID, "model.onnx", "probabilities", "softmax_cross_entropy")
def softmax_before_softmax_cross_entropy(folder):
    model = mlp()
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(
        helper.make_node("Softmax", ["before"], ["logits"], "probabilities")
    )
    return write_model(folder, model), []


# Data.


@bad(INVALID, "data.npz", "target")
def labels_of_the_wrong_shape(folder):
    target = digits()["target"][:100]
    return None, write_data(folder, **digits(target=target))


@bad(INVALID, "data.npz", "target", "10")
def label_out_of_range(folder):
    target = digits()["target"].copy()
    target[5] = 10
    return None, write_data(folder, **digits(target=target))


@bad(INVALID, "data.npz", "image", "nan")
def nan_in_data(folder):
    image = digits()["image"].astype(np.float32)
    image[3, 0, 2, 1] = np.nan
    return None, write_data(folder, **digits(image=image))


@bad(INVALID, "data.npz", "image", "inf")
def infinity_in_data(folder):
    image = digits()["image"].astype(np.float32)
    image[3, 0, 2, 1] = np.inf
    return None, write_data(folder, **digits(image=image))


@bad(INVALID, "data.npz", "image")
def images_of_the_wrong_shape(folder):
    image = digits()["image"][:, :, :7]
    return None, write_data(folder, **digits(image=image))


@bad(INVALID, "data.npz", "image")
def data_without_the_input(folder):
    return None, write_data(folder, target=digits()["target"])


@bad(INVALID, "data.npz", "target")
def data_without_labels(folder):
    return None, write_data(folder, image=digits()["image"])


@bad(INVALID, "data.npz")
def truncated_data(folder):
    whole = (mpctest.DIGITS / "digits-train.npz").read_bytes()
    (folder / "data.npz").write_bytes(whole[: len(whole) // 2])
    return None, ["--data", folder / "data.npz"]


@bad(INVALID, "data.npz", "image")
def pickled_objects_in_data(folder):
    image = np.array([{"a": 1}] * 8, dtype=object)
    return None, write_data(folder, **digits(image=image))


@bad(IO, "missing.npz")
def missing_data(folder):
    return None, ["--data", folder / "missing.npz"]


@bad(INVALID, "data.npz", "32", "8")
def fewer_samples_than_a_batch(folder):
    arrays = {k: v[:8] for k, v in digits().items()}
    return None, write_data(folder, **arrays)


# Flags.


@bad(USAGE, "--precision", "12-mixed")
def unknown_precision(folder):
    return None, ["--precision", "12-mixed"]


@bad(USAGE, "--optimizer", "sgdd")
def unknown_optimizer(folder):
    return None, ["--optimizer", "sgdd"]


@bad(USAGE, "--no-such-flag")
def unknown_flag(folder):
    return None, ["--no-such-flag"]


@bad(USAGE, "--lr")
def learning_rate_that_is_no_number(folder):
    return None, ["--lr", "fast"]


@bad(USAGE, "--freeze", "nothing_like_this")
def pattern_that_matches_nothing(folder):
    return None, ["--freeze", "nothing_like_this"]


@bad(DEVICE, "cuda")
def device_that_is_not_there(folder):
    return None, ["--device", "cuda"]


@bad(IO, "no-such-folder")
def output_in_a_missing_folder(folder):
    return None, ["--output", folder / "no-such-folder" / "trained.onnx"]


@bad(CHECKPOINT, "checkpoint")
def checkpoint_that_is_none(folder):
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "state.safetensors").write_bytes(b"junk")
    return None, ["--resume", folder / "checkpoint"]


@bad(NUMERIC, "loss")
def learning_rate_that_diverges(folder):
    return None, ["--lr", "1e30", "--optimizer", "sgd", "--max-steps", "200"]


def command_line(case, folder):
    """Returns the flags of a good run, with the case's flags in their place."""
    model, flags = case.prepare(folder)
    values = {
        "--data": mpctest.DIGITS / "digits-train.npz",
        "--loss": "softmax_cross_entropy",
        "--optimizer": "adamw",
        "--batch-size": "32",
        "--max-steps": "2",
        "--output": folder / "trained.onnx",
        "--metrics": folder / "metrics.jsonl",
    }
    alone = []
    while flags:
        name = flags.pop(0)
        if flags and not str(flags[0]).startswith("--"):
            values[name] = flags.pop(0)
        else:
            alone.append(name)
    pairs = [(k, v) for k, v in values.items() if v is not None]
    return [
        "train",
        model or mpctest.MODELS / "mlp.onnx",
        *(word for pair in pairs for word in pair),
        *alone,
    ]


def error_lines(process):
    return re.findall(r"^.*\berror\b.*$", process.stderr, re.MULTILINE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input(case, tmp_path):
    if case.exit_code == DEVICE and os.path.exists("/dev/nvidiactl"):
        pytest.skip("this machine has a GPU")
    command = command_line(case, tmp_path)
    before = set(tmp_path.rglob("*"))
    process = mpctest.mpc(*command)
    assert process.returncode == case.exit_code, process.stderr
    errors = error_lines(process)
    assert len(errors) == 1, process.stderr
    for text in case.mentions:
        assert text.lower() in errors[0].lower(), process.stderr
    assert process.stdout == ""
    # A run that started may keep its metrics: they record the end of the run.
    written = set(tmp_path.rglob("*")) - before
    allowed = {tmp_path / "metrics.jsonl"}
    assert written <= (allowed if case.exit_code == NUMERIC else set())


def test_every_unsupported_operator_is_listed_once(tmp_path):
    model = mlp()
    model.graph.node[-1].output[0] = "before"
    for i, op in enumerate(["Frobnicate", "Defenestrate", "Frobnicate"]):
        names = ["before", "odd0", "odd1", "logits"]
        model.graph.node.append(
            helper.make_node(op, [names[i]], [names[i + 1]], f"node{i}")
        )
    process = mpctest.mpc("check", write_model(tmp_path, model))
    assert process.returncode in (1, UNSUPPORTED)
    text = process.stdout + process.stderr
    assert text.count("Frobnicate") == text.count("Defenestrate") == 1


@pytest.mark.parametrize("part", range(8))
def test_flipped_bits_never_crash(part, tmp_path):
    """A flipped bit makes mpc accept the file or report an error, never crash."""
    whole = (mpctest.MODELS / "mlp.onnx").read_bytes()
    random = np.random.RandomState(part)
    # The graph's structure lies around the weights: aim half of the flips there.
    heads = random.randint(0, 600, 8)
    for position in [*heads, *random.randint(0, len(whole), 8)]:
        flipped = bytearray(whole)
        flipped[position] ^= 1 << random.randint(8)
        path = tmp_path / "model.onnx"
        path.write_bytes(flipped)
        process = mpctest.mpc("check", path, "--batch-size", "4")
        assert process.returncode in (0, 1, INVALID, UNSUPPORTED), (
            f"byte {position}: exit code {process.returncode}\n"
            f"{process.stderr}"
        )


@pytest.mark.parametrize("lost", ["operands", "results"])
def test_nodes_without_operands_or_results(lost, tmp_path):
    """Deletes the operands of one node, or adds a copy of the node without
    results. mpc refuses the first file and ignores the copy in the second. The
    file is in the style of PyTorch's older exporter, where mpc finds weights by
    the nodes that read them."""
    nodes = [
        helper.make_node("Cast", ["places"], ["p"], "given", to=1),
        helper.make_node("MatMul", ["p", "turns"], ["angles"], "turn"),
        helper.make_node("Sin", ["angles"], ["waves"], "wave"),
        helper.make_node("Unsqueeze", ["x", "last"], ["x1"], "column"),
        helper.make_node("Cast", ["x1"], ["x2"], "same", to=1),
        helper.make_node("Mul", ["x2", "columns"], ["x3"], "spread"),
        helper.make_node("MatMul", ["x3", "onnx::MatMul_7"], ["h"], "/fc/MatMul"),
        helper.make_node("Add", ["h", "fc.bias"], ["h1"], "/fc/Add"),
        helper.make_node("Mul", ["h1", "scale"], ["h2"], "branch"),
        helper.make_node("Add", ["h2", "h1"], ["h3"], "join"),
        helper.make_node("Pow", ["h3", "power"], ["h4"], "bend"),
        helper.make_node("Add", ["h4", "waves"], ["y"], "end"),
    ]
    random = np.random.default_rng(0)
    uniform = lambda *shape: random.uniform(1, 2, shape).astype(np.float32)
    weights = {
        "turns": uniform(1, 2),
        "last": np.array([2]),
        "columns": uniform(3, 2),
        "onnx::MatMul_7": uniform(2, 2),
        "fc.bias": uniform(2),
        "scale": uniform(2),
        "power": uniform(1),
    }
    data = {"x": (np.float32, [4, 3]), "places": (np.int64, [3, 1])}
    flags = ["--loss", "mse", "-o", tmp_path / "model.mpc"]
    for i in range(-1, len(nodes)):
        y = {"y": (np.float32, [4, 3, 2])}
        model = mpctest.make_model(nodes, data, y, weights, opset=17)
        model.producer_name = "pytorch"
        if i >= 0 and lost == "operands":
            del model.graph.node[i].input[:]
        elif i >= 0:
            model.graph.node.append(nodes[i])
            del model.graph.node[-1].output[:]
        onnx.save(model, tmp_path / "model.onnx")
        process = mpctest.mpc("compile", tmp_path / "model.onnx", *flags)
        expected = INVALID if i >= 0 and lost == "operands" else 0
        assert process.returncode == expected, (i, process.stderr)


def test_good_input_passes(tmp_path):
    """The input that each case above changes in one place is good."""
    good = Bad("good", 0, [], lambda folder: (None, []))
    mpctest.mpc_ok(*command_line(good, tmp_path))
    assert (tmp_path / "trained.onnx").exists()


def test_sums_of_sums_are_no_riddle(tmp_path):
    """The search for the axis of classes is bounded: these sums have 2^64
    paths."""
    nodes = [
        helper.make_node("Add", [f"x{i}" if i else "x"] * 2, [f"x{i + 1}"])
        for i in range(64)
    ]
    shape = [2, 4, 4]
    model = mpctest.make_model(
        nodes, {"x": (np.float32, shape)}, {"x64": (np.float32, shape)}, {}
    )
    onnx.save(model, tmp_path / "model.onnx")
    loss = ("--loss", "softmax_cross_entropy")
    flags = (*loss, "--emit=differentiate", "-o", "-")
    process = mpctest.mpc("compile", tmp_path / "model.onnx", *flags)
    assert process.returncode == 2
    assert "may have their classes on axis 1 or on axis 2" in process.stderr
