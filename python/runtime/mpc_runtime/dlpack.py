"""Exports arrays by DLPack, bfloat16 too.

NumPy refuses to export bfloat16, a type of another package. The uint16 view of
the same bits is exported, and the type in the capsule becomes bfloat16. NumPy
keeps the ownership of the memory.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from mpc_runtime.tensors import TensorInfo

# Bytes before `dtype` in DLManagedTensor and DLManagedTensorVersioned: DLTensor
# begins at 0 and at 32, and has data, device and ndim before dtype.
_DTYPE_OFFSETS = {b"dltensor": 20, b"dltensor_versioned": 52}
_BFLOAT = (4, 16, 1)  # kDLBfloat, 16 bits, one lane


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
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        """Returns a capsule. `options` are those of `numpy.ndarray.__dlpack__`."""
        if self.info.type != "bf16":
            return self.array.__dlpack__(**options)
        capsule = self.array.view(np.uint16).__dlpack__(**options)
        name = _get_name(capsule)
        address = _get_pointer(capsule, name) + _DTYPE_OFFSETS[name]
        datatype = _DataType.from_address(address)
        datatype.code, datatype.bits, datatype.lanes = _BFLOAT
        return capsule

    def __repr__(self) -> str:
        return f"<mpc tensor {self.info}>"
