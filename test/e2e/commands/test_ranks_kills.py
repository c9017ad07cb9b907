"""A killed rank ends all ranks, and the run can be resumed on any number of ranks.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shlex
import shutil
import subprocess
import sys

import pytest

import mpctest

KILLER = mpctest.ROOT / "tools" / "kill_ranks.py"


@pytest.fixture(
    params=("mpirun.openmpi --oversubscribe", "mpirun.mpich"),
    ids=["openmpi", "mpich"],
    name="launcher",
)
def fixture_launcher(request):
    if not shutil.which(shlex.split(request.param)[0]):
        pytest.skip(f"{request.param} is not installed")
    return request.param


def kill_ranks(*arguments):
    return subprocess.run(
        [sys.executable, KILLER, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"MPC_BUILD_DIR": str(mpctest.BUILD)},
    )


def test_no_moment_of_a_kill_loses_a_run(launcher, sample):
    """tools/kill_ranks.py kills at more moments. In a sample, each launcher has
    half of them."""
    first, count = (0, 6) if not sample else (0, 3) if "openmpi" in launcher else (3, 3)
    process = kill_ranks(
        *("--first", str(first), "--count", str(count), "--launcher", launcher)
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert f"{count} cases, 0 failed" in process.stdout


def test_no_kill_loses_a_sharded_optimizer():
    """The owners of the moments die, too."""
    if not shutil.which("mpirun.openmpi"):
        pytest.skip("mpirun.openmpi is not installed")
    process = kill_ranks(
        *("training", "checkpoint", "end", "--count", "3", "--shard-optimizer"),
        *("--launcher", "mpirun.openmpi --oversubscribe"),
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "3 cases, 0 failed" in process.stdout


def test_a_run_that_goes_on_after_a_kill_is_found(launcher):
    """Negative control: no process ends in no time."""
    process = kill_ranks(
        *("training", "--count", "1", "--seconds", "0", "--launcher", launcher)
    )
    assert process.returncode == 1
    assert "0 training: the launcher still runs after 0.0 s" in process.stdout
