"""Most of these models take less time than mpc takes to load.

SPDX-License-Identifier: Apache-2.0
"""

import mpctest


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "starts_mpc: shows that nothing depends on what a process is given when"
        " it starts, the addresses of libraries above all: mpc is not forked",
    )


def pytest_runtest_setup(item):
    mpctest.use_fork_server(item)
