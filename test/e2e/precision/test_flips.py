"""Every flag that mpc explain prints is true: the op that prints the flag gets
other types, and of the other ops exactly the listed ones. All flags of large
models take too long here: the modes check different parts, and tools/flips.py
checks all.

SPDX-License-Identifier: Apache-2.0
"""

import json
import sys

import pytest

import mpctest

sys.path.append(str(mpctest.ROOT / "tools"))
import flips  # noqa: E402

MIXED = ["bf16-mixed", "16-mixed"]
FAMILIES = mpctest.DATA / "families"
# Each model, and the distance between the flags that one mode checks.
MODELS = {
    "transformer": (FAMILIES / "bert-dynamo-18.onnx", 12),
    "resnet": (mpctest.MODELS / "resnet.onnx", 1),
    "lstm": (FAMILIES / "lstm-dynamo-18.onnx", 12),
}
FLAGS = ["--loss", "softmax_cross_entropy", "--batch-size", "4", *mpctest.TARGET]


@pytest.mark.parametrize("mode", MIXED)
@pytest.mark.parametrize("model", MODELS)
def test_every_printed_flag_is_true(model, mode):
    path, distance = MODELS[model]
    sample = slice(MIXED.index(mode) * distance // 2, None, distance)
    wrong, count = flips.check(mode, path, FLAGS, mpctest.mpc, sample)
    assert not wrong, "\n".join(wrong)
    assert count > 15


def test_a_false_list_is_found():
    """Negative control: a record that lists no followers is wrong."""

    def run(*arguments):
        process = mpctest.mpc(*arguments)
        lines = [json.loads(line) for line in process.stdout.splitlines()]
        rows = [{**row, "follows": [] if row["flip"] else None} for row in lines]
        process.stdout = "\n".join(map(json.dumps, rows))
        return process

    path, _ = MODELS["resnet"]
    wrong, _ = flips.check("bf16-mixed", path, FLAGS, run, slice(5))
    assert any("follow but are not listed: ['" in text for text in wrong)


def test_an_id_names_one_of_several_ops():
    """The LSTM becomes several ops of one name, and a flag can keep one."""
    path, _ = MODELS["lstm"]
    before = flips.explain("bf16-mixed", path, FLAGS, mpctest.mpc)
    op = next(op for op, row in before.items() if "~2" in op and row["flip"])
    flip = before[op]["flip"]
    assert flip == f"--keep-fp32=^{op}$"
    after = flips.explain("bf16-mixed", path, [*FLAGS, flip], mpctest.mpc)
    kept = [name for name, row in after.items() if row["reason"] == "keep_fp32"]
    assert kept == [op]


def test_flags_that_the_policy_agrees_with_are_no_flips():
    """Leaving out --force-low changes nothing if the op is low anyway."""
    path, _ = MODELS["resnet"]
    flags = [*FLAGS, "--force-low=^stem[.]relu$", "--keep-fp32=^block1"]
    wrong, count = flips.check("bf16-mixed", path, flags, mpctest.mpc)
    assert not wrong, "\n".join(wrong)
    assert count > 20
