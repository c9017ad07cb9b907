"""Defines a case, one behaviour of an operator: arguments, attributes and
float64 definition. Makes the values of cases.

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
    # If `gradient`, the tests differentiate all float arguments. Arguments in
    # `constant` and integers are constant initializers.
    arguments: dict
    function: typing.Callable
    attributes: dict = dataclasses.field(default_factory=dict)
    opset: int = 17
    # Number of terms in an element's longest sum.
    terms: int = 1
    # Number of consecutive contractions whose operands may be rounded to the
    # low precision.
    contraction: int = 0
    # Bound on the sum of the terms' magnitudes. By default the function of
    # absolute values gives this bound. Constants of both signs in a contraction
    # invalidate the default.
    magnitude: float | None = None
    gradient: bool = True
    constant: tuple = ()


CASES = []


def add(name, op, arguments, function, **options):
    CASES.append(Case(name, op, arguments, function, **options))


def normal(*shape):
    """Returns values of both signs. The shape is the seed, so that cases are
    independent."""
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
