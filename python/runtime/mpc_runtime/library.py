"""Loads libmpc_runtime.so and declares its functions for ctypes.

The wheel carries the library. MPC_RUNTIME_LIBRARY names another one, such as
build/lib/libmpc_runtime.so of a build of the tree.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import pathlib
from typing import Any

from mpc_runtime.errors import Error, UsageError, make_error

SONAME = "libmpc_runtime.so.0"

_POINTER, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t


class CSessionOptions(ctypes.Structure):
    """mpc_session_options"""

    _fields_ = [
        ("struct_size", _SIZE),
        ("device", _TEXT),
        ("threads", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("communicator", _POINTER),
    ]


class CCommunicatorOptions(ctypes.Structure):
    """mpc_communicator_options"""

    _fields_ = [
        ("struct_size", _SIZE),
        ("ranks", ctypes.c_int32),
        ("rank_timeout", ctypes.c_double),
    ]


def _callback(*arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, *arguments)


class CBackend(ctypes.Structure):
    """mpc_backend"""

    _fields_ = [
        ("struct_size", _SIZE),
        ("name", _TEXT),
        ("context", _POINTER),
        ("exchange", _callback(_POINTER, _POINTER, _SIZE)),
        ("gather", _callback(_POINTER, _SIZE)),
        ("broadcast", _callback(_POINTER, _SIZE, ctypes.c_int32)),
        ("barrier", _callback()),
        # Returns nothing in C, where the caller ignores the result.
        ("abort", _callback(_TEXT)),
    ]


class CArray(ctypes.Structure):
    """mpc_array"""

    _fields_ = [("name", _TEXT), ("bytes", _POINTER), ("size", _SIZE)]


class CTrainerOptions(ctypes.Structure):
    """mpc_trainer_options"""

    _fields_ = [
        ("struct_size", _SIZE),
        ("learning_rate", ctypes.c_double),
        ("lr_scheduler", _TEXT),
        ("min_lr", ctypes.c_double),
        ("warmup_steps", ctypes.c_int64),
        ("total_steps", ctypes.c_int64),
        ("steps_per_epoch", ctypes.c_int64),
        ("checkpoint_dir", _TEXT),
        ("keep_checkpoints", ctypes.c_int64),
        ("resume", _TEXT),
        ("data", _TEXT),
        ("allow_nan", ctypes.c_int32),
        ("best", _TEXT),
        ("early_stopping", _TEXT),
    ]


class CVerdict(ctypes.Structure):
    """mpc_verdict"""

    _fields_ = [
        ("struct_size", _SIZE),
        ("is_best", ctypes.c_int32),
        ("should_stop", ctypes.c_int32),
    ]


class CProgress(ctypes.Structure):
    """mpc_progress"""

    _fields_ = [
        ("struct_size", _SIZE),
        ("step", ctypes.c_int64),
        ("batches", ctypes.c_int64),
        ("samples", ctypes.c_int64),
        ("skipped", ctypes.c_int64),
        ("epoch", ctypes.c_int64),
        ("step_in_epoch", ctypes.c_int64),
        ("batch_in_step", ctypes.c_int64),
        ("learning_rate", ctypes.c_double),
    ]


class CBatchResult(ctypes.Structure):
    """mpc_batch_result"""

    _fields_ = [
        ("struct_size", _SIZE),
        ("is_step", ctypes.c_int32),
        ("skipped", ctypes.c_int32),
        ("loss", ctypes.c_double),
        ("learning_rate", ctypes.c_double),
        ("accuracy", ctypes.c_double),
        ("grad_norm", ctypes.c_double),
        ("loss_scale", ctypes.c_double),
    ]


class CEvaluationOptions(ctypes.Structure):
    """mpc_evaluation_options"""

    _fields_ = [
        ("struct_size", _SIZE),
        ("metrics", _TEXT),
        ("allow_nan", ctypes.c_int32),
    ]


class CEvaluationResult(ctypes.Structure):
    """mpc_evaluation_result"""

    _fields_ = [
        ("struct_size", _SIZE),
        ("loss", ctypes.c_double),
        ("accuracy", ctypes.c_double),
        ("samples", ctypes.c_int64),
        ("left_out", ctypes.c_int64),
    ]


# Functions that return a status, by their arguments.
_STATUS: dict[str, list[Any]] = {
    "artifact_open": [_TEXT, _POINTER],
    "artifact_open_bytes": [_TEXT, _SIZE, _POINTER],
    "communicator_connect": [_POINTER, _POINTER],
    "communicator_create": [ctypes.c_int32, ctypes.c_int32, _POINTER, _POINTER],
    "communicator_barrier": [_POINTER],
    "session_create": [_POINTER, _POINTER, _POINTER],
    "session_get_state": [_POINTER, _TEXT, _POINTER, _SIZE],
    "session_set_state": [_POINTER, _TEXT, _POINTER, _SIZE],
    "session_derive": [_POINTER],
    "session_set_input": [_POINTER, _TEXT, _TEXT, _POINTER, _SIZE],
    "session_run": [_POINTER, _TEXT],
    "session_run_timed": [_POINTER, _TEXT, _POINTER, _SIZE],
    "session_get_output": [_POINTER, _TEXT, _TEXT, _POINTER, _SIZE],
    "session_load_weights": [_POINTER, _TEXT],
    "session_write_weights": [_POINTER, _TEXT],
    "session_write_onnx": [_POINTER, _TEXT],
    "trainer_create": [_POINTER, _POINTER, _POINTER],
    "trainer_run_batch": [_POINTER, _POINTER, _SIZE, _POINTER],
    "trainer_get_progress": [_POINTER, _POINTER],
    "trainer_set_learning_rate": [_POINTER, ctypes.c_double],
    "trainer_save": [_POINTER],
    "trainer_check_ranks": [_POINTER],
    "trainer_count_evaluation": [_POINTER, _POINTER, _POINTER],
    "trainer_restore_best": [_POINTER, _POINTER],
    "evaluation_create": [_POINTER, _POINTER, _POINTER],
    "evaluation_add": [_POINTER, _POINTER, _SIZE],
    "evaluation_finish": [_POINTER, _POINTER],
    "evaluation_get": [_POINTER, _TEXT, _POINTER],
}
# Other functions: the result, then the arguments.
_PLAIN: dict[str, tuple[Any, list[Any]]] = {
    "version": (_TEXT, []),
    "status_get_code": (ctypes.c_int, [_POINTER]),
    "status_message": (_TEXT, [_POINTER]),
    "status_free": (None, [_POINTER]),
    "artifact_plan": (_POINTER, [_POINTER, _POINTER]),
    "artifact_close": (None, [_POINTER]),
    "communicator_rank": (ctypes.c_int32, [_POINTER]),
    "communicator_size": (ctypes.c_int32, [_POINTER]),
    "communicator_local_rank": (ctypes.c_int32, [_POINTER]),
    "communicator_local_size": (ctypes.c_int32, [_POINTER]),
    "communicator_backend": (_TEXT, [_POINTER]),
    "communicator_bytes_sent": (ctypes.c_uint64, [_POINTER]),
    "communicator_abort": (None, [_POINTER, _TEXT]),
    "communicator_free": (None, [_POINTER]),
    "session_free": (None, [_POINTER]),
    "session_step_count": (_SIZE, [_POINTER, _TEXT]),
    "session_memory_bytes": (_SIZE, [_POINTER]),
    "trainer_free": (None, [_POINTER]),
    "trainer_notes": (_TEXT, [_POINTER]),
    "evaluation_free": (None, [_POINTER]),
}


def find_library() -> pathlib.Path:
    """Returns the path of libmpc_runtime.so. Raises Error if there is none."""
    named = os.environ.get("MPC_RUNTIME_LIBRARY")
    if named:
        return pathlib.Path(named)
    path = pathlib.Path(__file__).parent / "lib" / SONAME
    if not path.exists():
        raise Error(
            f"{path} is missing: install the wheel that tools/wheels builds, or set"
            " MPC_RUNTIME_LIBRARY to the path of libmpc_runtime.so"
        )
    return path


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """Loads the library once. Raises Error if the library cannot be loaded."""
    path = find_library()
    try:
        library = ctypes.CDLL(str(path))
        for name, arguments in _STATUS.items():
            _declare(library, name, _POINTER, arguments)
        for name, (result, arguments) in _PLAIN.items():
            _declare(library, name, result, arguments)
    except (OSError, AttributeError) as error:
        raise Error(f"cannot load {path}: {error}") from error
    return library


def _declare(library: ctypes.CDLL, name: str, result: Any, arguments: list) -> None:
    function = getattr(library, "mpc_" + name)
    function.restype, function.argtypes = result, arguments


def plain(name: str, *arguments: Any) -> Any:
    """Calls mpc_NAME, which cannot fail, and returns its result."""
    return getattr(load(), "mpc_" + name)(*arguments)


def call(name: str, *arguments: Any) -> None:
    """Calls mpc_NAME, which returns a status. Raises the status as an
    exception."""
    status = plain(name, *arguments)
    if not status:
        return
    code = plain("status_get_code", status)
    message = plain("status_message", status).decode(errors="replace")
    plain("status_free", status)
    raise make_error(code, message)


def new(struct: type, *fields: Any) -> Any:
    """Returns a struct of the C API with its size and fields."""
    return struct(ctypes.sizeof(struct), *fields)


def encode(text: str, what: str) -> bytes:
    """Returns `text` as a C string. Raises TypeError unless `text` is a str,
    and ValueError for text that C cannot express."""
    if not isinstance(text, str):
        raise TypeError(f"expected {what} as str, found {type(text).__name__}")
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError(f"{what} {text!r} has a zero byte")
    return data


def as_int(name: str, value: Any, least: int, most: int) -> int:
    """Returns an integer of any type, but no bool, as an int. Raises TypeError
    for other types, and UsageError unless the value is in [least, most]."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise TypeError(f"expected {name} as int, found {type(value).__name__}")
    number = operator.index(value)
    if not least <= number <= most:
        raise UsageError(f"{name}={number} is not in [{least},{most}]")
    return number


def version() -> str:
    """Returns the version of libmpc_runtime.so, such as "0.1.0"."""
    return plain("version").decode()
