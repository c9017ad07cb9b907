"""The demos, run as tools/demo runs them, reach their promised results.

SPDX-License-Identifier: Apache-2.0
"""

import gzip
import pathlib
import sys

import numpy as np
import pytest

import mpctest

sys.path.insert(0, str(mpctest.ROOT / "tools"))
import demo  # noqa: E402  (found through the path above)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns the demo's row of each precision, keyed by column."""
    folder = tmp_path_factory.mktemp("digits")
    names = [name for name, _ in demo.COLUMNS]
    return {
        precision: dict(
            zip(names, demo.row(mpctest.MPC, folder, demo.DIGITS, precision))
        )
        for precision in demo.PRECISIONS
    }


@pytest.mark.parametrize("precision", demo.PRECISIONS)
def test_reaches_97_percent(runs, precision):
    assert runs[precision]["accuracy"] >= 0.97


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision_is_within_half_a_point_of_fp32(runs, precision):
    difference = runs[precision]["accuracy"] - runs["32-true"]["accuracy"]
    assert difference >= -0.005


def test_only_mixed_precision_casts(runs):
    casts = {precision: run["casts"] for precision, run in runs.items()}
    assert casts["32-true"] == 0
    assert casts["bf16-mixed"] > 0 and casts["16-mixed"] > 0


# The package, or a folder of files of the same format. A sample of the real
# images suffices for the test.
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


def cut(images, folder, count):
    """Writes the first `count` samples of each file of `images`."""
    for path in images.glob("*.gz"):
        data = gzip.decompress(path.read_bytes())
        rank = data[3]
        shape = np.frombuffer(data, ">u4", rank, 4)
        size = count * int(np.prod(shape[1:]))
        header = data[:4] + np.array([count, *shape[1:]], ">u4").tobytes()
        start = len(header)
        packed = gzip.compress(header + data[start : start + size])
        (folder / path.name).write_bytes(packed)


def test_fashion_learns_a_sample(tmp_path):
    if not FASHION.exists():
        pytest.skip("needs the package dataset-fashion-mnist")
    cut(FASHION, tmp_path, 2000)
    task = demo.fashion(tmp_path)
    flags = [*task.flags]
    flags[flags.index("--epochs") + 1] = "4"
    values = demo.row(mpctest.MPC, tmp_path, task._replace(flags=flags), "bf16-mixed")
    names = [name for name, _ in demo.COLUMNS]
    assert dict(zip(names, values))["accuracy"] > 0.7
