"""mpc for Python: train ONNX models in mixed precision.

    import mpc_runtime as mpc

    artifact = mpc.compile("model.onnx", loss="cross_entropy",
                           optimizer="adamw", batch_size=32)
    with mpc.Session(artifact, learning_rate=1e-3) as session:
        loss = session.step({"image": images, "target": labels})

`open`, `Session` and `Trainer` need this package and NumPy alone. `train`,
`compile`, `evaluate` and `backend` run the command of the wheel mpc-compiler.

SPDX-License-Identifier: Apache-2.0
"""

import importlib
from typing import Any

from mpc_runtime.artifact import Artifact, Function
from mpc_runtime.artifact import open_artifact as open  # noqa: A004
from mpc_runtime.command import CommandWarning, Training, evaluate, find_command
from mpc_runtime.command import compile_model as compile  # noqa: A004
from mpc_runtime.command import run_command, train
from mpc_runtime.communicator import Communicator
from mpc_runtime.dlpack import HostTensor
from mpc_runtime.errors import (
    CheckpointError,
    DeviceError,
    Error,
    ExitCode,
    FileError,
    InternalError,
    InvalidInputError,
    NumericError,
    RankError,
    UnsupportedError,
    UsageError,
)
from mpc_runtime.library import version
from mpc_runtime.session import Session, State
from mpc_runtime.tensors import TensorInfo
from mpc_runtime.trainer import BatchResult, Progress, Trainer

__all__ = [
    "Artifact",
    "BatchResult",
    "CheckpointError",
    "CommandWarning",
    "Communicator",
    "DeviceError",
    "Error",
    "ExitCode",
    "FileError",
    "Function",
    "HostTensor",
    "InternalError",
    "InvalidInputError",
    "NumericError",
    "Progress",
    "RankError",
    "Session",
    "State",
    "TensorInfo",
    "Trainer",
    "Training",
    "UnsupportedError",
    "UsageError",
    "compile",
    "evaluate",
    "find_command",
    "open",
    "run_command",
    "train",
    "version",
]


def __getattr__(name: str) -> Any:
    # The backend needs the package onnx, which others need not have.
    if name == "backend":
        return importlib.import_module("mpc_runtime.backend")
    raise AttributeError(f"module 'mpc_runtime' has no attribute {name!r}")
