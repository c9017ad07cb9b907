"""Collects all cases. Each case is one behaviour of an operator: arguments,
attributes and float64 definition. The forward and the gradient tests share the
cases.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

import assembled_cases  # noqa: F401: adds its cases
import attention_cases  # noqa: F401: adds its cases
import elementwise_cases  # noqa: F401: adds its cases
import fourier_cases  # noqa: F401: adds its cases
import grid_cases  # noqa: F401: adds its cases
import indexed_cases  # noqa: F401: adds its cases
import linear_cases  # noqa: F401: adds its cases
import reference
import sampled_cases  # noqa: F401: adds its cases
from case import CASES, Case, add, apart, int64, normal, positive

__all__ = ["CASES", "Case", "normal", "positive"]

# Contractions.
add(
    "matmul_2d",
    "MatMul",
    {"a": normal(7, 33), "b": normal(33, 5)},
    np.matmul,
    terms=33,
    contraction=1,
)
add(
    "matmul_batched",
    "MatMul",
    {"a": normal(2, 3, 4, 9), "b": normal(2, 3, 9, 5)},
    np.matmul,
    terms=9,
    contraction=1,
)
add(
    "matmul_broadcast_batch",
    "MatMul",
    {"a": normal(2, 3, 4, 9), "b": normal(9, 5)},
    np.matmul,
    terms=9,
    contraction=1,
)
add(
    "matmul_vector",
    "MatMul",
    {"a": normal(4, 9), "b": normal(9)},
    np.matmul,
    terms=9,
    contraction=1,
)
for trans_a, trans_b in ((0, 0), (0, 1), (1, 0), (1, 1)):
    add(
        f"gemm_{'nt'[trans_a]}{'nt'[trans_b]}",
        "Gemm",
        {
            "a": normal(12, 6) if trans_a else normal(6, 12),
            "b": normal(5, 12) if trans_b else normal(12, 5),
            "c": normal(5),
        },
        reference.gemm,
        attributes={"transA": trans_a, "transB": trans_b},
        terms=13,
        contraction=1,
    )
for c_name, c_shape in (
    ("scalar", ()),
    ("column", (6, 1)),
    ("matrix", (6, 5)),
    ("absent", None),
):
    arguments = {"a": normal(6, 12), "b": normal(12, 5)}
    if c_shape is not None:
        arguments["c"] = np.asarray(normal(*c_shape))
    add(
        f"gemm_c_{c_name}",
        "Gemm",
        arguments,
        reference.gemm,
        attributes={"alpha": 0.5, "beta": 2.0},
        terms=13,
        contraction=1,
    )


def add_conv(name, x, w, bias=True, **attributes):
    arguments = {"x": normal(*x), "w": normal(*w)}
    if bias:
        arguments["b"] = normal(w[0])
    attributes["kernel_shape"] = list(w[2:])

    def function(x, w, b=None, kernel_shape=None, **rest):
        return reference.conv(x, w, b, **rest)

    add(
        f"conv_{name}",
        "Conv",
        arguments,
        function,
        attributes=attributes,
        terms=int(np.prod(w[1:])) + 1,
        contraction=1,
    )




def add_conv_transpose(name, x, w, bias=True, **attributes):
    arguments = {"x": normal(*x), "w": normal(*w)}
    if bias:
        arguments["b"] = normal(w[1] * attributes.get("group", 1))
    add(
        f"conv_transpose_{name}",
        "ConvTranspose",
        arguments,
        reference.conv_transpose,
        attributes=attributes,
        terms=int(np.prod(w[2:])) * w[0],
        contraction=1,
    )


add_conv_transpose("plain", (2, 3, 4, 5), (3, 4, 3, 3))
add_conv_transpose(
    "strided", (2, 3, 4, 5), (3, 2, 2, 2), bias=False, strides=[2, 2]
)
add_conv_transpose(
    "padded",
    (1, 4, 5, 4),
    (4, 3, 3, 3),
    strides=[2, 2],
    pads=[1, 0, 1, 2],
    output_padding=[1, 0],
)
add_conv_transpose("grouped", (2, 4, 3, 3), (4, 3, 3, 2), group=2)
add_conv_transpose("dilated", (1, 2, 4, 4), (2, 3, 3, 3), dilations=[2, 1])
add_conv_transpose("1d", (2, 3, 6), (3, 2, 4), strides=[2], pads=[1, 1])
# Zeros follow the last window: one stride of them, and more.
add_conv_transpose(
    "behind",
    (2, 2, 3, 4),
    (2, 3, 4, 2),
    strides=[3, 1],
    dilations=[1, 2],
    pads=[1, 1, 1, 1],
    output_padding=[0, 1],
)
add_conv_transpose("behind_1d", (2, 3, 3), (3, 2, 2), strides=[2], output_shape=[11])
add_conv("plain", (2, 3, 6, 7), (4, 3, 3, 3))
add_conv("no_bias", (2, 3, 6, 7), (4, 3, 3, 3), bias=False, pads=[1] * 4)
add_conv("pointwise", (2, 5, 4, 4), (3, 5, 1, 1))
add_conv("strided", (2, 3, 8, 9), (4, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
add_conv("untiled", (1, 2, 8, 8), (3, 2, 3, 3), strides=[3, 3])
add_conv("asymmetric", (1, 2, 5, 6), (3, 2, 2, 3), pads=[1, 0, 2, 1])
add_conv("dilated", (1, 2, 9, 9), (3, 2, 3, 3), dilations=[2, 3])
add_conv("grouped", (2, 4, 6, 6), (6, 2, 3, 3), group=2, pads=[1] * 4)
add_conv("depthwise", (2, 4, 6, 6), (4, 1, 3, 3), group=4, pads=[1] * 4)
add_conv("1d", (2, 3, 11), (4, 3, 5), strides=[2], pads=[2, 2])
# The result, or the gradient of the input, has the shape of the packed filters:
# (3, 3, inputs, outputs), or (outputs, 3, 3, inputs).
add_conv("like_filters", (3, 5, 3, 5), (4, 5, 3, 3), pads=[1] * 4)
add_conv("input_like_filters", (4, 5, 3, 3), (4, 5, 3, 3), pads=[1] * 4)
add_conv("3d", (1, 2, 4, 5, 4), (3, 2, 2, 3, 2), pads=[0, 1, 0, 1, 1, 0])

# Pooling.
for name, attributes in (
    ("plain", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("overlapping", {"kernel_shape": [3, 3], "strides": [1, 2]}),
    (
        "padded",
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]},
    ),
    (
        "ceil",
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    ),
):
    add(
        f"max_pool_{name}",
        "MaxPool",
        {"x": apart(2, 3, 6, 8)},
        reference.max_pool,
        attributes=attributes,
    )
    for include in (0, 1):
        add(
            f"average_pool_{name}_{'with' if include else 'without'}_pad",
            "AveragePool",
            {"x": normal(2, 3, 6, 8)},
            reference.average_pool,
            attributes={**attributes, "count_include_pad": include},
            terms=9,
        )
add(
    "max_pool_dilated",
    "MaxPool",
    {"x": apart(1, 2, 7, 7)},
    reference.max_pool,
    attributes={"kernel_shape": [2, 3], "dilations": [3, 2]},
)
for name, attributes in (
    ("plain", {}),
    ("padded", {"pads": [2, 1, 1, 2], "strides": [2, 1]}),
    ("ceil", {"pads": [1, 0, 0, 1], "strides": [2, 3], "ceil_mode": 1}),
):
    for include in (0, 1):
        add(
            f"average_pool_dilated_{name}_{'with' if include else 'without'}_pad",
            "AveragePool",
            {"x": normal(2, 3, 8, 9)},
            reference.average_pool,
            attributes={
                "kernel_shape": [3, 2],
                "dilations": [2, 3],
                "count_include_pad": include,
                **attributes,
            },
            opset=19,
            terms=6,
        )
add(
    "max_unpool",
    "MaxUnpool",
    {"x": normal(2, 2, 2, 2), "indices": int64(*range(1, 64, 4)).reshape(2, 2, 2, 2)},
    reference.max_unpool,
    attributes={"kernel_shape": [2, 2], "strides": [2, 2]},
)
add(
    "max_unpool_larger",
    "MaxUnpool",
    {
        "x": normal(1, 2, 3),
        "indices": int64(0, 3, 5, 13, 9, 8).reshape(1, 2, 3),
        "shape": int64(1, 2, 9),
    },
    lambda x, indices, shape, kernel_shape, strides: reference.max_unpool(
        x, indices, kernel_shape, strides, shape=shape
    ),
    attributes={"kernel_shape": [3], "strides": [2]},
)
add(
    "global_average_pool",
    "GlobalAveragePool",
    {"x": normal(2, 3, 5, 7)},
    lambda x: x.mean((2, 3), keepdims=True),
    terms=35,
)

# Shape.
add(
    "flatten",
    "Flatten",
    {"x": normal(2, 3, 4, 5)},
    lambda x, axis: x.reshape(6, 20),
    attributes={"axis": 2},
)
add(
    "reshape",
    "Reshape",
    {"x": normal(4, 6), "shape": int64(0, 2, -1)},
    lambda x, shape: x.reshape(4, 2, 3),
)
add(
    "transpose",
    "Transpose",
    {"x": normal(2, 3, 4, 5)},
    lambda x, perm: x.transpose(perm),
    attributes={"perm": [2, 0, 3, 1]},
)
add(
    "squeeze",
    "Squeeze",
    {"x": normal(2, 1, 3, 1), "axes": int64(1, -1)},
    lambda x, axes: x.reshape(2, 3),
)
add(
    "unsqueeze",
    "Unsqueeze",
    {"x": normal(2, 3), "axes": int64(0, -1)},
    lambda x, axes: x.reshape(1, 2, 3, 1),
)
add(
    "concat",
    "Concat",
    {"a": normal(2, 3, 4), "b": normal(2, 1, 4), "c": normal(2, 2, 4)},
    lambda a, b, c, axis: np.concatenate([a, b, c], axis),
    attributes={"axis": 1},
)
# With so many operands a CPU copies them without generated code.
add(
    "concat_many",
    "Concat",
    {f"x{i}": normal(2, 1 + (i * 7) % 5, 4) for i in range(40)},
    lambda *parts, axis, **named: np.concatenate(
        [*parts, *named.values()], axis
    ),
    attributes={"axis": 1},
)
for name, start, end, step in (
    ("plain", 1, 6, 1),
    ("whole_strides", 1, 7, 3),
    ("a_last_one", 0, 7, 2),
    ("backwards", -1, -8, -1),
    ("backwards_by_three", 5, -100, -3),
):
    add(
        f"slice_{name}",
        "Slice",
        {
            "x": normal(2, 7, 3),
            "starts": int64(start),
            "ends": int64(end),
            "axes": int64(1),
            "steps": int64(step),
        },
        lambda x, starts, ends, axes, steps: x[
            :, starts[0] : ends[0] : steps[0]
        ],
        constant=("starts", "ends", "steps"),
    )
add(
    "slice_along_all_axes",
    "Slice",
    {
        "x": normal(5, 9, 37),
        "starts": int64(4, 1, 35),
        "ends": int64(-9, 8, 0),
        "axes": int64(0, 1, 2),
        "steps": int64(-2, 3, -5),
    },
    lambda x, starts, ends, axes, steps: x[4::-2, 1:8:3, 35:0:-5],
    constant=("starts", "ends", "steps"),
)
add(
    "pad",
    "Pad",
    {"x": normal(2, 3, 4), "pads": int64(0, 1, 2, 1, 0, 3)},
    lambda x, pads: np.pad(x, list(zip(pads[:3], pads[3:]))),
    constant=("pads",),
)
add(
    "pad_and_cut",
    "Pad",
    {"x": normal(2, 3, 4), "pads": int64(1, -1, 0, 0, 2, -2)},
    lambda x, pads: np.pad(x[:, 1:, :2], [(1, 0), (0, 2), (0, 0)]),
    constant=("pads",),
)

# Powers that become products and roots, and others.
for exponent in (2.0, 3.0, -1.0, 0.5, -0.5, 1.5, 1.0, 0.0, 2.7, 2, 3):
    add(
        f"pow_{exponent}",
        "Pow",
        {"x": positive(3, 17), "exponent": np.array(exponent)},
        lambda x, exponent: x ** float(exponent),
        constant=("exponent",),
    )

# LLVM has special functions for constant bases, such as exp2.
for base in (2.0, 4.0, 0.5, 10.0, 2.718281828, 1.0):
    add(
        f"pow_of_{base}",
        "Pow",
        {"base": np.array(base), "x": normal(3, 17)},
        lambda base, x: float(base) ** x,
        constant=("base",),
    )

add(
    "expand",
    "Expand",
    {"x": normal(3, 1), "shape": int64(2, 1, 4)},
    lambda x, shape: np.broadcast_to(x, (2, 3, 4)),
)

# Reductions.
add(
    "max_rows",
    "ReduceMax",
    {"x": apart(4, 5, 6)},
    lambda x, axes, keepdims: x.max(tuple(axes)),
    attributes={"axes": [0, 2], "keepdims": 0},
)
for op, function in (("ReduceSum", np.sum), ("ReduceMean", np.mean)):
    opset = 13 if op == "ReduceSum" else 18
    for name, axes, keep in (
        ("all", (0, 1, 2), 0),
        ("rows", (2,), 1),
        ("columns", (0,), 0),
        ("outer_and_inner", (0, -1), 1),
    ):
        add(
            f"{op[6:].lower()}_{name}",
            op,
            {"x": normal(6, 5, 70), "axes": int64(*axes)},
            lambda x, axes, keepdims, f=function: f(
                x, tuple(axes), keepdims=bool(keepdims)
            ),
            attributes={"keepdims": keep},
            opset=opset,
            terms=6 * 5 * 70,
        )

# Softmax and losses.
for axis in (-1, 1, 0):
    add(
        f"softmax_axis_{axis}",
        "Softmax",
        {"x": normal(3, 11, 4)},
        reference.softmax,
        attributes={"axis": axis},
        terms=11,
    )
    add(
        f"log_softmax_axis_{axis}",
        "LogSoftmax",
        {"x": normal(3, 11, 4)},
        reference.log_softmax,
        attributes={"axis": axis},
        terms=11,
    )
LABELS = np.array([3, 0, 2, 2, 4, 1], np.int64)
LABELS_2D = np.arange(12, dtype=np.int64).reshape(3, 4) % 5
for op, function in (
    ("SoftmaxCrossEntropyLoss", reference.softmax_cross_entropy),
    ("NegativeLogLikelihoodLoss", reference.nll_loss),
):
    short = "sce" if op.startswith("Softmax") else "nll"
    for reduction in ("mean", "sum", "none"):
        add(
            f"{short}_{reduction}",
            op,
            {"scores": normal(6, 5), "labels": LABELS},
            function,
            attributes={"reduction": reduction},
            terms=30,
        )
    add(
        f"{short}_weighted_ignoring",
        op,
        {"scores": normal(6, 5), "labels": LABELS, "weight": positive(5)},
        function,
        attributes={"reduction": "mean", "ignore_index": 2},
        terms=30,
        constant=("weight",),
    )
    add(
        f"{short}_spatial",
        op,
        {"scores": normal(3, 5, 4), "labels": LABELS_2D},
        function,
        attributes={"reduction": "mean"},
        terms=60,
    )

# Normalisation with the running statistics. The gradient tests cover training
# mode.
add(
    "batch_norm",
    "BatchNormalization",
    {
        "x": normal(4, 3, 5, 5),
        "scale": positive(3),
        "bias": normal(3),
        "mean": normal(3),
        "var": positive(3),
    },
    reference.batch_norm,
    attributes={"epsilon": 1e-3},
    terms=4,
    gradient=False,
)
