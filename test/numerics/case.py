"""What a case is: one behaviour of an operator, with its arguments, attributes
and float64 definition. And the values that cases are made of.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import typing
import zlib

import numpy as np


@dataclasses.dataclass
class Case:
    name: str
    op: str
    # Float arguments are differentiated where `gradient` holds; integer ones
    # and those in `constant` are initializers that stay as they are.
    arguments: dict
    function: typing.Callable
    attributes: dict = dataclasses.field(default_factory=dict)
    opset: int = 17
    # Terms of the longest sum an element is made of.
    terms: int = 1
    # How many contractions follow each other, whose operands may be rounded to
    # the low precision.
    contraction: int = 0
    # The largest sum of the terms' magnitudes, where the function of absolute
    # values is not it: the contraction has constants of both signs.
    magnitude: float | None = None
    gradient: bool = True
    constant: tuple = ()


CASES = []


def add(name, op, arguments, function, **options):
    CASES.append(Case(name, op, arguments, function, **options))


def normal(*shape):
    """Values of both signs; the seed is the shape, so cases are independent."""
    seed = zlib.crc32(repr(shape).encode())
    return np.random.RandomState(seed).standard_normal(shape)


def apart(*shape):
    """Like `normal`, but values differ by at least 0.01 and none is close to
    zero: maxima and signs do not change within a finite difference."""
    count = int(np.prod(shape))
    seed = zlib.crc32(repr(shape).encode())
    order = np.random.RandomState(seed).permutation(count)
    return ((order - count / 2 + 0.25) * 0.02).reshape(shape)


def positive(*shape):
    return np.abs(normal(*shape)) + 0.5


def int64(*values):
    return np.array(values, np.int64)
