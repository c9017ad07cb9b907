"""Makes the shared helpers of the Python suites (mpctest.py) importable: pytest
puts this folder on the path because this file is in it.

Resets signals for the processes that tests start: under nohup or in a script's
background, they would ignore SIGHUP or SIGINT.

With --sample, the default of tools/test, tests marked `full` are left out,
because similar tests represent them. Sweeps then take fewer points.

SPDX-License-Identifier: Apache-2.0
"""

import signal

import pytest

for number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption(
        "--sample",
        action="store_true",
        help="without tests that are marked `full`, fewer points of sweeps; in"
        " numerics with MPC_TEST_TARGET, contractions, elementary functions and"
        " one in eight of the rest",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "full: one of many alike, which --sample leaves out"
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("--sample"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [i for i in items if not i.get_closest_marker("full")]


@pytest.fixture(scope="session", name="sample")
def is_sample(pytestconfig):
    """True if sweeps should have fewer points."""
    return pytestconfig.getoption("--sample")
