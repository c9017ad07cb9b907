"""A model of few nodes compiles and runs in less time than mpc takes to load.

SPDX-License-Identifier: Apache-2.0
"""

import mpctest


def pytest_runtest_setup(item):
    mpctest.use_fork_server(item)
