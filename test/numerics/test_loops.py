"""Loops match NumPy loops in results, and central finite differences in
gradients, both in float64.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest
import reference
from reference import sigmoid

STEP = 2.0**-17
TOLERANCE = 1e-7


def value(name, shape=None, dtype=TensorProto.DOUBLE):
    return helper.make_tensor_value_info(name, dtype, shape)


def normal(*shape, seed=0, scale=1.0):
    return np.random.RandomState(seed + sum(shape)).randn(*shape) * scale


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, "_".join(outputs), **attributes)


class LoopCase:
    """A model with `nodes` from `parameters` to y, and its equivalent in NumPy."""

    def __init__(self, nodes, parameters, reference, initializers=None, opset=17):
        self.nodes, self.parameters = nodes, parameters
        self.reference = reference
        self.initializers = initializers or {}
        self.opset = opset

    def model(self, direction):
        nodes = self.nodes + [
            node("Mul", ["y", "direction"], ["terms"]),
            node("ReduceSum", ["terms"], ["loss"], keepdims=0),
        ]
        return mpctest.make_model(
            nodes,
            {"direction": (np.float64, ["N", *direction.shape])},
            {"loss": (np.float64, []), "y": (np.float64, None)},
            {**self.parameters, **self.initializers},
            self.opset,
        )


def cell(carried, scanned, nodes, outputs):
    """Returns a body, given inputs by name and shape, and the names of outputs."""
    inputs = [value(n, s) for n, s in {**carried, **scanned}.items()]
    return helper.make_graph(nodes, "body", inputs, [value(n) for n in outputs])


CASES = {}


def elman(reverse_input, reverse_output):
    """h' = tanh(h W + x), with W from outside. y stacks h' and its square."""
    body = cell(
        {"h": [3, 5]},
        {"x": [3, 5]},
        [
            node("MatMul", ["h", "W"], ["m"]),
            node("Add", ["m", "x"], ["s"]),
            node("Tanh", ["s"], ["h1"]),
            node("Mul", ["h1", "h1"], ["square"]),
        ],
        ["h1", "square"],
    )

    def reference(h0, X, W):
        h, length = h0, len(X)
        parts = [None] * length
        for i in range(length):
            h = np.tanh(h @ W + X[length - 1 - i if reverse_input else i])
            parts[length - 1 - i if reverse_output else i] = h * h
        return np.concatenate([h[None], np.array(parts)])

    return LoopCase(
        [
            node(
                "Scan",
                ["h0", "X"],
                ["last", "squares"],
                body=body,
                num_scan_inputs=1,
                scan_input_directions=[int(reverse_input)],
                scan_output_directions=[int(reverse_output)],
            ),
            node("Unsqueeze", ["last", "axis"], ["last1"]),
            node("Concat", ["last1", "squares"], ["y"], axis=0),
        ],
        {
            "h0": normal(3, 5),
            "X": normal(7, 3, 5),
            "W": normal(5, 5, scale=0.4),
        },
        reference,
        {"axis": np.array([0])},
    )


for reverse_input in (False, True):
    for reverse_output in (False, True):
        CASES[f"elman_{reverse_input:d}{reverse_output:d}"] = elman(
            reverse_input, reverse_output
        )


def swap():
    """Two carried values are swapped, and one of them is scaled. The old values
    are stacked."""
    body = cell(
        {"a": [4], "b": [4]},
        {"x": [4]},
        [
            node("Mul", ["b", "x"], ["c"]),
            node("Identity", ["a"], ["a1"]),
            node("Identity", ["a"], ["stack"]),
        ],
        ["c", "a1", "stack"],
    )

    def reference(a, b, X):
        stack = []
        for x in X:
            stack.append(a)
            a, b = b * x, a
        return np.array([a, b, *stack])

    return LoopCase(
        [
            node(
                "Scan",
                ["a0", "b0", "X"],
                ["a9", "b9", "stacked"],
                body=body,
                num_scan_inputs=1,
            ),
            node("Unsqueeze", ["a9", "axis"], ["a10"]),
            node("Unsqueeze", ["b9", "axis"], ["b10"]),
            node("Concat", ["a10", "b10", "stacked"], ["y"], axis=0),
        ],
        {"a0": normal(4), "b0": normal(4, seed=1), "X": normal(5, 4)},
        lambda a0, b0, X: reference(a0, b0, X),
        {"axis": np.array([0])},
    )


CASES["swap"] = swap()


def axes():
    """Slices come along the last axis and are stacked along axis 1. The loop
    carries no value."""
    body = cell({}, {"x": [3, 2]}, [node("Exp", ["x"], ["e"])], ["e"])
    return LoopCase(
        [
            node(
                "Scan",
                ["X"],
                ["y"],
                body=body,
                num_scan_inputs=1,
                scan_input_axes=[-1],
                scan_output_axes=[1],
            )
        ],
        {"X": normal(3, 2, 6)},
        lambda X: np.exp(np.moveaxis(X, -1, 1)),
    )


CASES["axes"] = axes()


def scan_of_samples(lengths=()):
    """Scans samples of axis 0 in opset 8, each from its end."""
    body = cell(
        {"h": [4]},
        {"x": [4]},
        [
            node("MatMul", ["h", "W"], ["m"]),
            node("Add", ["m", "x"], ["s"]),
            node("Tanh", ["s"], ["h1"]),
            node("Mul", ["h1", "h1"], ["square"]),
        ],
        ["h1", "square"],
    )

    def reference(h0, X, W):
        samples = []
        for h, x in zip(h0, X):
            squares = []
            for part in x[::-1]:
                h = np.tanh(h @ W + part)
                squares.append(h * h)
            samples.append([h, *squares])
        return np.array(samples)

    return LoopCase(
        [
            node(
                "Scan",
                ["lengths" if lengths else "", "h0", "X"],
                ["last", "squares"],
                body=body,
                num_scan_inputs=1,
                directions=[1],
            ),
            node("Unsqueeze", ["last"], ["last1"], axes=[1]),
            node("Concat", ["last1", "squares"], ["y"], axis=1),
        ],
        {
            "h0": normal(3, 4),
            "X": normal(3, 6, 4),
            "W": normal(4, 4, scale=0.4),
        },
        reference,
        {"lengths": np.array(lengths)} if lengths else {},
        opset=8,
    )


CASES["scan_of_samples"] = scan_of_samples()
CASES["scan_of_samples_with_lengths"] = scan_of_samples([6, 6, 6])


def counted():
    """The Loop's body reads the iteration number and a weight."""
    body = helper.make_graph(
        [
            node("Cast", ["i"], ["fi"], to=TensorProto.DOUBLE),
            node("Mul", ["fi", "X"], ["p"]),
            node("Mul", ["acc", "X"], ["q"]),
            node("Add", ["q", "p"], ["acc1"]),
            node("Identity", ["go"], ["go1"]),
            node("Sigmoid", ["acc1"], ["part"]),
        ],
        "body",
        [
            value("i", [], TensorProto.INT64),
            value("go", [], TensorProto.BOOL),
            value("acc", [4]),
        ],
        [value("go1", [], TensorProto.BOOL), value("acc1"), value("part")],
    )

    def reference(a0, X):
        parts = []
        for i in range(6):
            a0 = a0 * X + i * X
            parts.append(1 / (1 + np.exp(-a0)))
        return np.array([*parts, a0])

    return LoopCase(
        [
            node("Loop", ["M", "", "a0"], ["a", "parts"], body=body),
            node("Unsqueeze", ["a", "axis"], ["a1"]),
            node("Concat", ["parts", "a1"], ["y"], axis=0),
        ],
        {"a0": normal(4), "X": normal(4, seed=1, scale=0.5)},
        reference,
        {"axis": np.array([0]), "M": np.array(6)},
    )


CASES["counted"] = counted()


def nested():
    """The inner of two loops reads the outer loop's carried value and slice,
    and a weight of the model."""
    inner = cell(
        {"u": [3]},
        {"z": [3]},
        [
            node("Mul", ["u", "h"], ["uh"]),
            node("Mul", ["z", "W"], ["zw"]),
            node("Add", ["uh", "zw"], ["s"]),
            node("Tanh", ["s"], ["u1"]),
        ],
        ["u1", "s"],
    )
    outer = cell(
        {"h": [3]},
        {"x": [4, 3]},
        [
            node(
                "Scan", ["h", "x"], ["u4", "ss"], body=inner, num_scan_inputs=1
            ),
            node("Identity", ["u4"], ["h1"]),
        ],
        ["h1", "ss"],
    )

    def reference(h0, X, W):
        h, stack = h0, []
        for x in X:
            u, parts = h, []
            for z in x:
                s = u * h + z * W
                parts.append(s)
                u = np.tanh(s)
            h = u
            stack.append(parts)
        return np.array(stack) + h

    return LoopCase(
        [
            node("Scan", ["h0", "X"], ["h9", "all"], body=outer, num_scan_inputs=1),
            node("Add", ["all", "h9"], ["y"]),
        ],
        {"h0": normal(3), "X": normal(5, 4, 3), "W": normal(3, seed=2)},
        reference,
    )


CASES["nested"] = nested()


def lstm_cell(x, h, c, R, P):
    i, o, f, g = np.split(x + h @ R.T, 4, axis=-1)
    pi, po, pf = np.split(P, 3)
    i, f = sigmoid(i + pi * c), sigmoid(f + pf * c)
    c = f * c + i * np.tanh(g)
    return sigmoid(o + po * c) * np.tanh(c), c


def lstm(X, W, R, B, P, H0, C0, lengths):
    """Computes both directions of an LSTM. Padding steps give zeros."""
    length, batch, _ = X.shape
    result = np.zeros((length, 2, batch, H0.shape[-1]))
    for d in range(2):
        x = X @ W[d].T + B[d].reshape(2, -1).sum(0)
        h, c = H0[d], C0[d]
        for t in range(length)[:: -1 if d else 1]:
            new_h, new_c = lstm_cell(x[t], h, c, R[d], P[d])
            real = (t < lengths)[:, None]
            h, c = np.where(real, new_h, h), np.where(real, new_c, c)
            result[t, d] = np.where(real, new_h, 0)
    return result


def rnn(X, W, R):
    h, result = np.zeros((X.shape[1], R.shape[-1])), []
    for part in (X @ W[0].T)[::-1]:
        h = np.maximum(part + h @ R[0].T, 0)
        result.append(h[None])
    return np.array(result[::-1])


LENGTHS = np.array([5, 2, 3], np.int32)
CASES["lstm"] = LoopCase(
    [
        node(
            "LSTM",
            ["X", "W", "R", "B", "lengths", "H0", "C0", "P"],
            ["y"],
            direction="bidirectional",
            hidden_size=4,
        )
    ],
    {
        "X": normal(5, 3, 2),
        "W": normal(2, 16, 2),
        "R": normal(2, 16, 4, scale=0.5),
        "B": normal(2, 32),
        "H0": normal(2, 3, 4),
        "C0": normal(2, 3, 4, seed=1),
        "P": normal(2, 12),
    },
    lambda X, W, R, B, H0, C0, P: lstm(X, W, R, B, P, H0, C0, LENGTHS),
    {"lengths": LENGTHS},
)
for linear in (0, 1):
    CASES[f"gru_{linear}"] = LoopCase(
        [
            node(
                "GRU",
                ["X", "W", "R", "B"],
                ["y"],
                hidden_size=4,
                linear_before_reset=linear,
            )
        ],
        {
            "X": normal(5, 3, 2),
            "W": normal(1, 12, 2),
            "R": normal(1, 12, 4, scale=0.5),
            "B": normal(1, 24),
        },
        lambda X, W, R, B, linear=linear: reference.gru(X, W, R, B, linear),
    )
CASES["rnn"] = LoopCase(
    [
        node(
            "RNN",
            ["X", "W", "R"],
            ["y"],
            hidden_size=4,
            direction="reverse",
            activations=["Relu"],
        )
    ],
    {"X": normal(5, 3, 2), "W": normal(1, 4, 2), "R": normal(1, 4, 4)},
    rnn,
)


def check_gradients(case, threads, tmp_path):
    """Compares gradients with differences. Returns the parts of the parameters
    that affect the loss."""
    y = case.reference(**case.parameters)
    direction = normal(*y.shape, seed=7)
    _, weights = mpctest.train(
        case.model(direction),
        {"direction": direction[None]},
        tmp_path,
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1"),
        *("--batch-size", "1", "--max-steps", "1"),
        *("--train", f"^({'|'.join(case.parameters)})$"),
        *("--precision", "64-true", "--threads", str(threads)),
    )
    reached = set()
    for parameter, start in case.parameters.items():
        found = start - weights[parameter]
        expected = np.zeros_like(start)
        for index in np.ndindex(*start.shape):
            ends = []
            for offset in (STEP, -STEP):
                moved = {k: v.copy() for k, v in case.parameters.items()}
                moved[parameter][index] += offset
                ends.append((case.reference(**moved) * direction).sum())
            expected[index] = (ends[0] - ends[1]) / (2 * STEP)
        scale = np.abs(direction).sum()
        assert np.abs(found - expected).max() <= TOLERANCE * scale, parameter
        if np.abs(expected).max() > 0:
            reached.add(parameter)
    return reached


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", [1, 3])
def test_scans_follow_finite_differences(name, threads, tmp_path):
    reached = check_gradients(CASES[name], threads, tmp_path)
    assert reached == set(CASES[name].parameters), "a parameter does not matter"


def test_samples_of_several_lengths_are_refused(tmp_path):
    case = scan_of_samples([6, 2, 6])
    onnx.save(case.model(normal(3, 7, 4)), tmp_path / "model.onnx")
    process = mpctest.mpc(
        *("compile", tmp_path / "model.onnx", "--batch-size", 1),
        *("--emit=import", "--as-exported"),
    )
    assert process.returncode == 4, process.stderr
    assert "expected sequences of 6 elements, found one of" in process.stderr
