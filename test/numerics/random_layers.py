"""Layers of random networks (random_networks.py) besides those for images:
norms, softmax, attention, rotary embeddings, slices, and integers computed in
every step, which select elements.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

import reference
from attention_cases import attention, group_norm, instance_norm
from attention_cases import layer_norm, rms_norm, rotate

# If variances are small, a norm's slopes far exceed 1 / deviation.
EPSILON = 0.125


class Layers:
    """Layers that `RandomGraph` applies to one or more values of N x C x H x W."""

    KINDS = ["norm", "softmax", "attention", "rotary", "top_k", "pad", "split"]
    KINDS += ["chosen", "counted", "masked", "gathered", "scattered"]

    def needs(self, opset):
        self.opset = max(self.opset, opset)

    def choose(self, values):
        return values[self.random.randint(len(values))]

    # Rows, groups, heads.

    def add_norm(self, x):
        shape = self.shape[x]
        kinds = ["Layer", "RMS"]
        if len(shape) == 4:
            kinds += ["Instance", "Group"]
        kind = self.choose(kinds)
        channels, attributes = (shape[1],), {"epsilon": EPSILON}
        if kind in ("Layer", "RMS"):
            axis = self.random.randint(1, len(shape))
            channels, attributes["axis"] = shape[axis:], int(axis)
        if kind == "Group":
            count = self.choose([n for n in (1, 2, 3) if shape[1] % n == 0])
            attributes["num_groups"] = count
        functions = {
            "Layer": (layer_norm, 17),
            "RMS": (rms_norm, 23),
            "Instance": (instance_norm, 6),
            "Group": (group_norm, 21),
        }
        function, opset = functions[kind]
        self.needs(opset)
        inputs = [x, self.parameter(*channels)]
        if kind != "RMS":
            inputs.append(self.parameter(*channels))
        self.node(
            *(f"{kind}Normalization", inputs, shape),
            lambda *v: function(*v, **attributes),
            **attributes,
        )

    def add_softmax(self, x):
        axis = int(self.random.randint(1, len(self.shape[x])))
        self.node(
            *("Softmax", [x], self.shape[x]),
            lambda v: reference.softmax(v, axis),
            axis=axis,
        )

    def add_attention(self, x):
        """Channels are heads. Keys and values may have fewer heads."""
        n, c, h, w = self.shape[x]
        k = self.pick(lambda s: s[0] == n and c % s[1] == 0 and s[3] == w)
        v = self.pick(lambda s: s[:3] == self.shape[k][:3])
        attributes = {"is_causal": int(self.random.randint(2))}
        if self.random.rand() < 0.3:
            attributes["softcap"] = 1.5
        self.needs(23)
        self.node(
            *("Attention", [x, k, v], (n, c, h, self.shape[v][3])),
            lambda *values: attention(*values, **attributes),
            **attributes,
        )

    def add_rotary(self, x):
        """Tables are constants or parameters. Rows belong to positions, or ids
        select them."""
        n, c, h, w = self.shape[x]
        turned = w - w % 2
        if turned == 0:
            return
        attributes = {"interleaved": int(self.random.randint(2))}
        if turned < w:
            attributes["rotary_embedding_dim"] = turned
        ids = []
        shape = (n, h, turned // 2)
        if self.random.rand() < 0.5:
            shape = (9, turned // 2)
            ids = [self.constant(self.random.randint(9, size=(n, h)))]
        make = self.parameter
        if self.random.rand() < 0.5:
            make = lambda *s: self.constant(self.random.standard_normal(s))
        self.needs(23)
        self.node(
            *("RotaryEmbedding", [x, make(*shape), make(*shape), *ids]),
            self.shape[x],
            lambda *v: rotate(*v, **attributes),
            **attributes,
        )

    # Parts of values.

    def add_top_k(self, x):
        n, c, h, w = self.shape[x]
        count = int(self.random.randint(1, w + 1))
        name = self.node(
            *("TopK", [x, self.constant(np.array([count]))], (n, c, h, count)),
            lambda v, k: -np.sort(-v)[..., : k[0]],
        )
        self.nodes[-1].output.append(name + "_places")

    def add_pad(self, x):
        n, c, h, w = self.shape[x]
        if max(h, w) > 6:
            return
        mode = self.choose(["constant", "edge"])
        before, after = self.random.randint(2, size=(2, 2))
        pads = np.array([0, 0, *before, 0, 0, *after])
        widths = [(0, 0), (0, 0), *zip(before, after)]
        self.node(
            *("Pad", [x, self.constant(pads)]),
            (n, c, h + before[0] + after[0], w + before[1] + after[1]),
            lambda v, _: np.pad(v, widths, mode=mode),
            mode=mode,
        )

    def add_split(self, x):
        """Both parts become values of the graph."""
        n, c, h, w = self.shape[x]
        if c < 2:
            return
        first = int(self.random.randint(1, c))
        inputs = [x, self.constant(np.array([first, c - first]))]
        name = self.node(
            *("Split", inputs, (n, first, h, w)),
            lambda v, _: v[:, :first],
            axis=1,
        )
        rest = name + "_rest"
        self.nodes[-1].output.append(rest)
        self.functions[rest] = (lambda v, _: v[:, first:], inputs)
        self.shape[rest] = (n, c - first, h, w)

    # Integers.

    def integers(self, shape, below):
        """Computes random integers in [0, below) from four integers a sample."""
        if "k" not in self.more_inputs:
            count = self.shape["x"][0]
            values = self.random.randint(-20, 21, (count, 4))
            self.more_inputs["k"] = values.astype(np.int64)
        value, all_shape = "k", self.more_inputs["k"].shape
        for _ in range(self.random.randint(1, 4)):
            op, function = self.choose(
                [
                    ("Add", np.add),
                    ("Sub", np.subtract),
                    ("Mul", np.multiply),
                    ("Max", np.maximum),
                    ("Min", np.minimum),
                ]
            )
            other = self.constant(np.array(self.random.randint(-5, 6)))
            value = self.hidden(op, [value, other], all_shape, function)
        if shape == (all_shape[0], 1):
            axis = self.constant(np.array([1]))
            value = self.hidden(
                *("ReduceSum", [value, axis], shape),
                lambda v, _: v.sum(1, keepdims=True),
            )
        limit = self.constant(np.array(below))
        return self.hidden("Mod", [value, limit], shape, np.mod)

    def hidden(self, *arguments, **attributes):
        """Adds a node whose value no other layer reads."""
        name = self.node(*arguments, **attributes)
        del self.shape[name]
        return name

    def broadcast(self, name):
        """Broadcasts a number per sample, of any type, along all other axes."""
        shape = (self.shape["x"][0], 1, 1, 1)
        target = self.constant(np.array(shape))
        return self.hidden(
            "Reshape", [name, target], shape, lambda v, s: v.reshape(s)
        )

    def numbers(self, below):
        return self.broadcast(self.integers((self.shape["x"][0], 1), below))

    def add_counted(self, x):
        """Multiplies by an integer."""
        shape = self.shape[x]
        number = self.hidden(
            *("CastLike", [self.numbers(4), x], (shape[0], 1, 1, 1)),
            lambda v, like: v.astype(like.dtype),
        )
        self.node("Mul", [x, number], shape, np.multiply)

    def add_masked(self, x):
        """Selects one of two values for each sample."""
        y = self.pick(lambda shape: shape == self.shape[x])
        limit = self.constant(np.array(3))
        mask = self.hidden(
            *("Less", [self.numbers(6), limit], (self.shape[x][0], 1, 1, 1)),
            np.less,
        )
        self.node("Where", [mask, x, y], self.shape[x], np.where)

    def add_chosen(self, x):
        """Scales channels by the number of times each is drawn."""
        n, c = self.shape[x][:2]
        depth = self.constant(np.array(c))
        values = self.constant(np.array([0.0, 0.5]))
        hot = self.hidden(
            *("OneHot", [self.integers((n, 4), c), depth, values], (n, 4, c)),
            lambda i, count, v: np.where(i[..., None] == np.arange(count), *v[::-1]),
        )
        axis = self.constant(np.array([1]))
        counts = self.hidden(
            *("ReduceSum", [hot, axis], (n, c)),
            lambda v, _: v.sum(1),
            keepdims=0,
        )
        target = self.constant(np.array([n, c, 1, 1]))
        counts = self.hidden(
            *("Reshape", [counts, target], (n, c, 1, 1)),
            lambda v, s: v.reshape(s),
        )
        self.node("Mul", [x, counts], self.shape[x], np.multiply)

    def flat(self, x):
        """Returns x as [samples, elements], and the number of elements."""
        n, size = self.shape[x][0], int(np.prod(self.shape[x][1:]))
        target = self.constant(np.array([n, size]))
        name = self.hidden(
            "Reshape", [x, target], (n, size), lambda v, s: v.reshape(s)
        )
        return name, size

    def add_gathered(self, x):
        n = self.shape[x][0]
        elements, size = self.flat(x)
        found = self.hidden(
            *("GatherElements", [elements, self.integers((n, 4), size)], (n, 4)),
            lambda v, i: np.take_along_axis(v, i, 1),
            axis=1,
        )
        self.reshape(found, (n, 1, 2, 2))

    def add_scattered(self, x):
        """Adds updates, some of them at equal indices."""
        n, shape = self.shape[x][0], self.shape[x]
        elements, size = self.flat(x)

        def function(values, indices, updates):
            result = values.copy()
            rows = np.arange(len(values))[:, None]
            np.add.at(result, (rows, indices), updates)
            return result

        self.needs(18)
        inputs = [elements, self.integers((n, 4), size), self.parameter(n, 4)]
        sums = self.hidden(
            *("ScatterElements", inputs, (n, size), function),
            axis=1,
            reduction="add",
        )
        self.reshape(sums, shape)
