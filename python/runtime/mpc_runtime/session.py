"""Runs an artifact: sets inputs, runs functions, reads outputs and state.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import difflib
import math
import os
import threading
import weakref
from collections.abc import Mapping as MappingBase
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, Union

import numpy as np

from mpc_runtime import library
from mpc_runtime.artifact import Artifact, PathLike, open_artifact
from mpc_runtime.communicator import Communicator
from mpc_runtime.dlpack import HostTensor
from mpc_runtime.errors import UsageError
from mpc_runtime.labels import check_labels
from mpc_runtime.tensors import TensorInfo, as_array

Batch = Union[Mapping[str, Any], Sequence[Any]]


def _check_rate(rate: Any) -> Any:
    """Returns `rate`. Raises UsageError for numbers that would ruin the weights."""
    if isinstance(rate, (int, float, np.number)) and not 0 <= rate < math.inf:
        raise UsageError(f"the learning rate is {rate}, expected a finite number >= 0")
    return rate

LEARNING_RATE = "learning_rate"


class State(MappingBase):
    """The state of a session: a mapping from names to NumPy arrays.

    Reading copies out of the session: a later step does not change the array.
    Assigning copies in, and updates the state that follows from parameters,
    such as 16-bit copies, before the next use.
    """

    def __init__(self, session: "Session"):
        self._session = session
        self._infos = session.artifact._state_infos

    def info(self, name: str) -> TensorInfo:
        """Describes a variable. Raises KeyError if there is none."""
        if name not in self._infos:
            raise KeyError(_unknown("state variable", name, list(self._infos)))
        return self._infos[name]

    def __getitem__(self, name: str) -> np.ndarray:
        return self._session._get_state(self.info(name))

    def __setitem__(self, name: str, value: Any) -> None:
        info = self.info(name)
        self._session._set_state(info, as_array(value, info))

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def update(self, values: Mapping[str, Any]) -> None:
        """Assigns several variables. Checks all of them first: after an error,
        the state is unchanged."""
        infos = {name: self.info(name) for name in values}
        arrays = {name: as_array(values[name], info) for name, info in infos.items()}
        with self._session._lock:
            for name, array in arrays.items():
                self._session._set_state(infos[name], array)

    def dlpack(self, name: str) -> HostTensor:
        """Returns a copy of a variable for `torch.from_dlpack` and the like.
        bf16 stays bf16."""
        return HostTensor(self.info(name), self[name])

    def parameters(self) -> dict[str, np.ndarray]:
        """Returns the parameters, trained and frozen, by name."""
        roles = ("parameter", "frozen")
        names = [name for name, info in self._infos.items() if info.role in roles]
        with self._session._lock:
            return {name: self[name] for name in names}

    def __repr__(self) -> str:
        return f"<mpc state of {len(self._infos)} variables>"


class Session:
    """An artifact with its state on a device.

    `source` is an Artifact, or what `open` takes. `device` is "cpu", "cuda" or
    "auto". `threads` is the number of threads; 0 is one per physical core.
    `seed` is for dropout and the model's random numbers. `learning_rate` is the
    rate of steps that get no other. `communicator` connects the ranks to train
    with; the artifact must then be compiled with `data_parallel=True` or
    `shard_optimizer=True`. With the latter, all ranks must read and set state,
    `load` and `save` together. Every rank gets the whole state, and only rank 0
    reads or writes files.

    Threads may share a session: its methods run one after the other. A session
    is a context manager that closes itself.

    Raises DeviceError if this machine cannot run the artifact, and UsageError
    for an unknown device or for more than four threads per processor.
    """

    def __init__(
        self,
        source: Artifact | PathLike | bytes,
        *,
        device: str = "cpu",
        threads: int = 0,
        seed: int = 0,
        learning_rate: float | None = None,
        communicator: Communicator | None = None,
    ):
        threads = library.as_int("threads", threads, -(2**31), 2**31 - 1)
        seed = library.as_int("seed", seed, 0, 2**64 - 1)
        artifact = source if isinstance(source, Artifact) else open_artifact(source)
        if not isinstance(communicator, (Communicator, type(None))):
            raise TypeError(
                f"expected a Communicator, found {type(communicator).__name__}"
            )
        options = library.new(
            library.CSessionOptions,
            library.encode(device, "a device"),
            threads,
            seed,
            None if communicator is None else communicator._open(),
        )
        handle = ctypes.c_void_p()
        library.call(
            "session_create",
            artifact._handle,
            ctypes.byref(options),
            ctypes.byref(handle),
        )
        self._handle: ctypes.c_void_p | None = handle
        self._free = weakref.finalize(self, library.load().mpc_session_free, handle)
        # At exit, a daemon thread may still be in the library.
        self._free.atexit = False
        self._lock = threading.RLock()
        self._is_stale = False
        self.communicator = communicator
        self.artifact = artifact
        self.learning_rate = learning_rate

    def close(self) -> None:
        """Frees the session. Waits for a function that another thread runs.
        Closing twice does nothing."""
        with self._lock:
            self._handle = None
            self._free()

    @property
    def state(self) -> State:
        """The state: a mapping from names to NumPy arrays."""
        # A session that held the mapping would be a cycle, and outlive its last
        # reference.
        return State(self)

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._handle is None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    @property
    def memory_bytes(self) -> int:
        """The bytes that the session holds: state, inputs, values between."""
        with self._lock:
            return library.plain("session_memory_bytes", self._open())

    def step(self, batch: Batch, learning_rate: float | None = None) -> float:
        """Trains one batch: loss, gradients and update. Returns the loss of the
        batch before the update.

        `batch` maps the names of inputs to arrays, or lists the arrays in the
        order of `artifact.inputs("step")` without scalars. Each array needs the
        declared shape; `as_array` lists the conversions of types.
        `learning_rate` is the rate of this step; by default
        `session.learning_rate`. `outputs("step")` then has the other results,
        such as "finite" or "grad_norm".

        Raises UsageError for unknown or missing names and without a learning
        rate, InvalidInputError for wrong shapes, values and indices, and
        TypeError for values that are no numbers.
        """
        if "step" not in self.artifact.functions and (
            "accumulate" in self.artifact.functions
        ):
            raise UsageError(
                "the artifact accumulates gradients: call accumulate(batch)"
                f" {self.artifact.recipe.get('accumulate')} times, then update()"
            )
        with self._lock:
            self._set_batch("step", batch, learning_rate)
            self._run("step")
            return self._loss("step")

    def accumulate(self, batch: Batch) -> float:
        """Adds the gradients of one micro-batch, and returns its loss. For
        artifacts compiled with --accumulate-grad-batches; arguments and errors
        are those of `step`."""
        with self._lock:
            self._set_batch("accumulate", batch, None)
            self._run("accumulate")
            return self._loss("accumulate")

    def update(self, learning_rate: float | None = None) -> dict[str, np.ndarray]:
        """Updates the parameters after the micro-batches of `accumulate`, and
        returns the outputs of the function "update"."""
        with self._lock:
            self._set_batch("update", {}, learning_rate)
            self._run("update")
            return self.outputs("update")

    def eval(self, batch: Batch) -> dict[str, np.ndarray]:
        """Evaluates one batch without an update. Returns the outputs by name:
        the loss, and predictions. Arguments and errors are those of `step`."""
        return self.run("eval", batch)

    def run(self, function: str, batch: Batch | None = None) -> dict[str, np.ndarray]:
        """Runs a function of the artifact, and returns its outputs by name.

        `batch` gives the inputs, as for `step`. An input of role "scalar" may
        be left out after it was given once.
        """
        with self._lock:
            self._set_batch(function, {} if batch is None else batch, None)
            self._run(function)
            return self.outputs(function)

    def outputs(self, function: str) -> dict[str, np.ndarray]:
        """Returns the outputs of the last run of `function` by name.

        Functions share memory. Raises UsageError if the function has not run,
        or if another function has run since.
        """
        with self._lock:
            return {
                info.name: self._get_output(function, info)
                for info in self.artifact.outputs(function)
            }

    def run_timed(self, function: str) -> np.ndarray:
        """Runs a function on the inputs of its last run, and returns the seconds
        of each step of the plan, f64[steps]. Run the function once before."""
        with self._lock:
            self.artifact.function(function)
            name = function.encode()
            count = library.plain("session_step_count", self._open(), name)
            seconds = np.empty(count, np.float64)
            self._derive()
            library.call(
                "session_run_timed", self._open(), name, seconds.ctypes.data, count
            )
            return seconds

    def evaluate(
        self,
        batches: Mapping[str, Any] | Iterable[Batch],
        metrics: Sequence[str] = (),
        *,
        allow_nan: bool = False,
    ) -> dict[str, float]:
        """Evaluates any number of samples as `mpc eval` does. Returns "loss",
        "samples", "accuracy" if the loss has one, and a figure for each of
        `metrics`, names of --metric such as "f1" or "top5".

        `batches` is a mapping from names of inputs to arrays, or an iterable of
        batches. Each may have any number of samples: the result does not depend
        on the division. "left_out" counts samples at the end that fill no batch
        and cannot be padded. With averaged weights (--ema), evaluates these. With
        a communicator, each rank gives samples of its own, and gets the figures
        over the samples of all.

        Raises UsageError for unknown names and metrics, and without samples;
        UnsupportedError if the artifact has no function "eval";
        InvalidInputError for wrong shapes and labels, and for values that are not
        finite unless `allow_nan`.
        """
        return self._evaluate(batches, metrics, allow_nan, lambda handle: {})

    def _evaluate(
        self,
        batches: Mapping[str, Any] | Iterable[Batch],
        metrics: Sequence[str],
        allow_nan: bool,
        use: Callable[[ctypes.c_void_p], dict[str, Any]],
    ) -> dict[str, Any]:
        """Like `evaluate`. Calls `use` with the finished evaluation, and adds the
        result to the figures."""
        if isinstance(batches, MappingBase):
            batches = [batches]
        if isinstance(metrics, str):
            metrics = [metrics]
        names = library.encode(",".join(metrics), "metrics") if metrics else None
        with self._lock:
            self._derive()
            options = library.new(library.CEvaluationOptions, names, int(allow_nan))
            handle = ctypes.c_void_p()
            library.call(
                "evaluation_create",
                self._open(),
                ctypes.byref(options),
                ctypes.byref(handle),
            )
            try:
                for batch in batches:
                    structs, arrays = self._make_arrays("eval", batch, any_count=True)
                    library.call("evaluation_add", handle, structs, len(arrays))
                return {**_finish_evaluation(handle, metrics), **use(handle)}
            finally:
                library.plain("evaluation_free", handle)

    def load(self, path: PathLike) -> None:
        """Sets parameters and running statistics to the arrays of the same name
        in a .safetensors or .npz file, or in a checkpoint's folder. A `Trainer`
        with `resume` also continues the optimizer.

        Raises FileError if the file cannot be read, InvalidInputError if it is
        damaged or does not fit, CheckpointError if a checkpoint is damaged or of
        another model. State is unchanged then.
        """
        with self._lock:
            # Loading derives.
            library.call(
                "session_load_weights",
                self._open(),
                library.encode(os.fsdecode(path), "a path"),
            )

    def save(self, path: PathLike) -> None:
        """Writes parameters and running statistics: .safetensors, .npz, or .onnx
        for the whole model. The file appears whole or not at all. With averaged
        weights (--ema), writes these.

        Raises UsageError for another extension, FileError if the file cannot be
        written, UnsupportedError for .onnx if the artifact does not hold its
        model.
        """
        text = os.fsdecode(path)
        kind = "onnx" if text.endswith(".onnx") else "weights"
        with self._lock:
            library.call(
                f"session_write_{kind}", self._open(), library.encode(text, "a path")
            )

    # The methods below expect that the caller holds the lock.

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise UsageError("the session is closed")
        return self._handle

    def _make_arrays(
        self, function: str, batch: Batch, any_count: bool
    ) -> tuple[Any, list[np.ndarray]]:
        """Returns the samples of a batch as an array of mpc_array, and the NumPy
        arrays that own the memory."""
        inputs = [i for i in self.artifact.inputs(function) if i.role != "scalar"]
        values = _name_values(function, inputs, batch)
        _check_missing(function, inputs, values)
        arrays = [as_array(values[i.name], i, any_count) for i in inputs]
        structs = (library.CArray * len(inputs))(
            *(
                library.CArray(info.name.encode(), array.ctypes.data, array.nbytes)
                for info, array in zip(inputs, arrays)
            )
        )
        return structs, arrays

    def _derive(self) -> None:
        if self._is_stale:
            library.call("session_derive", self._open())
            self._is_stale = False

    def _run(self, function: str) -> None:
        self._derive()
        library.call("session_run", self._open(), function.encode())

    def _loss(self, function: str) -> float:
        for info in self.artifact.outputs(function):
            if info.role == "loss":
                return float(self._get_output(function, info))
        raise UsageError(f"the function {function!r} has no loss")

    def _set_batch(
        self, function: str, batch: Batch, learning_rate: float | None
    ) -> None:
        """Sets the inputs of a function. Converts all arrays first: an error
        leaves all inputs as they were."""
        self._open()
        inputs = self.artifact.inputs(function)
        values = _name_values(function, inputs, batch)
        if LEARNING_RATE not in values:
            rate = self.learning_rate if learning_rate is None else learning_rate
            if any(info.name == LEARNING_RATE for info in inputs):
                if rate is None:
                    raise UsageError(
                        "no learning rate: give step(batch, learning_rate=...), or set"
                        " session.learning_rate"
                    )
                values[LEARNING_RATE] = _check_rate(rate)
            elif learning_rate is not None:
                raise UsageError(
                    f"the function {function!r} takes no learning rate; the rate is"
                    " part of the model"
                )
        _check_missing(function, inputs, values)
        arrays = {
            info.name: as_array(values[info.name], info)
            for info in inputs
            if info.name in values
        }
        for info in inputs:
            if info.name in arrays:
                check_labels(arrays[info.name], info, self.artifact.recipe)
        for name, array in arrays.items():
            library.call(
                "session_set_input",
                self._open(),
                function.encode(),
                name.encode(),
                array.ctypes.data,
                array.nbytes,
            )

    def _get_output(self, function: str, info: TensorInfo) -> np.ndarray:
        array = np.empty(info.shape, info.dtype)
        library.call(
            "session_get_output",
            self._open(),
            function.encode(),
            info.name.encode(),
            array.ctypes.data,
            array.nbytes,
        )
        return array

    def _get_state(self, info: TensorInfo) -> np.ndarray:
        with self._lock:
            self._open()
            self._derive()
            array = np.empty(info.shape, info.dtype)
            library.call(
                "session_get_state",
                self._open(),
                info.name.encode(),
                array.ctypes.data,
                array.nbytes,
            )
            return array

    def _set_state(self, info: TensorInfo, array: np.ndarray) -> None:
        with self._lock:
            library.call(
                "session_set_state",
                self._open(),
                info.name.encode(),
                array.ctypes.data,
                array.nbytes,
            )
            self._is_stale = True

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.memory_bytes} bytes"
        return f"<mpc session of {self.artifact!r}: {state}>"


def _name_values(
    function: str, inputs: Sequence[TensorInfo], batch: Batch
) -> dict[str, Any]:
    """Returns the values of `batch` by the names of inputs."""
    if isinstance(batch, MappingBase):
        names = [info.name for info in inputs]
        for name in batch:
            if name not in names:
                raise UsageError(_unknown(f"input of {function!r}", name, names))
        return dict(batch)
    if isinstance(batch, (list, tuple)):
        names = [info.name for info in inputs if info.role != "scalar"]
        if len(batch) != len(names):
            raise UsageError(
                f"the function {function!r} takes {len(names)} arrays"
                f" ({_list(names)}), found {len(batch)}"
            )
        return dict(zip(names, batch))
    raise TypeError(
        "expected a batch as a mapping from names to arrays, or a list or tuple of"
        f" arrays, found {type(batch).__name__}"
    )


def _check_missing(
    function: str, inputs: Sequence[TensorInfo], values: Mapping[str, Any]
) -> None:
    missing = [i.name for i in inputs if i.name not in values and i.role != "scalar"]
    if missing:
        raise UsageError(
            f"the function {function!r} needs {_list(missing)}; its inputs are"
            f" {'; '.join(map(str, inputs))}"
        )


def _finish_evaluation(
    handle: ctypes.c_void_p, metrics: Sequence[str]
) -> dict[str, float]:
    result = library.new(library.CEvaluationResult)
    library.call("evaluation_finish", handle, ctypes.byref(result))
    figures = {"loss": result.loss, "samples": result.samples}
    if not math.isnan(result.accuracy):
        figures["accuracy"] = result.accuracy
    if result.left_out:
        figures["left_out"] = result.left_out
    value = ctypes.c_double()
    for name in metrics:
        library.call("evaluation_get", handle, name.encode(), ctypes.byref(value))
        figures[name] = value.value
    return figures


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "nothing"


def _unknown(kind: str, name: object, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(name), names, n=3)
    hint = f"did you mean {_list(near)}?" if near else f"there are {_list(names[:20])}"
    return f"no {kind} is called {name!r}; {hint}"
