"""Runs other programs, for a limited time.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import os
import signal
import subprocess
import tempfile

# After which a program that was killed is left to itself: one that waits for a
# driver may not end.
SECONDS_TO_DIE = 10


PR_SET_PDEATHSIG = 1


def end_with_parent():
    """For programs that `run` starts: whoever kills what waits for them finds the
    GPU free."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command, seconds):
    """The program's exit code, None where it had not ended by then and was
    killed with all that it started; and what it wrote to either stream."""
    # Files, not pipes: those end when the last process that has them does.
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
