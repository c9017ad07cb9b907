"""`--reduction sum` on several ranks and in several micro-batches: the gradients
of a sum of losses add up, so all train as one rank with one large batch.

SPDX-License-Identifier: Apache-2.0
"""

import shutil

import pytest

import mpctest
import test_ranks

MLP = mpctest.MODELS / "mlp.onnx"
FLAGS = (*("--loss", "softmax_cross_entropy"), "--reduction", "sum", "--lr", 0.01)

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun of Open MPI is not installed"
)


def train(count, batch, folder, *flags):
    """Trains 6 steps. Returns their losses."""
    folder.mkdir(exist_ok=True)
    process = test_ranks.mpirun(
        *(count, "train", MLP, *test_ranks.LOOP, *mpctest.TARGET, *FLAGS),
        *("--batch-size", batch, "--max-steps", 6, "--metrics", folder / "m.jsonl"),
        *flags,
    )
    assert process.returncode == 0, process.stderr
    lines = mpctest.read_metrics(folder / "m.jsonl")
    return [line["loss"] for line in lines if line["event"] == "train"]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed"])
def test_sums_add_up(precision, tmp_path):
    mode = ("--precision", precision)
    expected = train(1, 16, tmp_path / "whole", *mode)
    tolerance = 1e-5 if precision == "32-true" else 1e-3
    ways = {
        "ranks": (2, 8),
        "accumulated": (1, 8, "--accumulate-grad-batches", 2),
        "both": (2, 4, "--accumulate-grad-batches", 2),
    }
    for name, (count, batch, *flags) in ways.items():
        losses = train(count, batch, tmp_path / name, *mode, *flags)
        assert losses == pytest.approx(expected, rel=tolerance), name
    # Negative control: means of the gradients.
    flags = ("--data-parallel", "--accumulate-reduction", "mean")
    losses = train(2, 8, tmp_path / "means", *mode, *flags)
    assert losses[0] == pytest.approx(expected[0], rel=tolerance)
    assert losses[1:] != pytest.approx(expected[1:], rel=tolerance)
