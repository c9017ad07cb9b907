"""Makes the shared helpers of the Python suites (mpctest.py) importable: pytest
puts this folder on the path because this file is in it. And gives the processes
that tests start the signals of a terminal, also where the suite runs under nohup
or in the background of a script, which have them ignore SIGHUP or SIGINT.

With --sample, as tools/test has it by default, tests that are marked `full` stay
away: of many alike, those that the others stand for. And sweeps take fewer points.

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
    """Whether sweeps are to have fewer points."""
    return pytestconfig.getoption("--sample")
