"""The runtime's C API for Python: opens artifacts, runs functions, reads state.

Needs NumPy, and of mpc only libmpc_runtime.so, so that a GPU machine without
the compiler can run artifacts compiled elsewhere. Sets inputs and runs functions
in separate calls, for measurements; programs use the package in
python/runtime/mpc_runtime.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import json

import numpy as np

# Indexed by mpc_type. bf16 has no NumPy type and is passed as bits.
DTYPES = [
    np.float16,
    np.uint16,
    np.float32,
    np.float64,
    np.int32,
    np.int64,
    np.bool_,
    np.uint8,
    np.int8,
    np.uint16,
    np.int16,
    np.uint32,
    np.uint64,
]


class Error(Exception):
    """A status other than MPC_OK. Its code is an exit code of mpc."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class _TensorInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("role", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("rank", ctypes.c_size_t),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_size_t),
    ]


class _SessionOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("device", ctypes.c_char_p),
        ("threads", ctypes.c_int32),
    ]


class TensorInfo:
    """Name, role, NumPy type and shape of a state variable, input or output."""

    def __init__(self, raw):
        self.name = raw.name.decode()
        self.role = raw.role.decode()
        self.dtype = np.dtype(DTYPES[raw.type])
        self.shape = tuple(raw.shape[i] for i in range(raw.rank))
        self.bytes = raw.bytes


class Runtime:
    """libmpc_runtime.so."""

    # pylint: disable=protected-access

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        signatures = {
            "status_get_code": (ctypes.c_int, [pointer]),
            "status_message": (text, [pointer]),
            "status_free": (None, [pointer]),
            "artifact_open": (pointer, [text, pointer]),
            "artifact_plan": (pointer, [pointer, pointer]),
            "artifact_close": (None, [pointer]),
            "session_create": (pointer, [pointer, pointer, pointer]),
            "session_free": (None, [pointer]),
            "session_state_count": (ctypes.c_size_t, [pointer]),
            "session_state_info": (
                pointer,
                [pointer, ctypes.c_size_t, pointer],
            ),
            "session_get_state": (
                pointer,
                [pointer, text, pointer, ctypes.c_size_t],
            ),
            "session_set_state": (
                pointer,
                [pointer, text, pointer, ctypes.c_size_t],
            ),
            "session_derive": (pointer, [pointer]),
            "session_run": (pointer, [pointer, text]),
            "session_step_count": (ctypes.c_size_t, [pointer, text]),
            "session_run_timed": (
                pointer,
                [pointer, text, pointer, ctypes.c_size_t],
            ),
            "session_set_input": (
                pointer,
                [pointer, text, text, pointer, ctypes.c_size_t],
            ),
            "session_get_output": (
                pointer,
                [pointer, text, text, pointer, ctypes.c_size_t],
            ),
            "session_memory_bytes": (ctypes.c_size_t, [pointer]),
        }
        for kind in ("input", "output"):
            signatures[f"session_{kind}_count"] = (
                ctypes.c_size_t,
                [pointer, text],
            )
            signatures[f"session_{kind}_info"] = (
                pointer,
                [pointer, text, ctypes.c_size_t, pointer],
            )
        for name, (result, arguments) in signatures.items():
            function = getattr(self.library, "mpc_" + name)
            function.restype, function.argtypes = result, arguments

    def call(self, name, *arguments):
        """Calls a function that returns a status."""
        status = getattr(self.library, "mpc_" + name)(*arguments)
        if status:
            code = self.library.mpc_status_get_code(status)
            message = self.library.mpc_status_message(status).decode()
            self.library.mpc_status_free(status)
            raise Error(code, message)

    def open(self, path, device, threads=0):
        return Session(self, path, device, threads)


    def plan(self, path):
        """Returns the plan of an artifact."""
        artifact = ctypes.c_void_p()
        self.call("artifact_open", str(path).encode(), ctypes.byref(artifact))
        plan = self.plan_of(artifact)
        self.library.mpc_artifact_close(artifact)
        return plan

    def plan_of(self, artifact):
        size = ctypes.c_size_t()
        text = self.library.mpc_artifact_plan(artifact, ctypes.byref(size))
        return json.loads(ctypes.string_at(text, size.value))


class Session:
    """An artifact with its state on a device."""

    def __init__(self, runtime, path, device, threads):
        self.runtime = runtime
        self.artifact, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        runtime.call(
            "artifact_open", str(path).encode(), ctypes.byref(self.artifact)
        )
        self.plan = runtime.plan_of(self.artifact)
        options = _SessionOptions(
            ctypes.sizeof(_SessionOptions), device.encode(), threads
        )
        runtime.call(
            "session_create",
            self.artifact,
            ctypes.byref(options),
            ctypes.byref(self.session),
        )

    def close(self):
        self.runtime.library.mpc_session_free(self.session)
        self.runtime.library.mpc_artifact_close(self.artifact)
        self.session, self.artifact = None, None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _infos(self, count, name, *function):
        infos = []
        for i in range(count):
            raw = _TensorInfo(struct_size=ctypes.sizeof(_TensorInfo))
            self.runtime.call(
                name, self.session, *function, i, ctypes.byref(raw)
            )
            infos.append(TensorInfo(raw))
        return infos

    def inputs(self, function):
        return self._values("input", function)

    def outputs(self, function):
        return self._values("output", function)

    def _values(self, kind, function):
        count = getattr(
            self.runtime.library, f"mpc_session_{kind}_count"
        )(self.session, function.encode())
        name = f"session_{kind}_info"
        return self._infos(count, name, function.encode())

    def states(self):
        count = self.runtime.library.mpc_session_state_count(self.session)
        return self._infos(count, "session_state_info")

    def set_input(self, function, name, array):
        array = np.ascontiguousarray(array)
        self.runtime.call(
            "session_set_input",
            self.session,
            function.encode(),
            name.encode(),
            array.ctypes.data,
            array.nbytes,
        )

    def run(self, function):
        self.runtime.call("session_run", self.session, function.encode())

    def run_timed(self, function):
        """Like `run`. Returns the seconds of each step of the plan."""
        count = self.runtime.library.mpc_session_step_count(
            self.session, function.encode()
        )
        seconds = np.empty(count, np.float64)
        self.runtime.call(
            "session_run_timed",
            self.session,
            function.encode(),
            seconds.ctypes.data,
            count,
        )
        return seconds

    def output(self, function, info):
        array = np.empty(info.shape, info.dtype)
        self.runtime.call(
            "session_get_output",
            self.session,
            function.encode(),
            info.name.encode(),
            array.ctypes.data,
            array.nbytes,
        )
        return array

    def state(self, info):
        array = np.empty(info.shape, info.dtype)
        self.runtime.call(
            "session_get_state",
            self.session,
            info.name.encode(),
            array.ctypes.data,
            array.nbytes,
        )
        return array

    def set_state(self, info, array):
        """After replacing a parameter, call `derive` before the next run."""
        array = np.ascontiguousarray(array, info.dtype)
        self.runtime.call(
            "session_set_state",
            self.session,
            info.name.encode(),
            array.ctypes.data,
            array.nbytes,
        )

    def derive(self):
        self.runtime.call("session_derive", self.session)

    def memory_bytes(self):
        return self.runtime.library.mpc_session_memory_bytes(self.session)
