"""Exports and imports arrays by DLPack, bfloat16 too.

NumPy refuses bfloat16, a type of another package. The uint16 view of the same
bits is exported, and the type in the capsule becomes bfloat16. Importing does
the reverse. The capsule keeps the ownership of the memory.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mpc_runtime.tensors import TensorInfo

# Bytes before `dtype` in DLManagedTensor and DLManagedTensorVersioned: DLTensor
# begins at 0 and at 32, and has data, device and ndim before dtype.
_DTYPE_OFFSETS = {b"dltensor": 20, b"dltensor_versioned": 52}
_BFLOAT, _UINT = 4, 1  # kDLBfloat, kDLUInt
_CPU = 1  # kDLCPU


class _DataType(ctypes.Structure):
    """DLDataType"""

    _fields_ = [
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _type_of(capsule: Any) -> _DataType:
    """Returns the type in a capsule, which may be changed."""
    name = _get_name(capsule)
    return _DataType.from_address(_get_pointer(capsule, name) + _DTYPE_OFFSETS[name])


class _Capsule:
    """Gives a capsule to np.from_dlpack."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule


def read_bfloat16(tensor: Any) -> np.ndarray | None:
    """Returns a copy in f32 of a bfloat16 tensor of another library. None for
    other types, and for tensors that are not in host memory."""
    if not hasattr(tensor, "__dlpack_device__") or (
        tensor.__dlpack_device__()[0] != _CPU
    ):
        return None
    capsule = tensor.__dlpack__()
    datatype = _type_of(capsule)
    if (datatype.code, datatype.bits, datatype.lanes) != (_BFLOAT, 16, 1):
        return None
    datatype.code = _UINT
    bits = np.from_dlpack(_Capsule(capsule)).astype(np.uint32) << 16
    return bits.view(np.float32)


class HostTensor:
    """A copy of a tensor in host memory that other libraries can take without
    another copy: `torch.from_dlpack(tensor)`, `jax.dlpack.from_dlpack(tensor)`.

    `info` describes the tensor, and `array` is the NumPy array.
    """

    def __init__(self, info: TensorInfo, array: np.ndarray):
        self.info = info
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.array if dtype is None else self.array.astype(dtype)
        return array.copy() if copy and array is self.array else array

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns (kDLCPU, 0)."""
        return (_CPU, 0)

    def __dlpack__(self, **options: Any) -> Any:
        """Returns a capsule. `options` are those of `numpy.ndarray.__dlpack__`."""
        if self.info.type != "bf16":
            return self.array.__dlpack__(**options)
        capsule = self.array.view(np.uint16).__dlpack__(**options)
        _type_of(capsule).code = _BFLOAT
        return capsule

    def __repr__(self) -> str:
        return f"<mpc tensor {self.info}>"
