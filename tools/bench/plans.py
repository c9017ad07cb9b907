"""Helpers that the tools that read plans share.

SPDX-License-Identifier: Apache-2.0
"""

import math
import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent.parent


def split_options(arguments):
    """Returns the words before `--`, and the words after it for `mpc compile`."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def bytes_of(type):
    """Returns bytes: `8x128xbf16` takes 2048. `i1` and similar types take a
    byte per element."""
    *extents, element = type.split("x")
    # Extents are split at the letter x, which `index` contains.
    digits = re.search(r"\d+$", element)
    bits = max(8, int(digits[0])) if digits else 64
    return math.prod(int(e) for e in extents if e.isdigit()) * bits // 8
