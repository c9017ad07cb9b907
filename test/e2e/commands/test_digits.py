"""The digits demo, run as tools/demo runs it, reaches its promised results.

SPDX-License-Identifier: Apache-2.0
"""

import sys

import pytest

import mpctest

sys.path.insert(0, str(mpctest.ROOT / "tools"))
import digits_demo  # noqa: E402  (found through the path above)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns the demo's row of each precision, keyed by column."""
    folder = tmp_path_factory.mktemp("digits")
    names = [name for name, _ in digits_demo.COLUMNS]
    return {
        precision: dict(
            zip(names, digits_demo.row(mpctest.MPC, folder, precision))
        )
        for precision in digits_demo.PRECISIONS
    }


@pytest.mark.parametrize("precision", digits_demo.PRECISIONS)
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
