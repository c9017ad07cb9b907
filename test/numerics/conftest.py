"""What holds for the whole suite.

SPDX-License-Identifier: Apache-2.0
"""

import zlib

import mpctest

# Of the tests that may stay away, one in so many runs.
SAMPLE = 8


def pytest_addoption(parser):
    parser.addoption(
        "--sample",
        action="store_true",
        help="contractions and elementary functions, and one in"
        f" {SAMPLE} of all other tests, always the same",
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("--sample"):
        left_out = [item for item in items if not in_sample(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if in_sample(item)]


def in_sample(item):
    """Vectors of another width change contractions most, and functions whose
    instructions the target lacks."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if getattr(parameters.get("case"), "contraction", 0):
        return True
    if item.path.name == "test_functions.py":
        return True
    return zlib.crc32(item.nodeid.encode()) % SAMPLE == 0


def pytest_runtest_setup(item):
    """A model of few nodes compiles and runs in less time than mpc loads."""
    mpctest.use_fork_server(item)
