"""Executes the README's mpc commands in a folder with the files that they name,
and compares the shown output exactly. test_documents.py covers the docs.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import subprocess

import pytest

import documents
import mpctest

# Building and testing inside a test would recurse. test_install.py covers the
# installation.
INSTALL = "cmake --install build --prefix ~/.local"
OUTER_COMMANDS = {"tools/demo", "tools/test", INSTALL}


COMMANDS = documents.read_commands(mpctest.ROOT / "README.md")


def test_the_outer_commands_exist():
    named = {command for command, _ in COMMANDS}
    assert OUTER_COMMANDS <= named
    for name in OUTER_COMMANDS - {INSTALL}:
        assert os.access(mpctest.ROOT / name, os.X_OK)


@pytest.mark.parametrize(
    "command, shown", [c for c in COMMANDS if c[0] not in OUTER_COMMANDS]
)
def test_command(command, shown, tmp_path):
    shutil.copy(mpctest.MODELS / "digits-cnn.onnx", tmp_path / "model.onnx")
    shutil.copy(mpctest.MODELS / "digits-cnn.onnx", tmp_path / "trained.onnx")
    shutil.copy(mpctest.DIGITS / "digits-train.npz", tmp_path / "train.npz")
    shutil.copy(mpctest.DIGITS / "digits-test.npz", tmp_path / "test.npz")
    process = subprocess.run(
        command,
        shell=True,
        cwd=tmp_path,
        env=documents.environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    if shown:
        assert process.stdout.strip() == shown.strip()
