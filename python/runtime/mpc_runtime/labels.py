"""Checks labels before a step: a class out of range would count as no sample.

The recipe of an artifact has the range of its labels: "classes" and
"ignore_index" for all label inputs, or for each input below "labels". Inputs
below "probabilities" have values in [0, 1].

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from mpc_runtime.errors import InvalidInputError
from mpc_runtime.tensors import TensorInfo


def check_labels(
    array: np.ndarray, info: TensorInfo, recipe: Mapping[str, Any]
) -> None:
    """Raises InvalidInputError if a label of `array`, the value of the input
    `info`, is out of the range in `recipe`."""
    if info.role != "label" or array.size == 0:
        return
    if array.dtype.kind in "iu":
        facts = recipe.get("labels", {}).get(info.name, recipe)
        classes, ignored = facts.get("classes"), facts.get("ignore_index")
        if isinstance(classes, int):
            wrong = (array < 0) | (array >= classes)
            if ignored is not None:
                wrong &= array != ignored
            _refuse(array, wrong, info, f"is not in [0,{classes})")
    elif info.name in recipe.get("probabilities", {}):
        _refuse(array, ~((array >= 0) & (array <= 1)), info, "is not in [0,1]")


def _refuse(array: np.ndarray, wrong: np.ndarray, info: TensorInfo, why: str) -> None:
    if wrong.any():
        place = [int(i) for i in np.argwhere(wrong)[0]]
        raise InvalidInputError(
            f"'{info.name}': label {place} is {array[tuple(place)]}, which {why}"
        )
