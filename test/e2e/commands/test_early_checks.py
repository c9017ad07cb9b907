"""Input that does not fit is refused before compilation: the empty kernel cache
stays empty.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

USAGE, INVALID, CHECKPOINT = 2, 3, 8
MODEL = mpctest.MODELS / "mlp.onnx"


def digits(count=64, **arrays):
    with np.load(mpctest.DIGITS / "digits-train.npz") as data:
        return {name: data[name][:count] for name in data.files} | arrays


def save(folder, arrays, name="data.npz"):
    np.savez(folder / name, **arrays)
    return folder / name


def without_a_weight(folder):
    model = onnx.load(MODEL)
    weight = next(t for t in model.graph.initializer if t.name == "fc1.weight")
    model.graph.initializer.remove(weight)
    onnx.save(model, folder / "other.onnx")
    return folder / "other.onnx"


def is_compiled(folder):
    """True if the kernel cache of `refused` holds a file."""
    return any(path.is_file() for path in (folder / "cache").rglob("*"))


def refused(folder, command, code, text):
    process = mpctest.mpc(*command, "--kernel-cache", folder / "cache")
    assert process.returncode == code, process.stderr
    assert text in process.stderr
    assert not is_compiled(folder)


def train(data, *more):
    return [
        *("train", MODEL, "--data", data, "--batch-size", 32, "--loss"),
        *("cross_entropy", "--max-steps", 1, *more),
    ]


def test_a_run_that_fits_is_compiled(tmp_path):
    """The negative control of the other tests: a good run fills the cache."""
    data = save(tmp_path, digits())
    mpctest.mpc_ok(
        *train(data, "--output", tmp_path / "o.onnx"),
        *("--kernel-cache", tmp_path / "cache"),
    )
    assert is_compiled(tmp_path)


WRONG = {
    "a label that is no class": (
        {"target": np.full(64, 10)},
        "label 10 is not in [0,10)",
    ),
    "another count": ({"target": np.zeros(63, int)}, "has 63 samples"),
    "another shape": ({"image": np.zeros((64, 1, 8, 9), np.float32)}, "got [64,1,8,9]"),
    "another type": ({"target": np.full(64, 0.5)}, "0.5"),
    "a value that is none": (
        {"image": np.full((64, 1, 8, 8), np.nan, np.float32)},
        "--allow-nan",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("where", ["--data", "--val-data", "eval"])
def test_data(wrong, where, tmp_path):
    changes, text = WRONG[wrong]
    good, bad = save(tmp_path, digits()), save(tmp_path, digits(**changes), "bad.npz")
    if where == "eval":
        command = ["eval", MODEL, "--data", bad, "--loss", "cross_entropy"]
    else:
        more = ["--val-data", bad] if where == "--val-data" else []
        command = train(good if more else bad, *more)
    refused(tmp_path, command, INVALID, text)


def test_names_of_arrays(tmp_path):
    arrays = digits()
    arrays["picture"] = arrays.pop("image")
    data = save(tmp_path, arrays)
    refused(tmp_path, train(data), INVALID, "no array is called 'image'")


def test_samples_for_a_step(tmp_path):
    data = save(tmp_path, digits(31))
    refused(tmp_path, train(data), INVALID, "has 31 samples, one step takes 32")


def test_the_model_that_receives_the_weights(tmp_path):
    data = save(tmp_path, digits())
    flags = ["--output", tmp_path / "o.onnx", "--export-model"]
    command = train(data, *flags, without_a_weight(tmp_path))
    refused(tmp_path, command, INVALID, "input 'fc1.weight' is never defined")


@pytest.mark.parametrize(
    "flags, text",
    [
        (["--metric", "top11"], "there are 10 classes"),
        (["--metric", "r2"], "--metric r2 is for losses of"),
        (["--normalize", "a=0:1"], "no input is called 'a'"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_flags_that_need_the_model(flags, text, tmp_path):
    data = save(tmp_path, digits())
    more = ["--val-split", 0.5] if flags[0] == "--metric" else []
    refused(tmp_path, train(data, *flags, *more), USAGE, text)


def test_a_model_without_a_loss(tmp_path):
    data = save(tmp_path, digits())
    for verb in ("train", "eval"):
        command = [verb, MODEL, "--data", data, "--batch-size", 32]
        refused(tmp_path, command, USAGE, "needs a loss")


@pytest.mark.parametrize("resume", ["auto", "step-1"])
def test_a_checkpoint_of_another_run(resume, tmp_path):
    data = save(tmp_path, digits())
    other = save(tmp_path, digits(target=np.zeros(64, int)), "other.npz")
    checkpoints = tmp_path / "ck"
    mpctest.mpc_ok(*train(data, "--checkpoint-dir", checkpoints))
    path = resume if resume == "auto" else checkpoints / resume
    flags = ["--checkpoint-dir", checkpoints, "--resume", path]
    refused(tmp_path, train(other, *flags), CHECKPOINT, "the data differs")
    flags += ["--optimizer", "momentum"]
    refused(tmp_path, train(data, *flags), CHECKPOINT, "optimizer was")


def test_a_run_goes_on_where_all_is_as_it_was(tmp_path):
    data = save(tmp_path, digits())
    flags = ["--checkpoint-dir", tmp_path / "ck", "--precision", "bf16-mixed"]
    flags += ["--weight-decay", 0.1, "--keep-fp32", "fc2"]
    mpctest.mpc_ok(*train(data, *flags))
    process = mpctest.mpc_ok(*train(data, *flags, "--resume", "auto", "--max-steps", 2))
    assert "step 2" in process.stdout or "2 steps" in process.stdout


def gelu_classifier():
    """Returns a model: image -> fc1 -> GELU, decomposed into primitive ops ->
    fc2 -> y."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Flatten", ["image"], ["x"]),
        helper.make_node("MatMul", ["x", "w1"], ["h"]),
        helper.make_node("Div", ["h", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["a"]),
        helper.make_node("Mul", ["h", "a"], ["m"]),
        helper.make_node("Mul", ["m", "half"], ["g"]),
        helper.make_node("MatMul", ["g", "w2"], ["y"]),
    ]
    values = {"w1": random.normal(0, 0.1, (64, 32)), "w2": np.zeros((32, 10))}
    values |= {"root": 2**0.5, "one": 1, "half": 0.5}
    return mpctest.make_model(
        nodes,
        {"image": (np.float32, ["N", 1, 8, 8])},
        {"y": (np.float32, ["N", 10])},
        {name: np.array(value, np.float32) for name, value in values.items()},
    )


def test_a_run_whose_decisions_alone_differ(tmp_path):
    """Placement decisions are known before code generation."""
    model = tmp_path / "gelu.onnx"
    onnx.save(gelu_classifier(), model)
    command = train(save(tmp_path, digits()), "--checkpoint-dir", tmp_path / "ck")
    command[1] = model
    mpctest.mpc_ok(*command)
    command += ["--resume", "auto", "--no-recognize", "gelu"]
    refused(tmp_path, command, CHECKPOINT, "the types of its ops differ")


RUNS = {
    "a function that is not there": (
        USAGE,
        ["--input", "image=image.npy", "--function", "train"],
        "expected --function to be one of",
    ),
    "an input that is missing": (
        INVALID,
        ["--input", "image=image.npy", *("--loss", "mse", "--function", "eval")],
        "input 'target' is missing; give it with --input target=FILE",
    ),
    "an input that there is not": (
        USAGE,
        ["--input", "image=image.npy", "--input", "labels=target.npy"]
        + ["--loss", "cross_entropy", "--function", "eval"],
        "--input labels: function 'eval' has no such input; it has image, target",
    ),
    "another shape": (
        INVALID,
        ["--input", "image=image.npy", "--input", "target=image.npy"]
        + ["--loss", "cross_entropy", "--function", "eval"],
        "expected labels of shape [64] for scores of shape [64,10]",
    ),
    "another type": (
        INVALID,
        ["--input", "image=image.npy", "--input", "target=half.npy"]
        + ["--loss", "cross_entropy", "--function", "eval"],
        "half.npy: target[0]: 0.5",
    ),
    "a table that has no such column": (
        INVALID,
        ["--data", "table.csv", "--normalize", "0:1"],
        "2 columns are left for the input 'image', which takes 64",
    ),
}


@pytest.mark.parametrize("wrong", RUNS)
def test_what_is_run(wrong, tmp_path):
    code, flags, text = RUNS[wrong]
    arrays = digits()
    np.save(tmp_path / "image.npy", arrays["image"].astype(np.float32))
    np.save(tmp_path / "target.npy", arrays["target"])
    np.save(tmp_path / "half.npy", np.full(64, 0.5))
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    flags = [re.sub(r"(\w+\.(npy|csv))", rf"{tmp_path}/\1", flag) for flag in flags]
    refused(tmp_path, ["run", MODEL, *flags], code, text)
