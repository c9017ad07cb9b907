"""Operators that draw random numbers, on tensors of a single element.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import mpctest
from test_operator_edges import one_node


def random_cases():
    """Yields ops that draw numbers, of every type and rank. A sample has each
    pair of an op, a type and a rank once."""
    for i, op in enumerate(["Dropout", "RandomUniformLike", "Bernoulli"]):
        for j, dtype in enumerate([np.float16, np.float32, np.float64]):
            for k, shape in enumerate([(), (1,), (1, 1)]):
                marks = [pytest.mark.full] if (i + j + k) % 3 else []
                yield pytest.param(op, dtype, shape, marks=marks)


@pytest.mark.parametrize("op, dtype, shape", random_cases())
def test_one_random_number(op, dtype, shape, tmp_path):
    """A scalar has no axes to index the random numbers."""
    x = np.full(shape, 0.5, dtype)
    constants = {}
    if op == "Dropout":
        constants = {"ratio": np.float32(0.5), "training": np.array(True)}
    model = one_node(op, x, constants, shape)

    def draw(seed):
        flags = ["--as-exported", "--seed", seed]
        return mpctest.run(model, {"x": x}, tmp_path, *flags)["y"].item()

    found = {draw(seed) for seed in range(12)}
    if op == "RandomUniformLike":
        assert len(found) == 12 and 0 <= min(found) and max(found) < 1
    else:
        assert found == {0, 1}
