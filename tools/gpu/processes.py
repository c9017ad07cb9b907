"""Runs other programs with a time limit.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import os
import signal
import subprocess
import tempfile

# Stop waiting for a killed program after this time: a program that waits for a
# driver may not end.
SECONDS_TO_DIE = 10


PR_SET_PDEATHSIG = 1


def end_with_parent():
    """Makes programs started by `run` end with their parent, so that killing
    the parent frees the GPU."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command, seconds):
    """Returns the program's exit code, and its output on both streams. If the
    program exceeds the time, it is killed with all its children and the code is
    None."""
    # Files, not pipes: a pipe ends only when the last process that has it does.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code = process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            try:
                process.wait(SECONDS_TO_DIE)
            except subprocess.TimeoutExpired:
                pass
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return code, *texts
