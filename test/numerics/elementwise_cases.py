"""Cases of elementwise operators, and of operators that the importer decomposes
into them.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

import reference
from case import add, apart, int64, normal, positive

# Elementwise, with and without broadcasting.
BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}
SHAPES = {
    "same": ((3, 5), (3, 5)),
    "row": ((4, 3, 5), (5,)),
    "column": ((4, 3, 5), (4, 1, 1)),
    "both": ((4, 1, 5), (3, 1)),
    "scalar": ((7,), ()),
}
for op, function in BINARY.items():
    for shape_name, (left, right) in SHAPES.items():
        right_values = positive(*right) if op == "Div" else normal(*right)
        add(
            f"{op.lower()}_{shape_name}",
            op,
            {"a": normal(*left), "b": np.asarray(right_values)},
            function,
        )

UNARY = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": reference.sigmoid,
    "Tanh": np.tanh,
    "Identity": lambda x: x,
    "Exp": np.exp,
    "Sign": np.sign,
}
for op, function in UNARY.items():
    add(op.lower(), op, {"x": apart(5, 37)}, function)
# Step functions are flat: the gradient and finite differences are zero.
UNARY_OF_SHORT = {
    "Acos": np.arccos,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Floor": np.floor,
    "Round": np.round,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Tan": np.tan,
}
for op, function in UNARY_OF_SHORT.items():
    add(op.lower(), op, {"x": apart(5, 37) / 2}, function)
add("acosh", "Acosh", {"x": positive(5, 37) + 0.75}, np.arccosh)
# Functions of one operand with ONNX's defaults: definition and first opset.
FORMULAS = {
    "Celu": (reference.celu, 17),
    "Elu": (reference.elu, 17),
    "Erf": (reference.erf, 17),
    "Gelu": (reference.gelu, 20),
    "HardSigmoid": (reference.hard_sigmoid, 17),
    "HardSwish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 17),
    "LeakyRelu": (lambda x: np.where(x < 0, 0.01 * x, x), 17),
    "Mish": (lambda x: x * np.tanh(reference.softplus(x)), 18),
    "Selu": (reference.selu, 17),
    "Softplus": (reference.softplus, 17),
    "Softsign": (lambda x: x / (1 + np.abs(x)), 17),
    "Swish": (lambda x: x * reference.sigmoid(x), 24),
    "ThresholdedRelu": (lambda x: np.where(x > 1, x, 0), 17),
}
for op, (function, opset) in FORMULAS.items():
    add(op.lower(), op, {"x": apart(5, 37)}, function, opset=opset)
# Functions with given parameters.
for name, op, function, attributes, opset in (
    ("gelu_tanh", "Gelu", reference.gelu, {"approximate": "tanh"}, 20),
    ("elu_alpha", "Elu", reference.elu, {"alpha": 0.25}, 17),
    ("celu_alpha", "Celu", reference.celu, {"alpha": 2.5}, 17),
    (
        "hard_sigmoid_steep",
        "HardSigmoid",
        reference.hard_sigmoid,
        {"alpha": 0.75, "beta": 0.25},
        17,
    ),
):
    x = {"x": apart(5, 37)}
    add(name, op, x, function, attributes=attributes, opset=opset)
# Decomposed ops.
add(
    "prelu",
    "PRelu",
    {"x": apart(4, 3, 5), "slope": normal(3, 1)},
    lambda x, slope: np.where(x < 0, slope * x, x),
)
add(
    "mean_of_three",
    "Mean",
    {"a": normal(3, 14), "b": normal(14), "c": normal(3, 1)},
    lambda a, b, c: (a + b + c) / 3,
    terms=3,
)
for name, function in {
    "ReduceL1": lambda x, **a: np.abs(x).sum(**a),
    "ReduceL2": lambda x, **a: np.sqrt((x * x).sum(**a)),
    "ReduceLogSumExp": lambda x, **a: np.log(np.exp(x).sum(**a)),
    "ReduceMin": lambda x, **a: x.min(**a),
    "ReduceSumSquare": lambda x, **a: (x * x).sum(**a),
}.items():
    for keepdims in (0, 1):
        add(
            f"{name.lower()}_{'kept' if keepdims else 'dropped'}",
            name,
            {"x": apart(4, 5, 6)},
            lambda x, axes, keepdims, f=function: f(
                x, axis=tuple(axes), keepdims=bool(keepdims)
            ),
            attributes={"axes": [0, 2], "keepdims": keepdims},
            opset=17,
            terms=24,
        )
add(
    "reducelogsum",
    "ReduceLogSum",
    {"x": positive(4, 7)},
    lambda x, axes: np.log(x.sum(axis=tuple(axes), keepdims=True)),
    attributes={"axes": [1]},
    terms=7,
)
add(
    "tile",
    "Tile",
    {"x": normal(4, 1, 3), "repeats": int64(2, 3, 1)},
    np.tile,
)
add(
    "global_max_pool",
    "GlobalMaxPool",
    {"x": apart(2, 3, 4, 5)},
    lambda x: x.max(axis=(2, 3), keepdims=True),
)
for size in (3, 4):
    add(
        f"lrn_{size}",
        "LRN",
        {"x": normal(2, 6, 3, 3)},
        reference.lrn,
        attributes={"size": size, "alpha": 0.5, "beta": 0.75, "bias": 1.5},
        terms=size,
    )
for mode in ("DCR", "CRD"):
    add(
        f"depth_to_space_{mode.lower()}",
        "DepthToSpace",
        {"x": normal(2, 12, 2, 3)},
        reference.depth_to_space,
        attributes={"blocksize": 2, "mode": mode},
    )
add(
    "space_to_depth",
    "SpaceToDepth",
    {"x": normal(2, 3, 4, 6)},
    reference.space_to_depth,
    attributes={"blocksize": 2},
)
UNARY_OF_POSITIVE = {
    "Log": np.log,
    "Reciprocal": np.reciprocal,
    "Sqrt": np.sqrt,
}
for op, function in UNARY_OF_POSITIVE.items():
    add(op.lower(), op, {"x": positive(5, 37)}, function)

add("pow", "Pow", {"a": positive(4, 5), "b": normal(5)}, np.power)
# Ops with any number of operands. No two operands are equal.
VARIADIC = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}
for op, function in VARIADIC.items():
    add(
        f"{op.lower()}_of_three",
        op,
        {
            "a": apart(3, 14),
            "b": apart(14)[::-1] + 0.005,
            "c": apart(3, 1) + 0.003,
        },
        lambda a, b, c, f=function: f(f(a, b), c),
        terms=3,
    )
add(
    "where",
    "Where",
    {
        "condition": normal(4, 1) > 0,
        "a": normal(4, 5),
        "b": np.asarray(normal()),
    },
    np.where,
    constant=("condition",),
)

add(
    "clip_both",
    "Clip",
    {"x": apart(6, 7), "low": np.array(-0.15), "high": np.array(0.21)},
    lambda x, low, high: np.clip(x, low, high),
    constant=("low", "high"),
)
add("clip_none", "Clip", {"x": apart(6, 7)}, lambda x: x)

# Values half a divisor away from the remainder's jumps.
add(
    "mod",
    "Mod",
    {"a": positive(4, 1) * np.array([0.5, -1.5, 2.5]), "b": positive(4, 1)},
    lambda a, b, fmod: np.fmod(a, b),
    attributes={"fmod": 1},
)
add(
    "mod_floor",
    "Mod",
    {
        "a": positive(4, 1, 1) * np.array([0.5, -1.5, 2.5, 0.25])[:, None],
        "b": positive(4, 1, 1) * np.array([1.0, -1.0]),
    },
    lambda a, b, fmod: np.mod(a, b),
    attributes={"fmod": 0},
    opset=28,
)
add(
    "prod",
    "ReduceProd",
    {"x": apart(4, 5, 6)},
    lambda x, axes, keepdims: x.prod(tuple(axes)),
    attributes={"axes": [0, 2], "keepdims": 0},
    terms=24,
)
# Rows with no zero, with one and with two.
add(
    "prod_zeros",
    "ReduceProd",
    {"x": np.array([[1.5, -2.0, 0.5], [3.0, 0.0, -1.25], [0.0, 2.5, 0.0]])},
    lambda x, axes, keepdims: x.prod(tuple(axes), keepdims=True),
    attributes={"axes": [1], "keepdims": 1},
    terms=3,
)
