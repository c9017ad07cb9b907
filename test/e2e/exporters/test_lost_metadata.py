"""Tiny models of all families and other kinds train without PyTorch's metadata,
and after ONNX Runtime's basic optimizations: the same parameters, to the same
losses. A parameter that no layer reads and that has no dotted name is named in
a warning, and --train trains it.

SPDX-License-Identifier: Apache-2.0
"""

import json
import re

import numpy as np
import onnx
import onnxruntime
import pytest

import mpctest

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
FOLDERS = (mpctest.DATA / "families", mpctest.DATA / "kinds")
LOSSES = {}
for folder in FOLDERS:
    LOSSES |= json.loads((folder / "losses.json").read_text())
PATHS = {path.stem: path for folder in FOLDERS for path in folder.glob("*.onnx")}
# Models that --sample keeps: a GELU, a class token, recurrent state, and
# parameters that no layer reads.
SAMPLE = {"gpt2-dynamo-18", "scales-dynamo-18"}
SAMPLE_OPTIMIZED = {"dlrm-torchscript-17", "lstm-dynamo-18"}
# Models where only metadata says which values have no gradient.
STOPS = {"quantizer"}
# Models where ONNX Runtime folds a value next to its parameter, such as a
# transposed copy. Only the first loss is the same.
COPIED = {"flow", "pairs", "scales", "tagger"}
# ONNX Runtime folds this model's normalizations, which changes their
# statistics.
FOLDED = "pointcloud-dynamo-18"


def clear(model):
    """Removes all metadata."""
    graph = model.graph
    for owner in (model, graph, *graph.node, *graph.input, *graph.output):
        del owner.metadata_props[:]
    for owner in (*graph.value_info, *graph.initializer):
        del owner.metadata_props[:]
    return model


def parameters(model):
    """Returns the names of PyTorch's parameters."""
    infos = (*model.graph.value_info, *model.graph.input)
    return {
        info.name
        for info in infos
        for entry in info.metadata_props
        if entry.key == KIND and entry.value == "PARAMETER"
    }


def count(path, names):
    """Counts the elements of the initializers."""
    tensors = onnx.load(path).graph.initializer
    return sum(int(np.prod(each.dims)) for each in tensors if each.name in names)


def trained(path):
    """Returns the names of the weights that are trained by default, and of all
    others."""
    lines = mpctest.mpc_ok("inspect", path, "--parameters").stdout.splitlines()
    rows = [line.split() for line in lines if line.startswith("  ")]
    return (
        {row[0] for row in rows if row[-1] == "trained"},
        {row[0] for row in rows if row[-1] != "trained"},
    )


def train(name, path, folder, *flags, steps=5):
    case = LOSSES[name]
    axes = [f"{key}={axis}" for key, axis in case["batch_axes"].items()]
    metrics, _ = mpctest.train(
        path,
        PATHS[next(stem for stem in PATHS if stem.split("-")[0] == name)].with_name(
            f"{name}.npz"
        ),
        folder,
        *("--loss", case["loss"], "--optimizer", "sgd", "--lr", case["lr"]),
        *("--batch-size", case["batch_size"], "--max-steps", steps),
        *(word for axis in axes for word in ("--batch-axis", axis)),
        *flags,
    )
    expected = case["float32"][:steps]
    np.testing.assert_allclose(mpctest.losses(metrics), expected, rtol=1e-4)


def warned(path, name):
    """Returns the first names in the warning about untrained values with a
    module's name."""
    case = LOSSES[name]
    process = mpctest.mpc_ok(
        "check", path, "--loss", case["loss"], "--batch-size", case["batch_size"]
    )
    found = re.search(
        r"warning: .*?: (.*) not trained: the name looks", process.stdout + process.stderr
    )
    return set(re.findall(r"'(.+?)'", found[1])) if found else set()


def cases(stems, sample):
    for stem in sorted(stems):
        marks = [] if stem in sample else [pytest.mark.full]
        yield pytest.param(stem, marks=marks)


@pytest.mark.parametrize(
    "stem",
    cases(
        [s for s in PATHS if "dynamo" in s and s.split("-")[0] not in STOPS], SAMPLE
    ),
)
def test_without_metadata(stem, tmp_path):
    model = onnx.load(PATHS[stem])
    expected = parameters(model)
    path = tmp_path / "model.onnx"
    onnx.save(clear(model), path)
    found, others = trained(path)
    assert not found - expected
    left = expected - found
    # By default mpc trains weights that layers read and weights with a dotted
    # name.
    assert left <= others and not any("." in name for name in left)
    name = stem.split("-")[0]
    flags = []
    if left:
        assert warned(path, name) & left
        flags = ["--train", "|".join(f"^{re.escape(each)}$" for each in expected)]
    train(name, path, tmp_path, *flags)


@pytest.mark.parametrize("stem", cases(PATHS.keys() - {FOLDED}, SAMPLE_OPTIMIZED))
def test_optimized_by_onnx_runtime(stem, tmp_path):
    name = stem.split("-")[0]
    if name in STOPS:
        pytest.skip("stops of gradients are metadata")
    path = tmp_path / "optimized.onnx"
    options = onnxruntime.SessionOptions()
    basic = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.graph_optimization_level = basic
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            PATHS[stem], options, providers=["CPUExecutionProvider"]
        )
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
        assert "opset 23" in str(error).lower()
        pytest.skip("this ONNX Runtime is older than opset 23")
    before, _ = trained(PATHS[stem])
    before |= parameters(onnx.load(PATHS[stem]))
    onnx.save(clear(onnx.load(path)), path)
    after, others = trained(path)
    # Choose the parameters that kept their names and that no layer reads.
    chosen = after | (before & others)
    flags = ["--train", "|".join(f"^{re.escape(each)}$" for each in chosen)]
    # ONNX Runtime transposes weights in advance: the training is the same. It
    # also merges equal weights, splits a tied head in two, and deletes weights
    # after folding them. Then only the first loss is the same.
    is_whole = name not in COPIED and count(path, chosen) == count(PATHS[stem], before)
    flags = flags if chosen != after else []
    train(name, path, tmp_path, *flags, steps=5 if is_whole else 1)
