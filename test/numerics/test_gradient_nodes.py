"""Nodes that compute gradients, as ONNX Runtime's gradient builder writes them,
against mpc's own gradients of their forward ops, both in float64.

Every model has the forward op, `Gradient` of sum(y * dy) with respect to its
inputs, and the node, with `dy` as the gradient of y. mpc's own gradients are
compared with finite differences in test_gradients.py; that the two agree is
then as good.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses

import numpy as np
import pytest
from onnx import helper

import mpctest

MICROSOFT = "com.microsoft"
PREVIEW = "ai.onnx.preview.training"
TOLERANCE = 1e-12


@dataclasses.dataclass
class Case:
    """`forward` makes y (and what else it saves) of `arguments`; `backward` makes
    d_NAME for every name in `wrt` of these and of dy."""

    name: str
    arguments: dict
    forward: list
    backward: list
    wrt: list
    # What has no gradient, or is no argument of the forward op.
    constants: dict = dataclasses.field(default_factory=dict)
    opset: int = 17
    tolerance: float = TOLERANCE


def node(op, inputs, outputs, domain=None, **attributes):
    return helper.make_node(
        op, inputs, outputs, outputs[0], domain=domain, **attributes
    )


def microsoft(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, MICROSOFT, **attributes)


def normal(*shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape)


def elementwise(forward, backward, saved="x", domain=None, **attributes):
    return Case(
        backward,
        {"x": normal(3, 5)},
        [node(forward, ["x"], ["y"], domain, **attributes)],
        [microsoft(backward, ["dy", saved], ["d_x"], **attributes)],
        ["x"],
    )


def biased(forward, backward):
    return Case(
        backward,
        {"x": normal(3, 5), "b": normal(5, seed=1)},
        [microsoft(forward, ["x", "b"], ["y"])],
        [
            microsoft(backward, ["dy", "x", "b"], ["d_x"]),
            node("ReduceSum", ["d_x", "axes"], ["d_b"], keepdims=0),
        ],
        ["x", "b"],
        {"axes": np.array([0])},
    )


def layer_norm(name, axis, saved, forward="LayerNormalization", opset=17):
    shape = (3, 4, 5)
    arguments = {
        "x": normal(*shape),
        "scale": 1 + normal(*shape[axis:], seed=1) / 4,
        "b": normal(*shape[axis:], seed=2),
    }
    outputs = ["y", "mean", "inv_std"]
    wrt = ["x", "scale", "b"]
    if forward == "SimplifiedLayerNormalization":
        del arguments["b"]
        outputs, wrt = ["y", "inv_std"], ["x", "scale"]
    return Case(
        f"{name}-{axis}-{opset}",
        arguments,
        # The statistics in float64, as everything else.
        [
            node(
                forward,
                list(arguments),
                outputs,
                axis=axis,
                epsilon=1e-3,
                stash_type=11,
            )
        ],
        [
            microsoft(
                name,
                ["dy"] + saved,
                ["d_" + w for w in wrt],
                axis=axis,
                epsilon=1e-3,
                stash_type=11,
            )
        ],
        wrt,
        opset=opset,
    )


def gather(name, forward, data, indices, **attributes):
    """Each has its inputs in another order."""
    inputs = {
        "GatherGrad": ["shape", "indices", "dy"],
        "GatherElementsGrad": ["dy", "shape", "indices"],
        "GatherNDGrad": ["shape", "indices", "dy"],
    }
    return Case(
        f"{name}-{len(indices.shape)}",
        {"x": data},
        [node(forward, ["x", "indices"], ["y"], **attributes)],
        [
            node("Shape", ["x"], ["shape"]),
            microsoft(name, inputs[name], ["d_x"], **attributes),
        ],
        ["x"],
        {"indices": indices},
    )


def sliced(name, starts, ends, axes, steps):
    ranges = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    return Case(
        f"SliceGrad-{name}",
        {"x": normal(7, 6, 5)},
        [node("Slice", ["x", *ranges], ["y"])],
        [
            node("Shape", ["x"], ["shape"]),
            microsoft("SliceGrad", ["dy", "shape", *ranges], ["d_x"]),
        ],
        ["x"],
        {k: np.array(v) for k, v in ranges.items()},
    )


def conv(name, forward, x, w, **attributes):
    return Case(
        name,
        {"x": x, "w": w, "b": normal(attributes.pop("channels"), seed=2)},
        [node(forward, ["x", "w", "b"], ["y"], **attributes)],
        [
            microsoft(
                forward + "Grad",
                ["dy", "x", "w"],
                ["d_x", "d_w", "d_b"],
                **attributes,
            )
        ],
        ["x", "w", "b"],
        tolerance=1e-11,
    )


def softmax(name, forward, shape, axis, opset):
    return Case(
        f"{name}-{opset}",
        {"x": normal(*shape)},
        [node(forward, ["x"], ["y"], axis=axis)],
        [microsoft(name, ["dy", "y"], ["d_x"], axis=axis)],
        ["x"],
        opset=opset,
    )


def recurrent(name, gates, inputs, **attributes):
    """All hidden states and the last ones, side by side, are y: LSTM's or GRU's
    of 3 steps, 2 samples, 4 inputs and 5 hidden elements."""
    length, batch, width, hidden = 3, 2, 4, 5
    shapes = {
        "x": (length, batch, width),
        "w": (1, gates * hidden, width),
        "r": (1, gates * hidden, hidden),
        "b": (1, 2 * gates * hidden),
        "h0": (1, batch, hidden),
        "c0": (1, batch, hidden),
        "p": (1, 3 * hidden),
    }
    order = ["x", "w", "r", "b", "", "h0"] + ["c0", "p"] * (gates == 4)
    given = [key if key in inputs else "" for key in order]
    last = ["h"] + ["c"] * (gates == 4)
    states = [f"{key}_all" for key in last]
    outputs = [states[0], *last, *states[1:], "gates"]
    rows = {"hidden": [-1, hidden]}
    parts = [states[0], *last]
    counts = {"counts": [length * batch] + [batch] * len(last)}
    attributes["hidden_size"] = hidden
    # The shapes in which the gradients of y's parts are wanted.
    wanted = {"d_all": [length, 1, batch, hidden]}
    wanted |= {f"d_last_{key}": [1, batch, hidden] for key in last}
    wrt = [key for key in given if key]
    names = [f"d_{key}" if key else "" for key in order if key]
    wanted_names = [n if n[2:] in wrt else "" for n in names]
    return Case(
        f"{name}Grad-" + "-".join(inputs) + str(len(attributes)),
        {
            key: normal(*shapes[key], seed=i) / 2
            for i, key in enumerate(wrt)
        },
        [
            microsoft(f"{name}Training", given, outputs, **attributes),
            *(node("Reshape", [p, "hidden"], [f"{p}_rows"]) for p in parts),
            node("Concat", [f"{p}_rows" for p in parts], ["y"], axis=0),
        ],
        [
            node("Split", ["dy", "counts"], [f"{n}_rows" for n in wanted]),
            *(node("Reshape", [f"{n}_rows", f"{n}_shape"], [n]) for n in wanted),
            microsoft(
                f"{name}Grad",
                [*given, *states, "gates", *wanted],
                wanted_names,
                **attributes,
            ),
        ],
        wrt,
        {
            key: np.array(value)
            for key, value in {
                **rows,
                **counts,
                **{f"{n}_shape": shape for n, shape in wanted.items()},
            }.items()
        },
    )


CASES = [
    recurrent("LSTM", 4, ["x", "w", "r"]),
    recurrent("LSTM", 4, ["x", "w", "r", "b", "h0", "c0", "p"]),
    recurrent("GRU", 3, ["x", "w", "r"]),
    recurrent("GRU", 3, ["x", "w", "r", "b", "h0"]),
    recurrent("GRU", 3, ["x", "w", "r", "b", "h0"], linear_before_reset=1),
    elementwise("Relu", "ReluGrad", "y"),
    elementwise("Sigmoid", "SigmoidGrad", "y"),
    elementwise("Tanh", "TanhGrad", "y"),
    elementwise("LeakyRelu", "LeakyReluGrad", "y", alpha=0.25),
    elementwise("Gelu", "GeluGrad", domain=MICROSOFT),
    elementwise("FastGelu", "FastGeluGrad", domain=MICROSOFT),
    elementwise("QuickGelu", "QuickGeluGrad", domain=MICROSOFT, alpha=1.25),
    biased("BiasGelu", "BiasGeluGrad_dX"),
    biased("FastGelu", "BiasFastGeluGrad_dX"),
    Case(
        "DivGrad",
        {"x": normal(3, 5), "z": 2 + np.abs(normal(5, seed=1))},
        [node("Div", ["x", "z"], ["y"])],
        [microsoft("DivGrad", ["dy", "x", "z"], ["d_x", "d_z"])],
        ["x", "z"],
    ),
    softmax("SoftmaxGrad", "Softmax", (2, 3, 4), 1, 12),
    softmax("SoftmaxGrad_13", "Softmax", (2, 3, 4), 1, 13),
    softmax("LogSoftmaxGrad", "LogSoftmax", (2, 3, 4), 1, 12),
    softmax("LogSoftmaxGrad_13", "LogSoftmax", (2, 3, 4), 1, 13),
    layer_norm("LayerNormalizationGrad", 2, ["x", "scale", "mean", "inv_std"]),
    layer_norm("LayerNormalizationGrad", 1, ["x", "scale", "mean", "inv_std"]),
    # Before ONNX had it.
    layer_norm(
        "LayerNormalizationGrad",
        2,
        ["x", "scale", "mean", "inv_std"],
        opset=14,
    ),
    layer_norm(
        "InvertibleLayerNormalizationGrad", 2, ["y", "scale", "b", "inv_std"]
    ),
    layer_norm(
        "SimplifiedLayerNormalizationGrad",
        1,
        ["x", "scale", "inv_std"],
        "SimplifiedLayerNormalization",
    ),
    gather(
        "GatherGrad",
        "Gather",
        normal(6, 4, 3),
        np.array([[0, 2, 2], [-1, 0, 3]]),
        axis=1,
    ),
    gather("GatherGrad", "Gather", normal(6, 4), np.array(5), axis=0),
    gather(
        "GatherElementsGrad",
        "GatherElements",
        normal(4, 5),
        np.array([[0, 3, 3], [-1, 1, 0]]),
        axis=0,
    ),
    gather(
        "GatherNDGrad",
        "GatherND",
        normal(3, 4, 5),
        np.array([[[0, 1]], [[-1, 3]], [[0, 1]]]),
    ),
    gather(
        "GatherNDGrad",
        "GatherND",
        normal(2, 4, 5),
        np.array([[1], [-2]]),
        batch_dims=1,
    ),
    sliced("dense", [1, 0], [5, 4], [0, 2], [1, 1]),
    sliced("strided", [0, -1], [7, 1], [0, 1], [3, -2]),
    sliced("one", [3], [4], [1], [2]),
    conv(
        "ConvGrad",
        "Conv",
        normal(2, 4, 7, 6),
        normal(6, 2, 3, 2, seed=1),
        channels=6,
        group=2,
        strides=[2, 1],
        pads=[1, 0, 2, 1],
        dilations=[1, 2],
    ),
    conv(
        "ConvTransposeGrad",
        "ConvTranspose",
        normal(2, 4, 5, 4),
        normal(4, 3, 3, 2, seed=1),
        channels=6,
        group=2,
        strides=[2, 3],
        pads=[1, 0, 0, 1],
        dilations=[2, 1],
        output_padding=[1, 2],
    ),
    Case(
        "AveragePoolGrad",
        {"x": normal(2, 3, 6, 5)},
        [
            node(
                "AveragePool",
                ["x"],
                ["y"],
                kernel_shape=[3, 2],
                strides=[2, 1],
                pads=[1, 0, 1, 1],
            )
        ],
        [
            node(
                "AveragePoolGrad",
                ["dy"],
                ["x_grad"],
                kernel_shape=[3, 2],
                strides=[2, 1],
                pads=[1, 0, 1, 1],
            ),
            node("Identity", ["x_grad"], ["d_x"]),
        ],
        ["x"],
    ),
    Case(
        "GlobalAveragePoolGrad",
        {"x": normal(2, 3, 6, 5)},
        [node("GlobalAveragePool", ["x"], ["y"])],
        [node("GlobalAveragePoolGrad", ["dy", "x"], ["d_x"])],
        ["x"],
    ),
    Case(
        "MaxPoolGrad",
        {"x": normal(2, 3, 6, 5)},
        [
            node(
                "MaxPool",
                ["x"],
                ["y", "places"],
                kernel_shape=[3, 2],
                strides=[2, 1],
            )
        ],
        [
            microsoft(
                "MaxPoolGrad",
                ["dy", "places"],
                ["d_x"],
                kernel_shape=[3, 2],
                strides=[2, 1],
            )
        ],
        ["x"],
    ),
    Case(
        "FusedMatMul",
        {"x": normal(2, 4, 3), "w": normal(4, 5, seed=1)},
        [
            microsoft(
                "FusedMatMul", ["x", "w"], ["y"], transA=1, alpha=0.5
            )
        ],
        # d_x = 0.5 w dy^T, and d_w a sum over the batch.
        [
            microsoft(
                "FusedMatMul", ["w", "dy"], ["d_x"], transB=1, alpha=0.5
            ),
            microsoft("FusedMatMul", ["x", "dy"], ["each"], alpha=0.5),
            node("ReduceSum", ["each", "axes"], ["d_w"], keepdims=0),
        ],
        ["x", "w"],
        {"axes": np.array([0])},
    ),
    Case(
        "BatchNormalizationGrad",
        {
            "x": normal(4, 3, 2, 2),
            "scale": 1 + normal(3, seed=1) / 4,
            "b": normal(3, seed=2),
        },
        [
            microsoft(
                "BatchNormInternal",
                ["x", "scale", "b", "zeros", "ones"],
                ["y", "running_mean", "running_var", "mean", "inv_std"],
                epsilon=1e-3,
            )
        ],
        [
            microsoft(
                "BatchNormalizationGrad",
                ["dy", "x", "scale", "mean", "inv_std"],
                ["d_x", "d_scale", "d_b"],
                epsilon=1e-3,
            )
        ],
        ["x", "scale", "b"],
        {"zeros": np.zeros(3), "ones": np.ones(3)},
    ),
    # The mask is the same in both: it follows from the run's seed.
    Case(
        "DropoutGrad",
        {"x": 2 + np.abs(normal(8, 8))},
        [node("Dropout", ["x", "ratio", "training"], ["y", "mask"])],
        [
            microsoft(
                "DropoutGrad", ["dy", "mask", "ratio", "training"], ["d_x"]
            )
        ],
        ["x"],
        {"ratio": np.float64(0.5), "training": np.array(True)},
    ),
    *(
        Case(
            f"{prefix}DropoutGrad{'-biased' if biased else ''}",
            {"x": 2 + np.abs(normal(8, 8)), "b": np.abs(normal(8, seed=1))}
            | ({"r": normal(8, 8, seed=2)} if biased else {}),
            [
                microsoft(
                    f"{prefix}BiasDropout",
                    ["x", "b", "r" if biased else "", "ratio", "training"],
                    ["y", "mask"],
                )
            ],
            [
                microsoft(
                    f"{prefix}DropoutGrad",
                    ["dy", "mask", "ratio", "training"],
                    ["d_x"],
                ),
                node("ReduceSum", ["d_x", "axes"], ["d_b"], keepdims=0),
                *([node("Identity", ["dy"], ["d_r"])] if biased else []),
            ],
            ["x", "b", *(["r"] if biased else [])],
            {
                "ratio": np.float64(0.5),
                "training": np.array(True),
                "axes": np.array([0]),
            },
        )
        for prefix in ("", "Bitmask")
        for biased in (False, True)
    ),
    Case(
        "BitmaskDropoutGrad",
        {"x": 2 + np.abs(normal(8, 8))},
        [microsoft("BitmaskDropout", ["x", "ratio", "training"], ["y", "mask"])],
        [
            microsoft(
                "BitmaskDropoutGrad", ["dy", "mask", "ratio", "training"], ["d_x"]
            )
        ],
        ["x"],
        {"ratio": np.float64(0.5), "training": np.array(True)},
    ),
    # Of scores with a mask for all heads; and without a dropout.
    *(
        Case(
            f"SoftmaxDropoutGrad-{ratio}",
            {"x": normal(2, 3, 4, 5), "b": normal(2, 1, 1, 5, seed=1)},
            [
                microsoft(
                    "BiasSoftmaxDropout",
                    ["x", "b", "ratio"],
                    ["y", "mask", "softmax"],
                    axis=3,
                    is_inner_broadcast=1,
                )
            ],
            [
                microsoft(
                    "SoftmaxDropoutGrad",
                    ["dy", "mask", "softmax", "ratio"],
                    ["d_x"],
                    axis=3,
                ),
                node("ReduceSum", ["d_x", "axes"], ["d_b"]),
            ],
            ["x", "b"],
            {"ratio": np.float64(ratio), "axes": np.array([1, 2])},
        )
        for ratio in (0.25, 0.0)
    ),
    Case(
        "BiasSoftmax",
        {"x": normal(2, 3, 4), "b": normal(3, 4, seed=1)},
        [microsoft("BiasSoftmax", ["x", "b"], ["y"], axis=1, is_inner_broadcast=0)],
        [
            microsoft("SoftmaxGrad", ["dy", "y"], ["d_x"], axis=1),
            node("ReduceSum", ["d_x", "axes"], ["d_b"], keepdims=0),
        ],
        ["x", "b"],
        {"axes": np.array([0])},
    ),
    Case(
        "BatchScale",
        {"x": normal(3, 4), "b": normal(4, seed=1), "c": normal(3, 4, seed=2)},
        [
            microsoft(
                "ScaledSum", ["x", "b", "c"], ["y"], scale_0=2.0, scale_1=-0.5, scale_2=3.0
            )
        ],
        [
            microsoft(
                "BatchScale", ["dy"], ["d_x", "rows", "d_c"], scale_0=2.0, scale_1=-0.5, scale_2=3.0
            ),
            node("ReduceSum", ["rows", "axes"], ["d_b"], keepdims=0),
        ],
        ["x", "b", "c"],
        {"axes": np.array([0])},
    ),
    *(
        Case(
            f"ResizeGrad-{mode}-{coordinates}-{'scales' if named else 'extents'}",
            {"x": normal(2, 3, 4, 5)},
            [
                node(
                    "Resize",
                    ["x", "", "scales"],
                    ["y"],
                    mode=mode,
                    coordinate_transformation_mode=coordinates,
                )
            ],
            [
                microsoft(
                    "ResizeGrad",
                    ["dy", "x", "", "scales"] if named else ["dy", "x"],
                    ["d_x"],
                    mode=mode,
                    coordinate_transformation_mode=coordinates,
                )
            ],
            ["x"],
            {"scales": np.array([1, 1, 2, 1.6 if named else 2], np.float32)},
        )
        for mode, coordinates, named in (
            ("linear", "half_pixel", True),
            ("linear", "align_corners", True),
            ("linear", "half_pixel", False),
            ("nearest", "asymmetric", True),
            ("cubic", "half_pixel", False),
        )
    ),
    Case(
        "SoftmaxCrossEntropyLossGrad",
        {"x": normal(5, 4)},
        [
            node(
                "SoftmaxCrossEntropyLoss",
                ["x", "labels", "weights"],
                ["y", "log_prob"],
                ignore_index=3,
            )
        ],
        [
            microsoft(
                "SoftmaxCrossEntropyLossGrad",
                ["dy", "log_prob", "labels", "weights"],
                ["d_x"],
                ignore_index=3,
            )
        ],
        ["x"],
        {
            "labels": np.array([0, 2, 3, 1, 2]),
            "weights": np.array([0.5, 1.0, 2.0, 0.25]),
        },
    ),
    Case(
        "SoftmaxCrossEntropyLossInternalGrad",
        {"x": normal(5, 4, 2)},
        [
            microsoft(
                "SoftmaxCrossEntropyLossInternal",
                ["x", "labels", "", "ignored"],
                ["y", "log_prob"],
                reduction="none",
            )
        ],
        [
            microsoft(
                "SoftmaxCrossEntropyLossInternalGrad",
                ["dy", "log_prob", "labels", "", "ignored"],
                ["d_x"],
                reduction="none",
            )
        ],
        ["x"],
        {
            "labels": np.array([[0, 2], [3, 1], [2, 0], [1, 1], [3, 3]]),
            "ignored": np.int64(3),
        },
    ),
    Case(
        "ConcatTraining-SplitTraining",
        {"x": normal(3, 2), "z": normal(3, 4, seed=1)},
        [microsoft("ConcatTraining", ["x", "z"], ["y", "lengths"], axis=1)],
        [
            microsoft(
                "SplitTraining", ["dy", "lengths"], ["d_x", "d_z"], axis=1
            )
        ],
        ["x", "z"],
    ),
]


def run(case, nodes, inputs, outputs, folder):
    model = mpctest.make_model(
        nodes,
        {k: (v.dtype, v.shape) for k, v in inputs.items()},
        {name: (np.float64, None) for name in outputs},
        case.constants,
        case.opset,
    )
    return mpctest.run(model, inputs, folder, "--as-exported")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gradient_node_is_the_gradient_of_its_forward_op(case, tmp_path):
    # The model does not say of what shape y is: its first run does.
    y = run(case, case.forward, case.arguments, ["y"], tmp_path)["y"]
    dy = 0.5 + np.asarray(normal(*y.shape, seed=9))
    inputs = {**case.arguments, "dy": dy}
    own = ["own_" + name for name in case.wrt]
    nodes = (
        case.forward
        + [
            node("Mul", ["y", "dy"], ["terms"]),
            node("ReduceSum", ["terms"], ["sum"], keepdims=0),
            node(
                "Gradient", case.wrt, own, PREVIEW, xs=case.wrt, y="sum"
            ),
        ]
        + case.backward
    )
    given = ["d_" + name for name in case.wrt]
    found = run(case, nodes, inputs, own + given, tmp_path)
    for name in case.wrt:
        expected = found["own_" + name]
        assert expected.shape == case.arguments[name].shape
        assert np.abs(expected).max() > 1e-3, "the case tests nothing"
        np.testing.assert_allclose(
            found["d_" + name], expected, rtol=0, atol=case.tolerance
        )
