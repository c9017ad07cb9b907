"""Runs mpc in processes that need not be loaded (forkserver/ForkServer.cpp): for
suites of thousands of small models.

All that a server runs have the addresses it was loaded to, so what tests that
results do not depend on them starts mpc itself.

SPDX-License-Identifier: Apache-2.0
"""

import os
import selectors
import signal
import socket
import struct
import subprocess
import time


class ForkServer:
    def __init__(self, program, library):
        self.program = str(program)
        self.environment = environment()
        self.socket, theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        with theirs:
            self.process = subprocess.Popen(
                [program],
                pass_fds=[theirs.fileno()],
                env={
                    **self.environment,
                    "LD_BIND_NOW": "1",
                    "LD_PRELOAD": str(library),
                    "MPC_FORK_SERVER": str(theirs.fileno()),
                },
            )

    def fits(self, options):
        """Whether a call is one for the server: in its environment, and with
        nothing but a folder of its own."""
        return options.keys() <= {"cwd"} and self.environment == environment()

    def run(self, arguments, timeout, cwd=None):
        """As subprocess.run, its output as text."""
        words = [os.fspath(cwd or os.getcwd()), self.program, *arguments]
        request = b"".join(os.fsencode(word) + b"\0" for word in words)
        pipes = [os.pipe(), os.pipe()]
        ours, theirs = zip(*pipes)
        try:
            socket.send_fds(self.socket, [request], [0, *theirs])
        finally:
            for stream in theirs:
                os.close(stream)
        process = self.receive()
        try:
            output = read_all(ours, time.monotonic() + timeout)
        except TimeoutError:
            os.kill(process, signal.SIGKILL)
            raise subprocess.TimeoutExpired(words[1:], timeout) from None
        finally:
            for stream in ours:
                os.close(stream)
            status = self.receive()
        return subprocess.CompletedProcess(
            words[1:],
            os.waitstatus_to_exitcode(status),
            *(part.decode() for part in output),
        )

    def receive(self):
        answer = self.socket.recv(4)
        assert len(answer) == 4, "the fork server has ended"
        return struct.unpack("i", answer)[0]


def environment():
    """This process's, but for what pytest notes there."""
    return {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}


def read_all(streams, deadline):
    """What comes through each of the pipes until all are closed."""
    output = {stream: b"" for stream in streams}
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                output[key.fd] += part
                if not part:
                    selector.unregister(key.fd)
    return list(output.values())
