"""Descriptions of tensors, and conversion of arrays to element types of mpc.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from mpc_runtime.dlpack import read_bfloat16
from mpc_runtime.errors import InvalidInputError

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

# NumPy has no bfloat16. Without ml_dtypes, its 16 bits are a uint16.
BFLOAT16 = np.dtype(ml_dtypes.bfloat16 if ml_dtypes else np.uint16)

# The element types by their names in plans.
DTYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "bf16": BFLOAT16,
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "i1": np.dtype(np.bool_),
    "u8": np.dtype(np.uint8),
    "i8": np.dtype(np.int8),
    "u16": np.dtype(np.uint16),
    "i16": np.dtype(np.int16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
}
FLOATS = ("f16", "bf16", "f32", "f64")


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """Describes a state variable, an input or an output.

    `type` is mpc's name of the element type, such as "f32" or "bf16". `role`
    is the purpose, such as "parameter", "data", "label" or "loss". `batch_axis`
    is the axis of an input along which samples lie; None for other tensors, and
    for inputs without such an axis.
    """

    name: str
    role: str
    type: str
    shape: tuple[int, ...]
    batch_axis: int | None = None

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type. bf16 is ml_dtypes.bfloat16, or uint16 without the
        package ml_dtypes."""
        return DTYPES[self.type]

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        shape = ",".join(map(str, self.shape))
        return f"{self.name}: {self.type}[{shape}] ({self.role})"


def as_array(
    value: Any, info: TensorInfo, any_count: bool = False
) -> np.ndarray:
    """Returns `value` as a C-contiguous array of the type and shape of `info`.

    `value` is an array, a sequence of numbers, or an object with `__dlpack__`
    or `__array__`, such as a tensor of PyTorch on the CPU. Another element type
    is converted if each value can be represented: 1.0 to an integer is fine,
    1.5 is an error. Floats are rounded. A uint16 array for a bf16 tensor is
    taken as bits. A tensor of one element may have any number of dimensions.
    With `any_count`, an input may have any number of samples.

    Raises InvalidInputError for another shape or a value out of range, and
    TypeError for values that are no numbers.
    """
    array = _read(value, info)
    differs_in_count = _differs_in_count(array.shape, info)
    if array.shape != info.shape and not (any_count and differs_in_count):
        if array.size == 1 and math.prod(info.shape) == 1:
            array = array.reshape(info.shape)
        else:
            hint = ""
            if differs_in_count:
                axis = info.batch_axis or 0
                hint = (
                    "; the batch size of an artifact is fixed: give"
                    f" {info.shape[axis]} samples, or compile with --batch-size"
                    f" {array.shape[axis]}"
                )
            raise InvalidInputError(
                f"'{info.name}': expected an array of shape {info.shape}, found"
                f" {array.shape}{hint}"
            )
    shape = array.shape
    if array.dtype != info.dtype:
        array = _convert(array, info)
    # NumPy turns scalars into vectors here.
    return np.ascontiguousarray(array).reshape(shape)


def _differs_in_count(shape: tuple[int, ...], info: TensorInfo) -> bool:
    """True if only the number of samples differs from the declared shape."""
    axis = info.batch_axis
    if axis is None or len(shape) != len(info.shape) or shape == info.shape:
        return False
    return all(
        n == expected
        for i, (n, expected) in enumerate(zip(shape, info.shape))
        if i != axis
    )


def _read(value: Any, info: TensorInfo) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"'{info.name}': a masked array has no value where masked")
    if type(value) is not np.ndarray:
        try:
            value = _import(value)
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            raise TypeError(
                f"'{info.name}': cannot read {type(value).__name__} as an array:"
                f" {error}"
            ) from error
    if value.dtype.kind not in "biuf" and value.dtype != BFLOAT16:
        raise TypeError(
            f"'{info.name}': expected numbers that fit {info.type}, found an array"
            f" of type {value.dtype}"
        )
    return value


def _import(value: Any) -> np.ndarray:
    """Returns a sequence, or a tensor of another library, as an array. Raises
    various exceptions if NumPy and DLPack cannot read the value."""
    if hasattr(value, "__dlpack__"):
        array = read_bfloat16(value)
        if array is not None:
            return array
        if not hasattr(value, "__array__"):
            return np.from_dlpack(value)
    return np.asarray(value)


def _convert(array: np.ndarray, info: TensorInfo) -> np.ndarray:
    if info.type == "bf16" and array.dtype == np.uint16:
        return array.view(info.dtype)
    with np.errstate(all="ignore"):
        if info.type == "bf16" and ml_dtypes is None:
            converted = _round_to_bfloat16(array.astype(np.float32))
            back = (converted.astype(np.uint32) << 16).view(np.float32)
        else:
            converted = back = array.astype(info.dtype)
    from_float = array.dtype.kind == "f" or array.dtype == BFLOAT16
    if info.type in FLOATS:
        # Rounding is fine, overflow is not.
        wrong = np.isfinite(array) & ~np.isfinite(back) if from_float else (
            ~np.isfinite(back)
        )
    else:
        wrong = _differs(array, back, info)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise InvalidInputError(
            f"'{info.name}': element {list(place)} is {array[place]}, which"
            f" {info.type} cannot represent"
        )
    return converted


def _differs(array: np.ndarray, converted: np.ndarray, info: TensorInfo) -> np.ndarray:
    """True where an integer or boolean `converted` is not the value of
    `array`. Limits are compared first: conversion out of range may wrap around
    to an equal number."""
    if info.type == "i1":
        return (array != 0) & (array != 1)
    limits = np.iinfo(info.dtype)
    if array.dtype.kind in "f" or array.dtype == BFLOAT16:
        wide = array.astype(np.float64)
        low, high = float(limits.min), float(limits.max) + 1
        inside = (wide >= low) & (wide < high) if info.type in ("i64", "u64") else (
            (wide >= low) & (wide <= limits.max)
        )
        return ~(inside & (wide == np.floor(wide)))
    if array.dtype.kind == "b":
        return np.zeros(array.shape, bool)
    # Python's integers compare exactly where NumPy's would round to float64.
    least, greatest = (
        (int(array.min()), int(array.max())) if array.size else (0, 0)
    )
    if least >= limits.min and greatest <= limits.max:
        return np.zeros(array.shape, bool)
    exact = array.astype(object)
    return np.asarray((exact < limits.min) | (exact > limits.max), bool)


def _round_to_bfloat16(array: np.ndarray) -> np.ndarray:
    """Rounds f32 to the nearest bf16, to even in ties. Returns the bits."""
    bits = np.ascontiguousarray(array).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    # A NaN whose payload lies in the low bits would become infinity.
    return np.where(np.isnan(array), (bits >> 16) | 0x40, rounded).astype(np.uint16)
