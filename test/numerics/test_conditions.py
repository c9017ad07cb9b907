"""Conditions on data compute the results and gradients of both branches. The
untaken branch affects neither.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from onnx import helper

from reference import sigmoid
from test_loops import LoopCase, check_gradients, node, normal, value


def branch(name, nodes, outputs):
    return helper.make_graph(nodes, name, [], [value(o) for o in outputs])


def positive(name, of):
    """Returns nodes: `name` is true if the sum of `of` is above 0."""
    return [
        node("ReduceSum", [of], [f"{name}_sum"], keepdims=0),
        node("Greater", [f"{name}_sum", "zero"], [name]),
    ]


ZERO = {"zero": np.array(0.0)}
CASES = {}


def weights_of_one_branch(sign):
    """Each branch has a weight of its own, and both share a third."""
    then = branch(
        "then",
        [
            node("MatMul", ["x", "U"], ["a"]),
            node("Tanh", ["a"], ["b"]),
            node("Mul", ["b", "s"], ["then_y"]),
        ],
        ["then_y"],
    )
    otherwise = branch(
        "otherwise",
        [
            node("MatMul", ["x", "V"], ["c"]),
            node("Sigmoid", ["c"], ["d"]),
            node("Mul", ["d", "s"], ["else_y"]),
        ],
        ["else_y"],
    )

    def reference(x, U, V, s):
        return np.tanh(x @ U) * s if x.sum() > 0 else sigmoid(x @ V) * s

    x = normal(4, 5)
    return LoopCase(
        positive("c", "x")
        + [node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)],
        {
            "x": x - x.mean() + 0.1 * sign,
            "U": normal(5, 3, seed=1),
            "V": normal(5, 3, seed=2),
            "s": normal(3, seed=3),
        },
        reference,
        ZERO,
    )


CASES["taken"] = weights_of_one_branch(1)
CASES["not_taken"] = weights_of_one_branch(-1)


def infinite_slope():
    """The untaken branch has an infinite value and an infinite slope."""
    then = branch(
        "then",
        [
            node("Sub", ["x", "x"], ["none"]),
            node("Sqrt", ["none"], ["root"]),
            node("Div", ["x", "root"], ["then_y"]),
        ],
        ["then_y"],
    )
    otherwise = branch("otherwise", [node("Mul", ["x", "x"], ["else_y"])], ["else_y"])
    return LoopCase(
        positive("c", "x")
        + [node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)],
        {"x": -np.abs(normal(6))},
        lambda x: x * x,
        ZERO,
    )


CASES["infinite_slope"] = infinite_slope()


def several_outputs():
    """Results are captured values, constants, or one value twice. A branch
    contains a condition."""
    inner_then = branch("inner_then", [node("Exp", ["w"], ["it"])], ["it"])
    inner_else = branch("inner_else", [node("Neg", ["w"], ["ie"])], ["ie"])
    then = branch(
        "then",
        positive("inner", "w")
        + [
            node("If", ["inner"], ["p"], then_branch=inner_then, else_branch=inner_else),
            node("Identity", ["x"], ["q"]),
        ],
        ["p", "q"],
    )
    otherwise = branch(
        "otherwise",
        [node("Mul", ["x", "w"], ["r"]), node("Identity", ["r"], ["s"])],
        ["r", "s"],
    )

    def reference(x, w):
        if x.sum() > 0:
            return (np.exp(w) if w.sum() > 0 else -w) + x
        return 2 * x * w

    return LoopCase(
        positive("c", "x")
        + [
            node("If", ["c"], ["u", "v"], then_branch=then, else_branch=otherwise),
            node("Add", ["u", "v"], ["y"]),
        ],
        {"x": np.abs(normal(5)), "w": -np.abs(normal(5, seed=4))},
        reference,
        ZERO,
    )


CASES["several_outputs"] = several_outputs()


def within_a_loop():
    """A recurrence's state takes another step after it grew too large."""
    then = branch("then", [node("MatMul", ["h", "U"], ["t"])], ["t"])
    otherwise = branch(
        "otherwise", [node("MatMul", ["h", "V"], ["m"]), node("Tanh", ["m"], ["e"])], ["e"]
    )
    body = helper.make_graph(
        positive("c", "h")
        + [
            node("If", ["c"], ["chosen"], then_branch=then, else_branch=otherwise),
            node("Add", ["chosen", "x"], ["h1"]),
            node("Identity", ["h1"], ["part"]),
        ],
        "body",
        [value("h", [2, 3]), value("x", [2, 3])],
        [value("h1"), value("part")],
    )

    def reference(h0, X, U, V):
        h, parts = h0, []
        for x in X:
            h = (h @ U if h.sum() > 0 else np.tanh(h @ V)) + x
            parts.append(h)
        return np.array(parts)

    return LoopCase(
        [node("Scan", ["h0", "X"], ["last", "y"], body=body, num_scan_inputs=1)],
        {
            "h0": normal(2, 3),
            "X": normal(7, 2, 3, seed=5),
            "U": normal(3, 3, seed=6, scale=0.5),
            "V": normal(3, 3, seed=7, scale=0.5),
        },
        reference,
        ZERO,
    )


CASES["within_a_loop"] = within_a_loop()


def loop_within():
    """A branch contains a loop."""
    body = helper.make_graph(
        [
            node("Mul", ["h", "w"], ["m"]),
            node("Add", ["m", "x"], ["h1"]),
            node("Tanh", ["h1"], ["part"]),
        ],
        "body",
        [value("h", [3]), value("x", [3])],
        [value("h1"), value("part")],
    )
    then = branch(
        "then",
        [node("Scan", ["h0", "X"], ["last", "t"], body=body, num_scan_inputs=1)],
        ["t"],
    )
    otherwise = branch("otherwise", [node("Mul", ["X", "w"], ["e"])], ["e"])

    def reference(h0, X, w):
        h, parts = h0, []
        for x in X:
            h = h * w + x
            parts.append(np.tanh(h))
        return np.array(parts)

    return LoopCase(
        positive("c", "w")
        + [node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)],
        {"h0": normal(3), "X": normal(4, 3), "w": np.abs(normal(3, seed=1))},
        reference,
        ZERO,
    )


CASES["loop_within"] = loop_within()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_conditions_follow_finite_differences(name, threads, tmp_path):
    assert check_gradients(CASES[name], threads, tmp_path)
