r"""The README's commands do what it says.

A console block's lines that start with `$` are commands (`\` continues one),
the others their output. mpc's commands are executed, in a folder that has the
files they name, and their output, where the README shows it, must be the same.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import shutil
import subprocess

import pytest

import mpctest

# Building and testing from inside a test would not end; what is installed is
# tried by test_install.py.
INSTALL = "cmake --install build --prefix ~/.local"
OUTER_COMMANDS = {"tools/demo", "tools/test", INSTALL}


def console_commands():
    """(command, shown output) for every command of the README."""
    text = (mpctest.ROOT / "README.md").read_text()
    commands = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.S | re.M):
        for entry in re.split(r"^\$ ", block, flags=re.M)[1:]:
            entry = entry.replace("\\\n", " ")
            command, _, output = entry.partition("\n")
            commands.append((command, output))
    return commands


COMMANDS = console_commands()


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
    path = f"{mpctest.BUILD.resolve() / 'bin'}:{os.environ['PATH']}"
    process = subprocess.run(
        command,
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    if shown:
        assert process.stdout.strip() == shown.strip()
