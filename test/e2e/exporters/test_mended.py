"""Defects that mpc repairs when reading a file are also repaired in the written
file: ONNX's checker and ONNX Runtime accept it.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

RANDOM = np.random.RandomState(0)
DATA = {
    "x": RANDOM.randn(4, 1, 3, 3, 3).astype(np.float32),
    "target": RANDOM.randn(4, 2).astype(np.float32),
}


def finish(nodes, values, opsets=(("", 12),), outputs=1):
    arrays = {name: np.asarray(value) for name, value in values.items()}
    for name, value in arrays.items():
        if value.dtype.kind == "f":
            arrays[name] = value.astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 3, 3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])] * outputs,
        [numpy_helper.from_array(value, name) for name, value in arrays.items()],
    )
    imports = [helper.make_opsetid(*opset) for opset in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=7)


def conv(bias=(), **attributes):
    return [
        helper.make_node("Conv", ["x", "w", *bias], ["h"]),
        helper.make_node("ReduceMean", ["h"], ["y"], keepdims=0, **attributes),
    ]


def named(*names):
    """Returns two nodes with the given names."""
    nodes = conv(axes=[2, 3, 4])
    for node, name in zip(nodes, names):
        node.name = name
    return nodes


def constant_bias():
    shape = numpy_helper.from_array(np.array([2, 2]))
    return [
        helper.make_node("Constant", [], ["s"], value=shape),
        helper.make_node("ConstantOfShape", ["s"], ["b"]),
        *conv(["b"], **AXES),
    ]


def behind_conv(*nodes):
    """Returns a model in which `nodes` compute y from m, a mean [N, 2]."""
    first = conv(axes=[2, 3, 4])
    first[1].output[0] = "m"
    return [*first, *(helper.make_node(*node[:3], **node[3]) for node in nodes)]


def padded_conv():
    nodes = conv(axes=[2, 3, 4])
    nodes[0].input[0] = "z"
    return nodes


def with_integer():
    nodes = conv(axes=[2, 3, 4])
    nodes[0].attribute.append(helper.make_attribute("strides", [2, 2, 2]))
    nodes += [
        helper.make_node("Unsqueeze", ["y"], ["z"], axes=0),
        helper.make_node("Squeeze", ["z"], ["u"], axes=0),
    ]
    nodes[1].output[0], nodes[2].input[0], nodes[3].output[0] = "v", "v", "y"
    return nodes


def with_function():
    """Returns a model with a function whose attribute `axes` are a reduction's
    axes."""
    nodes = [helper.make_node("ReduceMean", ["a"], ["b"], keepdims=0)]
    axes = nodes[0].attribute.add(name="axes", ref_attr_name="axes")
    axes.type = onnx.AttributeProto.INTS
    opsets = [helper.make_opsetid("", 18)]
    function = helper.make_function("own", "Mean", ["a"], ["b"], nodes, opsets, ["axes"])
    call = helper.make_node("Mean", ["h"], ["y"], domain="own", **AXES)
    model = finish([conv()[0], call], WEIGHT, opsets=[("", 18), ("own", 1)])
    model.functions.append(function)
    model.ir_version = 8
    return model


WEIGHT = {"w": RANDOM.randn(2, 1, 2, 2, 2)}
AXES = {"axes": [2, 3, 4]}
MODELS = {
    "zeros": finish(conv(["b"], **AXES), {**WEIGHT, "b": np.zeros((2, 2))}),
    "integer": finish(with_integer(), WEIGHT),
    "opsets": finish(conv(**AXES), WEIGHT, opsets=(("", 11), ("", 12))),
    "outputs": finish(conv(**AXES), WEIGHT, outputs=2),
    "names": finish(named("q", "q"), WEIGHT),
    "constant bias": finish(constant_bias(), WEIGHT),
    "attribute axes": finish(conv(**AXES), WEIGHT, opsets=[("", 18)]),
    "input axes": finish(
        [
            helper.make_node("Conv", ["x", "w"], ["h"]),
            helper.make_node("ReduceMean", ["h", "a"], ["y"], keepdims=0),
        ],
        {**WEIGHT, "a": np.array([2, 3, 4])},
    ),
    "squeeze": finish(
        behind_conv(
            ("Unsqueeze", ["m"], ["u"], {"axes": [1]}),
            ("Squeeze", ["u"], ["y"], {"axes": [1]}),
        ),
        WEIGHT,
        opsets=[("", 13)],
    ),
    "int32 shape": finish(
        behind_conv(("Reshape", ["m", "s"], ["y"], {})),
        {**WEIGHT, "s": np.array([-1, 2], np.int32)},
    ),
    "gelu": finish(behind_conv(("Gelu", ["m"], ["y"], {})), WEIGHT),
    "tanh gelu": finish(
        [
            helper.make_node("Conv", ["x", "w"], ["h"]),
            helper.make_node("Gelu", ["h"], ["g"], approximate="tanh"),
            helper.make_node("ReduceMean", ["g"], ["y"], keepdims=0, **AXES),
        ],
        WEIGHT,
        opsets=[("", 17)],
    ),
    "default attribute": finish(
        conv(noop_with_empty_axes=0, **AXES), WEIGHT, opsets=[("", 13)]
    ),
    "axes of a function": with_function(),
    "input pads": finish(
        [helper.make_node("Pad", ["x", "p", "v"], ["z"]), *padded_conv()],
        {**WEIGHT, "p": np.array([0] * 7 + [1] * 3), "v": np.float32(3)},
        opsets=[("", 10)],
    ),
    "stacked gemm": finish(
        behind_conv(
            ("Unsqueeze", ["m"], ["u"], {"axes": [1]}),
            ("Gemm", ["u", "l", "c"], ["v"], {"alpha": 0.5, "transB": 1}),
            ("Squeeze", ["v"], ["y"], {"axes": [1]}),
        ),
        {**WEIGHT, "l": RANDOM.randn(2, 2), "c": RANDOM.randn(2)},
    ),
}


def grid_sample(mode):
    """Of volumes, which opset 20 introduced. PyTorch writes opset 16."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"]),
        helper.make_node("GridSample", ["h", "places"], ["g"], mode=mode),
        helper.make_node("ReduceMean", ["g"], ["y"], keepdims=0, **AXES),
    ]
    places = np.tile(RANDOM.uniform(-1, 1, (1, 2, 2, 2, 3)), (4, 1, 1, 1, 1))
    model = finish(nodes, {**WEIGHT, "places": places}, opsets=[("", 16)])
    model.ir_version = 8
    return model


MODELS |= {
    "volumes": grid_sample("bilinear"),
    "nearest in volumes": grid_sample("nearest"),
    "computed axes of Squeeze": finish(
        [
            helper.make_node("Conv", ["x", "w"], ["h"]),
            helper.make_node("ReduceMean", ["h"], ["m"], **AXES),
            helper.make_node("Concat", ["p", "q"], ["a"], axis=0),
            helper.make_node("Squeeze", ["m", "a"], ["y"]),
        ],
        {**WEIGHT, "p": np.array([2]), "q": np.array([3, 4])},
    ),
    "computed axes of ReduceMean": finish(
        [
            helper.make_node("Conv", ["x", "w"], ["h"]),
            helper.make_node("Cast", ["p"], ["a"], to=TensorProto.INT64),
            helper.make_node("ReduceMean", ["h", "a"], ["y"], keepdims=0),
        ],
        {**WEIGHT, "p": np.array([2, 3, 4], np.int32)},
    ),
    "gemm behind a computed shape": finish(
        behind_conv(
            ("Shape", ["m"], ["extents"], {}),
            ("Gather", ["extents", "zero"], ["rows"], {"axis": 0}),
            ("Concat", ["rows", "rest"], ["three"], {"axis": 0}),
            ("Reshape", ["m", "three"], ["u"], {}),
            ("Gemm", ["u", "l", "c"], ["v"], {"transB": 1}),
            ("Concat", ["rows", "two"], ["out"], {"axis": 0}),
            ("Reshape", ["v", "out"], ["y"], {}),
        ),
        {
            **WEIGHT,
            "l": RANDOM.randn(2, 2),
            "c": RANDOM.randn(2),
            "zero": np.array([0]),
            "rest": np.array([1, 2]),
            "two": np.array([2]),
        },
    ),
}


def test_a_gemm_of_unknown_rank_is_named(tmp_path):
    """Of rank 3: the product is computed, but the file could not be written."""
    model = finish(
        behind_conv(
            ("Shape", ["m"], ["extents"], {}),
            ("Slice", ["extents", "zero", "one"], ["rows"], {}),
            ("Concat", ["rows", "rest"], ["three"], {"axis": 0}),
            ("Reshape", ["m", "three"], ["u"], {}),
            ("Gemm", ["u", "l"], ["v"], {}),
            ("ReduceMean", ["v"], ["y"], {"axes": [1], "keepdims": 0}),
        ),
        {
            **WEIGHT,
            "l": RANDOM.randn(2, 2),
            "zero": np.array([0]),
            "one": np.array([1]),
            "rest": np.array([1, 2]),
        },
    )
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("check", tmp_path / "model.onnx", "--loss", "mse")
    assert process.returncode == 1
    assert "node 'Gemm_v' (Gemm): expected matrices" in process.stdout
    assert "infer_shapes" in process.stdout
    assert mpctest.run(model, {"x": DATA["x"]}, tmp_path)["y"].shape == (4, 2)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_mended_is_written(name, tmp_path):
    flags = ("--loss", "mse", "--optimizer", "sgd", "--lr", 0.1, "--batch-size", 4)
    mpctest.train(MODELS[name], DATA, tmp_path, *flags, "--max-steps", 2)
    path = tmp_path / "trained.onnx"
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": DATA["x"]})
    expected = mpctest.run(onnx.load(path), {"x": DATA["x"]}, tmp_path)["y"]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    if name in SHAPES:
        assert is_mended(name, onnx.load(path))
        assert not is_mended(name, MODELS[name])
    else:
        with pytest.raises(Exception):
            onnxruntime.InferenceSession(
                MODELS[name].SerializeToString(), providers=["CPUExecutionProvider"]
            )


# Models that ONNX Runtime may accept before the repair.
SHAPES = (
    *("zeros", "integer", "opsets", "outputs", "constant bias"),
    *("volumes", "nearest in volumes"),
)


def test_an_opset_is_raised_where_nothing_else_changes(tmp_path):
    model = finish(
        behind_conv(
            ("Softmax", ["m"], ["s"], {}),
            ("Gelu", ["s"], ["y"], {"approximate": "tanh"}),
        ),
        WEIGHT,
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    result = mpctest.mpc("check", path)
    assert result.returncode != 0
    assert "attribute 'approximate' is one since opset 20" in result.stdout
    assert "node 'Softmax_s' (Softmax) would mean something else" in result.stdout


def is_mended(name, model):
    nodes = model.graph.node
    if name in ("zeros", "constant bias"):
        return [len(n.input) for n in nodes if n.op_type == "Conv"] == [2]
    if name == "integer":
        attributes = [a for node in nodes[2:] for a in node.attribute]
        return all(a.type == onnx.AttributeProto.INTS for a in attributes)
    if name == "opsets":
        return [opset.version for opset in model.opset_import] == [12]
    if name.endswith("volumes"):
        return [opset.version for opset in model.opset_import] == [20]
    return len(model.graph.output) == 1
