"""Makes random networks with their function in float64.

Each seed makes a graph of up to a dozen operators over N x C x H x W values. It
has residual and concatenated branches, loops, conditions, views, masks, norms,
attention, integers and values used more than once, and ends in a linear layer.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
from onnx import helper

import mpctest
import reference
from random_layers import Layers


def rounded(values, unit):
    if np.asarray(values).dtype.kind != "f":
        return values
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa / unit) * unit, exponent)


class RandomGraph(Layers):
    """Holds nodes, parameters, and the float64 function that they compute."""

    KINDS = ["activation", "conv", "scale", "binary", "concat", "pool"]
    KINDS += ["scan", "recurrent", "gather", "slice", "transpose", "where"]
    KINDS += ["condition", "cumsum", "reverse", *Layers.KINDS]

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.nodes, self.parameters, self.constants = [], {}, {}
        self.functions, self.more_inputs, self.opset = {}, {}, 17
        self.shape = {"x": self.draw_input()}
        for _ in range(self.random.randint(4, 12)):
            self.add_layer()
        self.add_head()

    def draw_input(self):
        return (2, 3, 6, 6)

    def node(self, op, inputs, shape, function, **attributes):
        name = f"n{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op, inputs, [name], f"{op}_{name}", **attributes)
        )
        self.functions[name] = (function, inputs)
        self.shape[name] = shape
        return name

    def parameter(self, *shape):
        name = f"p{len(self.parameters)}"
        fan_in = int(np.prod(shape[1:])) or 1
        values = self.random.standard_normal(shape) / np.sqrt(fan_in)
        self.parameters[name] = values
        return name

    def pick(self, fits=lambda shape: True):
        names = [n for n, shape in self.shape.items() if fits(shape)]
        return names[self.random.randint(len(names))] if names else None

    def add_layer(self):
        kind = self.KINDS[self.random.randint(len(self.KINDS))]
        # Prefer later values, so that graphs are deep.
        x = list(self.shape)[-1] if self.random.rand() < 0.6 else self.pick()
        getattr(self, "add_" + kind)(x)

    def add_activation(self, x):
        op, function = [
            ("Sigmoid", reference.sigmoid),
            ("Tanh", np.tanh),
            ("Relu", lambda v: np.maximum(v, 0)),
            ("Neg", np.negative),
            ("Softplus", lambda v: np.logaddexp(v, 0)),
            ("Elu", lambda v: np.where(v < 0, np.expm1(np.minimum(v, 0)), v)),
        ][self.random.randint(6)]
        self.node(op, [x], self.shape[x], function)

    def add_conv(self, x):
        n, c, h, w = self.shape[x]
        filters, k = self.random.randint(1, 6), [1, 3][self.random.randint(2)]
        inputs = [x, self.parameter(filters, c, k, k)]
        if self.random.rand() < 0.5:
            inputs.append(self.parameter(filters))
        pads = [k // 2] * 4
        self.node(
            "Conv",
            inputs,
            (n, filters, h, w),
            lambda *v: reference.conv(*v, pads=pads),
            kernel_shape=[k, k],
            pads=pads,
        )

    def add_scale(self, x):
        factor = self.parameter(self.shape[x][1], 1, 1)
        self.node("Mul", [x, factor], self.shape[x], np.multiply)

    def add_binary(self, x):
        y = self.pick(lambda shape: shape == self.shape[x])
        op, function = [
            ("Add", np.add),
            ("Sub", np.subtract),
            ("Mul", np.multiply),
        ][self.random.randint(3)]
        self.node(op, [x, y], self.shape[x], function)

    def add_concat(self, x):
        n, c, h, w = self.shape[x]
        y = self.pick(lambda shape: shape[2:] == (h, w))
        if c + self.shape[y][1] > 12:
            return
        self.node(
            "Concat",
            [x, y],
            (n, c + self.shape[y][1], h, w),
            lambda a, b: np.concatenate([a, b], 1),
            axis=1,
        )

    def add_pool(self, x):
        n, c, h, w = self.shape[x]
        # Views may make long rows, and columns of one element.
        if h < 4 or w < 2:
            return
        op, function = [
            ("AveragePool", reference.average_pool),
            ("MaxPool", reference.max_pool),
        ][self.random.randint(2)]
        window = {"kernel_shape": [2, 2], "strides": [2, 2]}
        self.node(
            op,
            [x],
            (n, c, h // 2, w // 2),
            lambda v: function(v, **window),
            **window,
        )

    def add_scan(self, x):
        """Scans rows with a state h = tanh(a * h + row), where `a` comes from
        outside the loop. Every h is a row of the result."""
        n, c, h, w = self.shape[x]
        start, factor = self.parameter(n, c, w), self.parameter(c, 1)
        backwards, turned = self.random.randint(2, size=2)
        part = helper.make_tensor_value_info
        body = helper.make_graph(
            [
                helper.make_node("Mul", ["state", factor], ["kept"]),
                helper.make_node("Add", ["kept", "row"], ["sum"]),
                helper.make_node("Tanh", ["sum"], ["next"]),
                helper.make_node("Identity", ["next"], ["out"]),
            ],
            "body",
            [part("state", 0, None), part("row", 0, None)],
            [part("next", 0, None), part("out", 0, None)],
        )

        def function(state, values, a):
            rows = [None] * h
            for i in range(h):
                row = values[:, :, h - 1 - i if backwards else i]
                state = np.tanh(a * state + row)
                rows[h - 1 - i if turned else i] = state
            return np.stack(rows, 2)

        name = self.node(
            *("Scan", [start, x, factor], self.shape[x], function),
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[2],
            scan_output_axes=[2],
            scan_input_directions=[int(backwards)],
            scan_output_directions=[int(turned)],
        )
        # The body captures the factor.
        del self.nodes[-1].input[2]
        self.nodes[-1].output[:] = [name + "_last", name]

    def add_recurrent(self, x):
        """Adds a GRU over the rows, for each sample."""
        n, c, h, w = self.shape[x]
        rows = self.node(
            *("Transpose", [x], (h, n, c, w)),
            lambda v: v.transpose(2, 0, 1, 3),
            perm=[2, 0, 1, 3],
        )
        steps = self.reshape(rows, (h, n, c * w))
        inputs = [self.parameter(1, 3 * c * w, c * w) for _ in range(2)]
        states = self.node(
            *("GRU", [steps, *inputs], (h, 1, n, c * w), reference.gru),
            hidden_size=c * w,
        )
        states = self.reshape(states, (h, n, c, w))
        self.node(
            *("Transpose", [states], (n, c, h, w)),
            lambda v: v.transpose(1, 2, 0, 3),
            perm=[1, 2, 0, 3],
        )
        for name in (rows, steps, states, self.nodes[-3].output[0]):
            self.shape.pop(name, None)

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def reshape(self, x, shape):
        target = self.constant(np.array(shape))
        return self.node(
            "Reshape", [x, target], shape, lambda v, s: v.reshape(s)
        )

    def add_gather(self, x):
        n, c, h, w = self.shape[x]
        count = self.random.randint(1, 6)
        indices = self.constant(self.random.randint(-c, c, count))
        self.node(
            *("Gather", [x, indices], (n, count, h, w)),
            lambda v, i: np.take(v, i, axis=1),
            axis=1,
        )

    def add_slice(self, x):
        n, c, h, w = self.shape[x]
        begin = self.random.randint(c)
        bounds = [np.array([v]) for v in (begin, c, 1)]
        self.node(
            "Slice",
            [x, *map(self.constant, bounds)],
            (n, c - begin, h, w),
            lambda v, begin, *_: v[:, begin[0] :],
        )

    def add_transpose(self, x):
        n, c, h, w = self.shape[x]
        self.node(
            *("Transpose", [x], (n, c, w, h)),
            lambda v: v.transpose(0, 1, 3, 2),
            perm=[0, 1, 3, 2],
        )

    def add_where(self, x):
        """Selects the value of larger magnitude, by way of booleans."""
        y = self.pick(lambda shape: shape == self.shape[x])
        shape = self.shape[x]
        a = self.node("Abs", [x], shape, np.abs)
        b = self.node("Abs", [y], shape, np.abs)
        mask = self.node("Less", [a, b], shape, np.less)
        del self.shape[mask]
        self.node("Where", [mask, y, x], shape, np.where)

    def add_condition(self, x):
        """Applies another scale and another function for each sign of the
        input's sum. The sum is far from 0 and exact enough in any precision."""
        factors = [self.parameter(self.shape[x][1], 1, 1) for _ in range(2)]
        functions = {"Tanh": np.tanh, "Sigmoid": reference.sigmoid}
        branches = []
        for op, factor in zip(functions, factors):
            output = helper.make_tensor_value_info(f"{op}_y", 0, None)
            nodes = [
                helper.make_node("Mul", [x, factor], [f"{op}_m"]),
                helper.make_node(op, [f"{op}_m"], [f"{op}_y"]),
            ]
            branches.append(helper.make_graph(nodes, op, [], [output]))
        total = self.node("ReduceSum", ["x"], (), np.sum, keepdims=0)
        number = self.constant(np.array(0, np.int64))
        zero = self.node("CastLike", [number, total], (), lambda v, _: v)
        holds = self.node("Greater", [total, zero], (), np.greater)
        for name in (total, zero, holds):
            del self.shape[name]

        def function(condition, value, *scales):
            chosen = 0 if condition else 1
            return list(functions.values())[chosen](value * scales[chosen])

        self.node(
            *("If", [holds, x, *factors], self.shape[x], function),
            then_branch=branches[0],
            else_branch=branches[1],
        )
        # The branches capture the other inputs.
        del self.nodes[-1].input[1:]

    def add_cumsum(self, x):
        axis = self.random.randint(1, 4)
        reverse, exclusive = map(int, self.random.randint(2, size=2))
        number = self.constant(np.array(axis))

        def function(v, _):
            turn = (slice(None),) * axis + (slice(None, None, -1),)
            v = v[turn] if reverse else v
            sums = np.cumsum(v, axis) - (v if exclusive else 0)
            return sums[turn] if reverse else sums

        sums = self.node(
            *("CumSum", [x, number], self.shape[x], function),
            reverse=reverse,
            exclusive=exclusive,
        )
        del self.shape[sums]
        self.node("Tanh", [sums], self.shape[x], np.tanh)

    def add_reverse(self, x):
        axis = self.random.randint(1, 4)
        ranges = [np.array([v]) for v in (-1, np.iinfo(np.int64).min, axis, -1)]
        self.node(
            "Slice",
            [x, *map(self.constant, ranges)],
            self.shape[x],
            lambda v, *_: np.flip(v, axis),
        )

    def add_head(self):
        x = list(self.shape)[-1]
        n, c = self.shape[x][:2]
        x = self.node(
            "GlobalAveragePool",
            [x],
            (n, c, 1, 1),
            lambda v: v.mean((2, 3), keepdims=True),
        )
        x = self.node("Flatten", [x], (n, c), lambda v: v.reshape(n, c))
        inputs = [x, self.parameter(c, 5), self.parameter(5)]
        self.output = self.node("Gemm", inputs, (n, 5), reference.gemm)

    def evaluate(self, x, parameters, unit=None):
        """Evaluates the function in float64. If `unit` is given, rounds every
        value, including inputs and parameters, to that unit roundoff."""

        def stored(value):
            return value if unit is None else rounded(value, unit)

        given = {**self.inputs(x), **parameters}
        values = {name: stored(value) for name, value in given.items()}
        values.update(self.constants)
        for name, (function, inputs) in self.functions.items():
            values[name] = stored(function(*[values[i] for i in inputs]))
        return values[self.output]

    def direction(self):
        """Returns a random direction of the parameters, by name."""
        return {
            name: self.random.standard_normal(value.shape)
            for name, value in self.parameters.items()
        }

    def model(self, dtype, extra_nodes=(), extra_inputs=None, loss=False):
        outputs = {self.output: (dtype, self.shape[self.output])}
        if loss:
            outputs = {"loss": (dtype, [])}
        values = {**self.parameters, **self.constants}
        return mpctest.make_model(
            [*self.nodes, *extra_nodes],
            {
                "x": (dtype, self.shape["x"]),
                **{k: (v.dtype, v.shape) for k, v in self.more_inputs.items()},
                **(extra_inputs or {}),
            },
            outputs,
            {
                k: v.astype(dtype) if v.dtype.kind == "f" else v
                for k, v in values.items()
            },
            self.opset,
        )

    def inputs(self, x):
        """Returns all inputs of the model."""
        return {"x": x, **self.more_inputs}

    def data(self):
        return self.random.standard_normal(self.shape["x"])
