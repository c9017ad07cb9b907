"""Tests the packages in python/ against this build: the library and the command
of MPC_BUILD_DIR.

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys

import numpy as np
import pytest

import mpctest

for package in ("runtime", "compiler"):
    sys.path.insert(0, str(mpctest.ROOT / "python" / package))
os.environ["MPC_RUNTIME_LIBRARY"] = str(mpctest.BUILD / "lib" / "libmpc_runtime.so")
os.environ["MPC_COMMAND"] = str(mpctest.MPC)

import mpc_runtime as mpc  # noqa: E402

MODEL = mpctest.MODELS / "digits-cnn.onnx"
RECIPE = {"loss": "softmax_cross_entropy", "optimizer": "adamw", "batch_size": 32}


def load_digits(name):
    with np.load(mpctest.DIGITS / f"digits-{name}.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="session", name="digits")
def read_digits():
    """The training digits: image u8[1438,1,8,8], target u8[1438]."""
    return load_digits("train")


@pytest.fixture(name="batch")
def first_batch(digits):
    """The first 32 digits."""
    return {name: array[:32] for name, array in digits.items()}


@pytest.fixture(scope="session", name="artifact")
def compile_artifact():
    """The digits model, trained in bf16-mixed with batches of 32."""
    return mpc.compile(MODEL, precision="bf16-mixed", **RECIPE)


@pytest.fixture(name="session")
def new_session(artifact):
    with mpc.Session(artifact, learning_rate=1e-3, threads=1) as session:
        yield session
