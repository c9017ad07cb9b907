"""Runs the command mpc: trains, compiles, evaluates.

The wheel mpc-compiler carries the command. MPC_COMMAND names another one, such
as build/bin/mpc of a build of the tree.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import collections
import functools
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
import zipfile
from typing import IO, Any, Iterator, Mapping, Sequence, Union

import numpy as np

from mpc_runtime.artifact import Artifact, PathLike, open_artifact
from mpc_runtime.errors import Error, FileError, UsageError, make_error

Data = Union[PathLike, Mapping[str, Any], Sequence[PathLike]]

# Flags whose values may be arrays, which the command reads from a file.
_DATA_FLAGS = ("data", "val-data")
_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class CommandWarning(UserWarning):
    """A warning of the command mpc."""


def find_command() -> str:
    """Returns the path of the command mpc: MPC_COMMAND, the command of the
    wheel mpc-compiler, or mpc on PATH. Raises FileError if there is none."""
    named = os.environ.get("MPC_COMMAND")
    if named:
        return named
    try:
        return importlib.import_module("mpc_compiler").find_mpc()
    except (ImportError, FileNotFoundError):
        pass
    path = shutil.which("mpc")
    if path and _is_compiler(path):
        return path
    found = f"; {path} is another program" if path else ""
    raise FileError(
        f"the command mpc is missing{found}: pip install mpc-compiler, or set"
        " MPC_COMMAND to its path"
    )


@functools.lru_cache(maxsize=None)
def _is_compiler(path: str) -> bool:
    """True unless `path` is another mpc, such as the client of a music player."""
    try:
        process = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return re.match(r"mpc \d", process.stdout) is not None


def _write_model(model: Any, folder: pathlib.Path) -> str:
    """Returns the path of `model`, which may be a ModelProto of ONNX."""
    if hasattr(model, "SerializeToString"):
        path = folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return str(path)
    return _path(model, "a model")


def _path(value: Any, what: str) -> str:
    try:
        return os.fsdecode(value)
    except TypeError:
        raise TypeError(
            f"expected {what} as a path, found {type(value).__name__}"
        ) from None


def _write_arrays(name: str, arrays: Mapping[str, Any], folder: pathlib.Path) -> str:
    path = folder / f"{name}.npz"
    # np.savez takes names as arguments, and has arguments of its own.
    with zipfile.ZipFile(path, "w") as archive:
        for key, value in arrays.items():
            array = np.asarray(value)
            if array.dtype.kind not in "biuf":
                raise TypeError(f"{name}: array '{key}' has the type {array.dtype}")
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return str(path)


def make_arguments(flags: Mapping[str, Any], folder: pathlib.Path) -> list[str]:
    """Returns the words of a command line for keyword arguments.

    `batch_size=32` is --batch-size 32. True is the flag alone; False and None
    leave the flag out; a list repeats the flag. `data` and `val_data` may map
    names to arrays, which are written into `folder`.
    """
    words = []
    for keyword, value in flags.items():
        name = keyword.strip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(f"--{name}")
            continue
        if name in _DATA_FLAGS and isinstance(value, Mapping):
            value = _write_arrays(name, value, folder)
        elif name in _DATA_FLAGS and not isinstance(value, (list, tuple)):
            value = _path(value, f"{keyword}, unless it maps names to arrays,")
        several = isinstance(value, (list, tuple))
        for item in value if several else [value]:
            words.append(f"--{name}={_word(keyword, item)}")
    return words


def _word(keyword: str, value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{keyword}: a list of flags has no bool")
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    if isinstance(value, (int, float)):
        return repr(value)
    return _path(value, keyword)


class Training:
    """A running `mpc train`, and an iterator over its metrics.

    Each item is a dict with an "event": "start", "train", "eval", "checkpoint"
    or "end"; docs/logging.md lists the keys. After the last item, a failure of
    the command raises the exception of its exit code. `log` has the text that
    the command wrote to standard error.

    `close`, or leaving a `with` block, ends the command as Ctrl-C does: it
    saves what the flags ask for.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: tempfile.TemporaryDirectory,
        verbose: bool,
    ):
        self._lines: collections.deque[str] = collections.deque(maxlen=10000)
        self._is_closed = False
        self.command = list(command)
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                # Ctrl-C in a terminal then reaches this program alone, which
                # interrupts the command once: a second signal would abort it.
                start_new_session=True,
            )
        except OSError as error:
            folder.cleanup()
            raise FileError(f"cannot run {command[0]}: {error}") from error
        self._out: IO[str] = self._process.stdout  # type: ignore[assignment]
        # A full pipe would stop the command. The thread must not keep the
        # training alive.
        reader = threading.Thread(
            target=_read_log,
            args=(self._process.stderr, self._lines, verbose),
            daemon=True,
        )
        reader.start()
        # Also runs at exit, while the thread can still end.
        self._end = weakref.finalize(self, _end, self._process, reader, folder)

    @property
    def log(self) -> str:
        """The last 10000 lines that the command wrote to standard error."""
        return "".join(self._lines)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the command; None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        if self._is_closed:
            raise StopIteration
        try:
            line = self._out.readline()
            # Flags such as --help print text instead.
            while line and not line.startswith("{"):
                self._lines.append(line)
                line = self._out.readline()
        except BaseException:
            self.close()
            raise
        if line:
            return {
                key: _NUMBERS.get(value, value) if isinstance(value, str) else value
                for key, value in json.loads(line).items()
            }
        # The command has closed its output, so it is ending.
        self._process.wait()
        code = self._finish()
        if code != 0:
            raise make_error(code, _message(self.log, code))
        raise StopIteration

    def wait(self) -> list[dict[str, Any]]:
        """Waits for the end, and returns the remaining metrics. Raises like the
        iterator."""
        return list(self)

    def close(self) -> None:
        """Ends the command, and waits until it has saved. Raises nothing if the
        command fails meanwhile: `exit_code` tells."""
        if not self._is_closed:
            self._finish()

    def _finish(self) -> int:
        self._is_closed = True
        self._end()
        _warn(self.log)
        return self.exit_code or 0

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_end") and not self._is_closed:
            warnings.warn(
                "a training was left before its end: iterate over it, or call wait()",
                ResourceWarning,
                source=self,
            )


def _read_log(
    stream: IO[str], lines: collections.deque[str], verbose: bool
) -> None:
    for line in stream:
        lines.append(line)
        if verbose:
            sys.stderr.write(line)


def _end(
    process: subprocess.Popen[str],
    reader: threading.Thread,
    folder: tempfile.TemporaryDirectory,
) -> None:
    """Interrupts the command if it runs, and waits until it has saved."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    # The command may be waiting for room in the pipe.
    for _ in process.stdout or ():
        pass
    process.wait()
    reader.join()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    folder.cleanup()


def _warn(log: str) -> None:
    for line in log.splitlines():
        if line.startswith("warning: "):
            warnings.warn(line[len("warning: ") :], CommandWarning, stacklevel=4)


def _message(log: str, code: int) -> str:
    """Returns mpc's message: the lines from the first error on."""
    lines = log.splitlines()
    for i, line in enumerate(lines):
        if "error: " in line:
            return "\n".join(lines[i:]).replace("error: ", "", 1)
    if code > 128:
        return f"the command ended by {_signal_name(code - 128)}"
    return "\n".join(lines[-5:]) or f"the command ended with exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def train(
    model: Any, data: Data, *, verbose: bool = False, **flags: Any
) -> Training:
    """Runs `mpc train`, and yields its metrics while it runs.

    `model` is the path of an ONNX model or an artifact, or a ModelProto. `data`
    is a path, a list of paths, or a mapping from names to arrays of samples,
    the labels as "target". `flags` are the flags of `mpc train`:
    `batch_size=32` is --batch-size 32, `train_accuracy=True` is
    --train-accuracy, and a list repeats a flag. `val_data` takes arrays, too.
    `verbose` shows lines of progress on standard error.

        for event in train("model.onnx", {"x": x, "target": y}, epochs=3,
                           loss="cross_entropy", output="trained.onnx"):
            if event["event"] == "eval":
                print(event["eval_accuracy"])

    Raises an `Error` with mpc's message and exit code: UsageError for a wrong
    flag, InvalidInputError for a wrong model or data, NumericError for a loss
    that is not finite, and so on. Warnings of mpc become CommandWarning.
    """
    if "-" in (flags.get("output"), flags.get("o")):
        raise UsageError("output='-' has no place to go; name a file")
    folder = tempfile.TemporaryDirectory(prefix="mpc-")
    try:
        path = pathlib.Path(folder.name)
        command = [find_command(), "train", _write_model(model, path)]
        command += make_arguments({"data": data, **flags}, path)
        command.append("--metrics=-")
    except BaseException:
        folder.cleanup()
        raise
    return Training(command, folder, verbose)


def run_command(name: str, model: Any, **flags: Any) -> str:
    """Runs another command of mpc on a model, and returns its standard output.

        run_command("explain", "model.onnx", precision="bf16-mixed")

    `flags` and errors are those of `train`. The `output` of an error is what the
    command wrote before, such as the findings of "check".
    """
    with tempfile.TemporaryDirectory(prefix="mpc-") as folder:
        path = pathlib.Path(folder)
        command = [find_command(), name, _write_model(model, path)]
        command += make_arguments(flags, path)
        try:
            process = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise FileError(f"cannot run {command[0]}: {error}") from error
    code = process.returncode
    if code != 0:
        code = code if code > 0 else 128 - code
        raise make_error(code, _message(process.stderr, code), process.stdout)
    _warn(process.stderr)
    return process.stdout


def evaluate(model: Any, data: Data, **flags: Any) -> dict[str, Any]:
    """Runs `mpc eval`, and returns the figures: "eval_loss", "eval_accuracy",
    ... Arguments and errors are those of `train`."""
    text = run_command("eval", model, data=data, format="jsonl", **flags)
    return json.loads(text)


def compile_model(model: Any, output: PathLike | None = None, **flags: Any) -> Artifact:
    """Runs `mpc compile`, and opens the artifact.

    `output` is the path of the artifact; without, no file stays. `flags` and
    errors are those of `train`, such as `loss`, `optimizer`, `batch_size`.
    """
    if output is not None:
        run_command("compile", model, output=output, **flags)
        return open_artifact(output)
    with tempfile.TemporaryDirectory(prefix="mpc-") as folder:
        path = pathlib.Path(folder) / "model.mpc"
        run_command("compile", model, output=path, **flags)
        return open_artifact(path.read_bytes())


__all__ = [
    "CommandWarning",
    "Error",
    "Training",
    "compile_model",
    "evaluate",
    "find_command",
    "run_command",
    "train",
]
