"""Runs mpc in a fork server: most of these models take less time than mpc takes
to load.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import sys

import pytest

import mpctest

# Tests in one folder use models of another folder.
sys.path += [str(room) for room in pathlib.Path(__file__).parent.iterdir() if room.is_dir()]

# These tests preload libraries, or limit and inspect what programs load.
PRELOADING = ("test_cpu_classes", "test_faults", "test_install", "test_memory")


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "starts_mpc: shows that nothing depends on what a process is given when"
        " it starts, the addresses of libraries above all: mpc is not forked",
    )


def pytest_runtest_setup(item):
    mpctest.use_fork_server(item)


def pytest_collection_modifyitems(items):
    if not os.environ.get("MPC_EMULATOR_CPU"):
        return
    skip = pytest.mark.skip(reason="not while another CPU is emulated")
    for item in items:
        if item.path.stem in PRELOADING:
            item.add_marker(skip)
