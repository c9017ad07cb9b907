"""Exceptions for failures of the runtime and of the command mpc.

Each exit code of mpc has an exception. All of them are `Error`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """The exit codes of the command mpc, which also classify exceptions."""

    FOUND_PROBLEMS = 1
    USAGE = 2
    INVALID_INPUT = 3
    UNSUPPORTED = 4
    IO = 5
    DEVICE = 6
    NUMERIC = 7
    CHECKPOINT = 8
    RANK = 9
    INTERNAL = 70


class Error(Exception):
    """A failure of the runtime or of the command mpc.

    `code` is the exit code: a member of `ExitCode`, or 128 plus the number of
    the signal that ended the command. `message` is mpc's own text. `output` is
    what the command wrote to standard output before.
    """

    code: int = ExitCode.INTERNAL

    def __init__(self, message: str, code: int | None = None, output: str = ""):
        super().__init__(message)
        self.message = message
        self.output = output
        if code is not None:
            self.code = code


class UsageError(Error, ValueError):
    """A wrong argument, name, flag or order of calls (2)."""

    code = ExitCode.USAGE


class InvalidInputError(Error, ValueError):
    """A file or an array that breaks the rules (3)."""

    code = ExitCode.INVALID_INPUT


class UnsupportedError(Error, NotImplementedError):
    """Valid, but mpc cannot do it (4)."""

    code = ExitCode.UNSUPPORTED


class FileError(Error, OSError):
    """A file cannot be read or written, or memory is short (5)."""

    code = ExitCode.IO


class DeviceError(Error):
    """The device is missing, unsuitable or failed (6)."""

    code = ExitCode.DEVICE


class NumericError(Error, ArithmeticError):
    """A loss or a weight is not finite (7)."""

    code = ExitCode.NUMERIC


class CheckpointError(Error):
    """A checkpoint does not fit the run (8)."""

    code = ExitCode.CHECKPOINT


class RankError(Error):
    """A rank failed, was lost or never came (9)."""

    code = ExitCode.RANK


class InternalError(Error):
    """mpc broke its own rules (70): a bug of mpc."""

    code = ExitCode.INTERNAL


_CLASSES: dict[int, type[Error]] = {
    int(kind.code): kind
    for kind in (
        UsageError,
        InvalidInputError,
        UnsupportedError,
        FileError,
        DeviceError,
        NumericError,
        CheckpointError,
        RankError,
        InternalError,
    )
}


def make_error(code: int, message: str, output: str = "") -> Error:
    """Returns the exception of an exit code; `Error` if the code has none."""
    return _CLASSES.get(code, Error)(message, code, output)
