"""Opens artifacts, and describes their functions and state.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import types
import weakref
from typing import Any, Mapping, Union

from mpc_runtime import library
from mpc_runtime.errors import UsageError
from mpc_runtime.tensors import TensorInfo

PathLike = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of an artifact: `inputs` and `outputs` in declared order."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        outputs = ", ".join(map(str, self.outputs))
        return f"{self.name}({inputs}) -> ({outputs})"


class Artifact:
    """An artifact that `mpc compile` wrote. `open` returns one.

    Opening executes nothing of the file. A `Session` loads the machine code,
    which can do whatever this process may do: create sessions only from
    artifacts of known origin.
    """

    def __init__(self, handle: ctypes.c_void_p, name: str):
        self._handle = handle
        self._close = weakref.finalize(
            self, library.load().mpc_artifact_close, handle
        )
        # At exit, a daemon thread may still be in the library.
        self._close.atexit = False
        self._name = name
        size = ctypes.c_size_t()
        text = library.plain("artifact_plan", handle, ctypes.byref(size))
        self._plan: dict[str, Any] = json.loads(ctypes.string_at(text, size.value))
        self._functions = {
            name: _read_function(name, function)
            for name, function in self._plan["functions"].items()
        }
        self._state = tuple(
            TensorInfo(v["name"], v["role"], v["type"], tuple(v["shape"]))
            for v in self._plan["state"]
        )
        self._state_infos = {info.name: info for info in self._state}

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions by name: "step", "eval", "forward", ..."""
        return types.MappingProxyType(self._functions)

    @property
    def state(self) -> tuple[TensorInfo, ...]:
        """Parameters, the optimizer's state, counters and derived state."""
        return self._state

    @property
    def precision(self) -> str:
        """The precision mode, such as "bf16-mixed"."""
        return self._plan["precision"]

    @property
    def recipe(self) -> dict[str, Any]:
        """The flags of compilation: "loss", "optimizer", "accumulate", ..."""
        return dict(self._plan["recipe"])

    @property
    def plan(self) -> dict[str, Any]:
        """The whole plan. The keys may change between versions of mpc."""
        return self._plan

    def inputs(self, function: str) -> tuple[TensorInfo, ...]:
        """Returns the inputs of a function. Raises UsageError if there is no
        such function."""
        return self.function(function).inputs

    def outputs(self, function: str) -> tuple[TensorInfo, ...]:
        """Returns the outputs of a function. Raises UsageError if there is no
        such function."""
        return self.function(function).outputs

    def function(self, name: str) -> Function:
        """Returns a function. Raises UsageError if there is no such function."""
        if not isinstance(name, str) or name not in self._functions:
            raise UsageError(
                f"the artifact has no function {name!r}; it has"
                f" {', '.join(self._functions)}"
            )
        return self._functions[name]

    def __repr__(self) -> str:
        functions = ", ".join(self._functions)
        return f"<mpc artifact {self._name}: {self.precision}, {functions}>"


def _read_function(name: str, function: dict[str, Any]) -> Function:
    def info(value: dict[str, Any], axis: int | None) -> TensorInfo:
        buffer = function["buffers"][value["buffer"]]
        shape = tuple(buffer["shape"])
        return TensorInfo(value["name"], value["role"], buffer["type"], shape, axis)

    def batch_axis(value: dict[str, Any]) -> int | None:
        axis = value.get("batch_axis", 0)
        return axis if value["role"] in ("data", "label") and axis >= 0 else None

    return Function(
        name,
        tuple(info(value, batch_axis(value)) for value in function["inputs"]),
        tuple(info(value, None) for value in function["outputs"]),
    )


def open_artifact(source: PathLike | bytes | bytearray | memoryview) -> Artifact:
    """Opens and checks an artifact: a path, or the bytes of the file.

    Nothing of the file is executed, so untrusted files are safe to open.
    Replace an open file by os.replace only: overwriting a mapped file in place
    ends the process.

    Raises FileError if the file cannot be read, InvalidInputError if the file
    is no consistent artifact, and TypeError for other sources.
    """
    handle = ctypes.c_void_p()
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        library.call("artifact_open_bytes", data, len(data), ctypes.byref(handle))
        return Artifact(handle, f"of {len(data)} bytes")
    try:
        path = os.fsdecode(source)
    except TypeError:
        raise TypeError(
            f"expected a path or bytes, found {type(source).__name__}"
        ) from None
    library.call(
        "artifact_open", library.encode(path, "a path"), ctypes.byref(handle)
    )
    return Artifact(handle, path)
