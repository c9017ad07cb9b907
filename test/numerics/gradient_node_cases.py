"""Lists nodes that compute gradients, as ONNX Runtime's gradient builder writes
them. Each case has the forward op and inputs of both (test_gradient_nodes.py).

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
from gradient_node_case import (
    Case,
    MICROSOFT,
    aten,
    biased,
    conv,
    cross_entropy,
    elementwise,
    embedding,
    gather,
    layer_norm,
    microsoft,
    node,
    normal,
    recurrent,
    sliced,
    softmax,
    split_conv,
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
    # Microsoft's op from before ONNX had it.
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
    split_conv(
        normal(2, 4, 8, 6),
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
        # d_x = 0.5 w dy^T, and d_w is a sum over the batch.
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
    # Both nodes draw the same mask from the run's seed.
    *(
        Case(
            f"{prefix}DropoutGrad",
            {"x": 2 + np.abs(normal(8, 8))},
            [forward(f"{prefix}Dropout", ["x", "ratio", "training"], ["y", "mask"])],
            [
                microsoft(
                    f"{prefix}DropoutGrad",
                    ["dy", "mask", "ratio", "training"],
                    ["d_x"],
                )
            ],
            ["x"],
            {"ratio": np.float64(0.5), "training": np.array(True)},
        )
        for prefix, forward in (("", node), ("Bitmask", microsoft))
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
    # One mask serves all heads. There is no dropout.
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
    cross_entropy("", np.random.RandomState(1).dirichlet(np.ones(4), (5, 2))),
    cross_entropy(
        *("", np.random.RandomState(1).dirichlet(np.ones(4), (5, 2))),
        reduction="sum",
    ),
    cross_entropy("Sparse", np.arange(10).reshape(5, 2) % 4),
    cross_entropy(
        "Sparse", np.arange(10).reshape(5, 2) % 4, np.abs(normal(5, 2, seed=1))
    ),
    cross_entropy(
        *("Sparse", np.arange(10).reshape(5, 2) % 4),
        *(np.abs(normal(5, 2, seed=1)), "sum"),
    ),
    embedding(-1),
    embedding(2, "aten::"),
    Case(
        "max_pool2d_with_indices_backward",
        {"x": normal(2, 3, 8, 7)},
        [
            aten(
                "max_pool2d_with_indices",
                ["x", "kernel", "stride", "pads", "ones", "no"],
                ["y", "places"],
            )
        ],
        [
            aten(
                "max_pool2d_with_indices_backward",
                [
                    *("dy", "x", "kernel", "stride", "pads", "ones"),
                    *("no", "places"),
                ],
                ["d_x"],
            )
        ],
        ["x"],
        {
            "kernel": np.array([3, 2]),
            "stride": np.array([2, 1]),
            "pads": np.array([1, 0]),
            "ones": np.array([1, 1]),
            "no": np.bool_(False),
        },
    ),
    Case(
        "_adaptive_avg_pool2d_backward",
        {"x": normal(2, 3, 4, 5)},
        [aten("_adaptive_avg_pool2d", ["x", "size"], ["y"])],
        [aten("_adaptive_avg_pool2d_backward", ["dy", "x"], ["d_x"])],
        ["x"],
        {"size": np.array([1, 1])},
    ),
    Case(
        "numpy_T",
        {"x": normal(2, 3, 4)},
        [aten("numpy_T", ["x"], ["y"])],
        [aten("numpy_T", ["dy"], ["d_x"])],
        ["x"],
    ),
    # PassThrough returns its inputs. ZeroGradient returns zeros.
    Case(
        "PassThrough-ZeroGradient",
        {"x": normal(3, 2), "z": normal(3, 2, seed=1)},
        [
            microsoft("PassThrough", ["x", "z"], ["x1", "z1"]),
            node("Mul", ["x1", "z1"], ["y"]),
        ],
        [
            microsoft("PassThrough", ["dy", "x"], ["dy1", "x2"]),
            microsoft("ZeroGradient", ["dy1", "x"], ["zeros"]),
            node("Mul", ["dy1", "z"], ["d_x"]),
            node("Mul", ["dy1", "x2"], ["most"]),
            node("Add", ["most", "zeros"], ["d_z"]),
        ],
        ["x", "z"],
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
