"""Defines a case: a node that computes gradients, its forward op, and inputs of
both. Makes cases of several kinds.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses

import numpy as np
from onnx import helper

MICROSOFT = "com.microsoft"
TOLERANCE = 1e-12


@dataclasses.dataclass
class Case:
    """`forward` computes y and saved values from `arguments`. `backward`
    computes d_NAME from those values and dy, for every name in `wrt`."""

    name: str
    arguments: dict
    forward: list
    backward: list
    wrt: list
    # Values without a gradient, or that the forward op does not read.
    constants: dict = dataclasses.field(default_factory=dict)
    opset: int = 17
    tolerance: float = TOLERANCE


def node(op, inputs, outputs, domain=None, **attributes):
    return helper.make_node(
        op, inputs, outputs, outputs[0], domain=domain, **attributes
    )


def microsoft(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, MICROSOFT, **attributes)


def aten(operator, inputs, outputs, **attributes):
    """Returns a call of PyTorch's operator, as ONNX Runtime's ORTModule writes
    it."""
    return node(
        *("ATen", inputs, outputs, "org.pytorch.aten"),
        operator=operator,
        **attributes,
    )


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
        # The statistics are float64, like all values.
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
    """Each gradient node has another order of inputs."""
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


def split_conv(x, w, **attributes):
    """The gradients of a convolution as one node each, without a domain, as
    compilers for microcontrollers write them."""
    whole = conv("ConvGradXWB", "Conv", x, w, **attributes)
    window = {k: v for k, v in attributes.items() if k != "channels"}
    parts = [
        node("ConvGradX", ["dy", "w"], ["d_x"], **window),
        node("ConvGradW", ["dy", "x"], ["d_w"], **window),
        node("ConvGradB", ["dy"], ["d_b"]),
    ]
    return dataclasses.replace(whole, backward=parts)


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
    """Returns an LSTM's or GRU's case: 3 steps, 2 samples, 4 inputs and 5
    hidden elements. y joins all hidden states and the last ones."""
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
    # The shapes of the gradients of y's parts.
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


def cross_entropy(prefix, labels, weights=None, reduction="mean"):
    """Returns a case of ONNX Runtime's losses from before
    SoftmaxCrossEntropyLoss. Classes are the last of three axes."""
    name = prefix + "SoftmaxCrossEntropy"
    domain = None if prefix else MICROSOFT
    constants = {"labels": labels}
    inputs = ["labels"]
    if weights is not None:
        constants["weights"] = weights
        inputs.append("weights")
    return Case(
        f"{name}Grad-{len(inputs)}-{reduction}",
        {"x": normal(5, 2, 4)},
        [
            node(
                *(name, ["x", *inputs], ["y", "log_prob"], domain),
                reduction=reduction,
            )
        ],
        [
            node(
                *(name + "Grad", ["dy", "log_prob", *inputs], ["d_x"], domain),
                reduction=reduction,
            )
        ],
        ["x"],
        constants,
    )


def embedding(padding, prefix=""):
    """Returns rows of a table. The row of `padding` is not trained."""
    settings = ["padding", "no", "no"]
    return Case(
        f"embedding_backward-{padding}",
        {"w": normal(7, 4)},
        [aten(prefix + "embedding", ["w", "ids", *settings], ["y"])],
        [
            aten(
                prefix + "embedding_backward",
                ["dy", "ids", "rows", *settings],
                ["d_w"],
            )
        ],
        ["w"],
        {
            "ids": np.array([[0, 2, 2], [6, 0, 3]]),
            "rows": np.int64(7),
            "padding": np.int64(padding),
            "no": np.bool_(False),
        },
    )
