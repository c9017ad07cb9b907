"""Selects the sample and starts the fork server of this suite.

SPDX-License-Identifier: Apache-2.0
"""

import zlib

import mpctest

# With --sample and a target other than the host, one in so many optional tests
# runs.
OTHER_TARGET = 8
# With --sample and the host as target, one in so many tests that mixed
# precision does not affect runs.
SAME_KERNELS = 4


def pytest_collection_modifyitems(config, items):
    if config.getoption("--sample"):
        left_out = [item for item in items if not in_sample(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if in_sample(item)]


def in_sample(item):
    """Keeps contractions, and functions whose instructions the target lacks:
    vectors of another width change those most. In mixed modes, other ops alone
    in their model have the kernels of 32-true."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if getattr(parameters.get("case"), "contraction", 0):
        return True
    if mpctest.TARGET:
        functions = item.path.name == "test_functions.py"
        return functions or is_one_in(OTHER_TARGET, item)
    alone = getattr(item, "originalname", "") == "test_matches_float64"
    if alone and parameters["precision"].endswith("-mixed"):
        return is_one_in(SAME_KERNELS, item)
    return True


def is_one_in(count, item):
    """Always selects the same items."""
    return zlib.crc32(item.nodeid.encode()) % count == 0


def pytest_runtest_setup(item):
    """Compiling and running a model of few nodes takes less time than loading
    mpc."""
    mpctest.use_fork_server(item)
