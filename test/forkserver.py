"""Runs mpc in forked processes of a loaded server (forkserver/ForkServer.cpp),
for suites of hundreds of small models.

All calls of a server share the load addresses. A test that results do not
depend on addresses must therefore start mpc itself.

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
                    "LD_PRELOAD": f"{os.environ.get('LD_PRELOAD', '')}:{library}",
                    "MPC_FORK_SERVER": str(theirs.fileno()),
                },
            )

    def close(self):
        """Ends the server, so that its processor time counts as this process's."""
        self.socket.close()
        self.process.wait()

    def fits(self, options):
        """True if the server can run the call: only the folder and variables of
        mpc's differ, and no library reads these variables at load time."""
        return options.keys() <= {"cwd", "env"} and all(
            name.startswith("MPC_") and name != "MPC_EMULATOR_CPU"
            for name in self.changes(options.get("env"))
        )

    def changes(self, env):
        """Returns the variables that differ from the server's environment. None
        marks a missing variable."""
        env = environment() if env is None else env
        return {
            name: env.get(name)
            for name in sorted(self.environment.keys() | env.keys())
            if env.get(name) != self.environment.get(name)
            and name != OF_PYTEST
        }

    def run(self, arguments, timeout, cwd=None, env=None):
        """Runs the call like subprocess.run, with output as text."""
        variables = [
            name if value is None else f"{name}={value}"
            for name, value in self.changes(env).items()
        ]
        folder = os.fspath(cwd or os.getcwd())
        words = [folder, *variables, "", self.program, *arguments]
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
            raise subprocess.TimeoutExpired([self.program, *arguments], timeout) from None
        finally:
            for stream in ours:
                os.close(stream)
            status = self.receive()
        return subprocess.CompletedProcess(
            [self.program, *arguments],
            os.waitstatus_to_exitcode(status),
            *(as_text(part) for part in output),
        )

    def receive(self):
        answer = self.socket.recv(4)
        assert len(answer) == 4, "the fork server has ended"
        return struct.unpack("i", answer)[0]


# A variable that pytest sets for each test.
OF_PYTEST = "PYTEST_CURRENT_TEST"


def environment():
    """Returns this process's environment without pytest's variable."""
    return {k: v for k, v in os.environ.items() if k != OF_PYTEST}


def as_text(output):
    """Converts line ends like subprocess.run's text mode."""
    return output.decode().replace("\r\n", "\n").replace("\r", "\n")


def read_all(streams, deadline):
    """Reads each pipe until all are closed."""
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
