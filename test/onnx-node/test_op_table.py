"""docs/operators.md lists every op with the properties that tools/op_table.py
measures.

SPDX-License-Identifier: Apache-2.0
"""

import sys

import pytest

import mpctest

sys.path.append(str(mpctest.ROOT / "tools"))
import op_table  # noqa: E402

# All rows take minutes: the test measures one row in so many again.
STRIDE = 16
CASES = op_table.load_cases()
OPS = op_table.list_ops()


def read_documented():
    text = (mpctest.ROOT / "docs" / "operators.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert rows[0] == op_table.HEAD
    return {row[0]: row for row in rows[1:]}


DOCUMENTED = read_documented()


def test_all_ops_are_documented():
    assert [row[:2] for row in OPS] == [
        row[:2] for row in DOCUMENTED.values()
    ]


@pytest.mark.parametrize("row", OPS[::STRIDE], ids=lambda row: row[0])
def test_row_is_what_is_measured(row):
    assert op_table.measure(row, CASES[row[0]]) == DOCUMENTED[row[0]]
