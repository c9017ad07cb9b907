"""What holds for the whole suite.

SPDX-License-Identifier: Apache-2.0
"""

import zlib

import mpctest

# With --sample: for another target than this machine's, of the tests that may
# stay away, one in so many runs.
OTHER_TARGET = 8
# For this machine's, of those that mixed precision changes nothing of.
SAME_KERNELS = 4


def pytest_collection_modifyitems(config, items):
    if config.getoption("--sample"):
        left_out = [item for item in items if not in_sample(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if in_sample(item)]


def in_sample(item):
    """Vectors of another width change contractions most, and functions whose
    instructions the target lacks. An op that is no contraction has the kernels
    of 32-true in the mixed modes where it is the only one of its model."""
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
    """Always the same ones."""
    return zlib.crc32(item.nodeid.encode()) % count == 0


def pytest_runtest_setup(item):
    """A model of few nodes compiles and runs in less time than mpc loads."""
    mpctest.use_fork_server(item)
