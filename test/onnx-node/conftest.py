"""Runs mpc in a fork server: compiling and running a model of few nodes takes
less time than loading mpc.

SPDX-License-Identifier: Apache-2.0
"""

import mpctest


def pytest_runtest_setup(item):
    mpctest.use_fork_server(item)
