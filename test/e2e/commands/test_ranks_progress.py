"""The lines of progress of several ranks.

SPDX-License-Identifier: Apache-2.0
"""

import re
import shutil

import numpy as np
import pytest

import mpctest
from test_ranks import LOOP, MODEL, mpirun

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun of Open MPI is not installed"
)

LINE = re.compile(
    r"step 4/4  .*  (\d+) samples/s  ([\d.]+) ms/step  sent ([\d.]+) KiB/step"
)


def test_progress_counts_samples_and_bytes_of_all_ranks(tmp_path):
    metrics = tmp_path / "m.jsonl"
    process = mpirun(
        *(2, "train", MODEL, "--loss", "softmax_cross_entropy", *LOOP),
        *("--batch-size", 16, "--max-steps", 4, "--log-every", 0),
        *("--metrics", metrics, "--output", tmp_path / "w.npz"),
        *mpctest.TARGET,
    )
    assert process.returncode == 0, process.stderr
    assert "steps of 16 on 2 ranks" in process.stderr
    (found,) = LINE.findall(process.stderr)
    samples, milliseconds, kib = map(float, found)
    assert samples == pytest.approx(32e3 / milliseconds, rel=0.02)
    last = [e for e in mpctest.read_metrics(metrics) if e["event"] == "train"][-1]
    assert kib == pytest.approx(last["wire_bytes"] / 1024, abs=0.06)
    # Two ranks send each gradient once, in f32.
    weights = np.load(tmp_path / "w.npz").values()
    assert last["wire_bytes"] >= 4 * sum(weight.size for weight in weights)
