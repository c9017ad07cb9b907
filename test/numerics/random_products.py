"""Makes random products of matrices large enough for packed blocks.

Each seed makes a graph of up to a dozen operators over batches of matrices:
  - products with matrices that all, some or none of a batch share, or with
    another value's transpose;
  - fused ops behind them, with operands that are full, one per row, one per
    column or scalar;
  - scales, transposes and residual sums.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

import reference
from random_networks import RandomGraph

# Sides of matrices: small, and near those of a panel or a tile.
SIDES = [1, 7, 16, 63, 64, 65, 96, 129]
# Limits the multiply-adds of a product.
MOST_PRODUCTS = 8_000_000


def turned(values):
    return values.swapaxes(-1, -2)


class RandomProducts(RandomGraph):
    KINDS = ["product", "product", "product", "scores", "gemm", "activation"]
    KINDS += ["epilogue", "scale", "residual", "transpose", "heads"]
    KINDS += ["norm", "softmax"]

    def draw_input(self):
        rank = self.random.randint(2, 5)
        sides = [self.choose([64, 65, 96, 129]) for _ in range(2)]
        self.sides = SIDES
        if self.random.rand() < 0.3:
            # Matrices of one shape can reuse each other's memory.
            sides[0] = sides[1]
            self.sides = sides[:1]
        return (*self.random.randint(1, 4, rank - 2).tolist(), *sides)

    def direction(self):
        """With many parameters, each must move less for a derivative."""
        return {
            name: step / np.sqrt(step.size)
            for name, step in super().direction().items()
        }

    def add_layer(self):
        if self.nodes:
            return super().add_layer()
        # Every graph has at least one parameter to train.
        return self.add_product("x")

    def add_activation(self, x):
        op, function = self.choose(
            [
                ("Tanh", np.tanh),
                ("Sigmoid", reference.sigmoid),
                ("Relu", lambda v: np.maximum(v, 0)),
                ("Neg", np.negative),
            ]
        )
        self.node(op, [x], self.shape[x], function)

    def matrices(self, x, rows, columns):
        """Returns matrices for the batch of `x`. Some batch axes may be one or
        missing."""
        batch = self.shape[x][:-2]
        batch = tuple(self.choose([1, extent]) for extent in batch)
        batch = batch[self.random.randint(len(batch) + 1) :]
        name = self.parameter(*batch, rows, columns)
        self.parameters[name] *= np.sqrt(self.parameters[name][..., 0].size)
        self.parameters[name] /= np.sqrt(rows)
        return name

    def add_product(self, x):
        *batch, rows, depth = self.shape[x]
        most = MOST_PRODUCTS // np.prod(self.shape[x])
        columns = self.choose([n for n in self.sides if n <= most] or [1])
        y, shape = self.matrices(x, depth, columns), (*batch, rows, columns)
        self.node("MatMul", [x, y], shape, np.matmul)

    def add_scores(self, x):
        """Multiplies by a value's transpose and scales the product, as in
        attention."""
        *batch, rows, depth = shape = self.shape[x]
        y = self.pick(lambda s: s[:-2] == shape[:-2] and s[-1] == depth)
        if np.prod(shape) * self.shape[y][-2] > MOST_PRODUCTS:
            return
        z = self.exchange(y)
        if self.random.rand() < 0.5:
            z = self.add_scale(z)
        result = (*batch, rows, self.shape[y][-2])
        scores = self.node("MatMul", [x, z], result, np.matmul)
        factor = self.constant(np.array(1 / depth))
        self.node("Mul", [scores, factor], result, np.multiply)

    def add_gemm(self, x):
        """The operand C may be another value, whose memory is free afterwards."""
        if len(self.shape[x]) != 2:
            return
        flags = {name: self.random.randint(2) for name in ("transA", "transB")}
        depth, rows = self.shape[x] if flags["transA"] else self.shape[x][::-1]
        columns = self.choose(self.sides)
        sides = (columns, depth) if flags["transB"] else (depth, columns)
        inputs = [x, self.parameter(*sides)]
        c = self.pick(lambda shape: shape == (rows, columns))
        shapes = [(columns,), (rows, 1), (1, columns), (rows, columns), ()]
        inputs.append(c or self.parameter(*self.choose(shapes)))
        flags["alpha"] = self.choose([1.0, -0.5])
        flags["beta"] = self.choose([1.0, 0.5])
        self.node(
            *("Gemm", inputs, (rows, columns)),
            lambda a, b, c: reference.gemm(a, b, c, **flags),
            **flags,
        )

    def add_epilogue(self, x):
        shape = self.shape[x]
        other = self.choose([shape[-1:], (*shape[:-1], 1), (1,) * len(shape)])
        op, function = self.choose([("Add", np.add), ("Mul", np.multiply)])
        self.node(op, [x, self.parameter(*other)], shape, function)

    def add_scale(self, x):
        factor = self.choose([0.5, -2.0, 1.25])
        if self.random.rand() < 0.3:
            factor = self.parameter(*(1,) * self.random.randint(3))
        else:
            factor = self.constant(np.array(factor))
        return self.node("Mul", [x, factor], self.shape[x], np.multiply)

    def add_residual(self, x):
        y = self.pick(lambda shape: shape == self.shape[x])
        op, function = self.choose([("Add", np.add), ("Sub", np.subtract)])
        self.node(op, [x, y], self.shape[x], function)

    def transpose(self, x, perm):
        shape = tuple(self.shape[x][axis] for axis in perm)
        perm = [int(axis) for axis in perm]
        return self.node(
            *("Transpose", [x], shape), lambda v: v.transpose(perm), perm=perm
        )

    def exchange(self, x):
        rank = len(self.shape[x])
        return self.transpose(x, [*range(rank - 2), rank - 1, rank - 2])

    def add_transpose(self, x):
        """Transposes rows and columns, or any axes except the first."""
        if self.random.rand() < 0.5:
            self.exchange(x)
        else:
            order = self.random.permutation(len(self.shape[x]) - 1) + 1
            self.transpose(x, [0, *order])

    def add_heads(self, x):
        """Splits columns into heads, which become a batch axis."""
        *batch, rows, columns = self.shape[x]
        if len(batch) != 1 or columns % 16:
            return
        shape = (*batch, rows, columns // 16, 16)
        self.transpose(self.reshape(x, shape), [0, 2, 1, 3])

    def add_head(self):
        """Sums each of the last unread values, for every sample."""
        used = {name for node in self.nodes for name in node.input}
        outputs = [name for name in self.shape if name not in used][-4:]
        axis, sums = self.constant(np.array([1])), []
        for x in outputs:
            flat = self.reshape(x, (1, int(np.prod(self.shape[x]))))
            bounded = self.node("Tanh", [flat], self.shape[flat], np.tanh)
            sums.append(
                self.node(
                    *("ReduceSum", [bounded, axis], (1, 1)),
                    lambda v, _: v.sum(1, keepdims=True),
                )
            )
        count, samples = len(sums), self.shape["x"][0]
        row = self.node(
            *("Concat", sums, (1, count)),
            lambda *v: np.concatenate(v, 1),
            axis=1,
        )
        shape = (samples, count)
        self.output = self.node(
            *("Expand", [row, self.constant(np.array(shape))], shape),
            lambda v, _: np.broadcast_to(v, shape),
        )
