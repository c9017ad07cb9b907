"""What the tools that read plans share.

SPDX-License-Identifier: Apache-2.0
"""

import math
import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent.parent


def split_options(arguments):
    """The words in front of `--`, and those behind it, for `mpc compile`."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def bytes_of(type):
    """`8x128xbf16` takes 2048 bytes; `i1` and the like a byte an element."""
    *extents, element = type.split("x")
    # The letter of `index` is one that extents are split at.
    digits = re.search(r"\d+$", element)
    bits = max(8, int(digits[0])) if digits else 64
    return math.prod(int(e) for e in extents if e.isdigit()) * bits // 8
