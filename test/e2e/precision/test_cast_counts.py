"""All formats of mpc explain, and the start line of mpc train, tell the casts
and the stored bytes of the kernels. kernel_counts.py counts both in the text of
the kernels.

SPDX-License-Identifier: Apache-2.0
"""

import collections
import html
import json
import re

import pytest

import kernel_counts
import mpctest
from test_families import FAMILIES, recipe

MODELS = sorted(path.stem for path in FAMILIES.glob("*.onnx"))
MIXED = ["bf16-mixed", "16-mixed"]
KINDS = ("weights", "activations", "free")


def flags(model, mode):
    path = FAMILIES / f"{model}.onnx"
    return [path, *recipe(model), "--precision", mode, *mpctest.TARGET]


def explain(form, arguments):
    return mpctest.mpc_ok("explain", *arguments, "--format", form).stdout


def kernels(arguments):
    process = mpctest.mpc_ok("compile", "--emit=fusion", "-o", "-", *arguments)
    return process.stdout


def read_lines(text):
    """Reads the two lines that say what kernels cast and store."""
    casts, stored = text.splitlines()[:2]
    counts = collections.Counter()
    for kind in KINDS:
        if found := re.search(rf"(\d+) (?:of )?{kind}\b", casts):
            counts[kind] = int(found[1])
    all_casts = int(re.search(r"(\d+) casts?\b", casts)[1])
    assert all_casts == sum(counts.values())
    if found := re.search(r"(\d+) kernels? only", casts):
        counts["kernels"] = int(found[1])
    for element, size in re.findall(r"(\w*f\d+) ([\d,]+) bytes", stored):
        counts[element] = int(size.replace(",", ""))
    if found := re.search(r"casts move ([\d,]+) bytes", stored):
        counts["bytes"] = int(found[1].replace(",", ""))
    return counts


def sum_records(text):
    counts = collections.Counter()
    for record in map(json.loads, text.splitlines()):
        counts.update(record["casts"])
        counts.update(record["stored_bytes"])
    return +counts


def sum_table(text):
    """Sums the last two columns of the rows: all casts, and free casts."""
    rows = [line.split() for line in text.splitlines()[4:]]
    return sum(int(row[-2]) for row in rows), sum(int(row[-1]) for row in rows)


def sum_page(page):
    return tuple(
        sum(map(int, re.findall(rf'data-column="{column}">(\d+)<', page)))
        for column in ("casts", "free")
    )


def sum_graph(graph):
    """Sums all casts, and free casts, in the labels of the ops."""
    nodes = "\n".join(line for line in graph.splitlines() if "fillcolor" in line)
    return tuple(
        sum(map(int, re.findall(pattern, nodes)))
        for pattern in (r"\\n(\d+) casts? ", r"(\d+) free\)")
    )


@pytest.mark.parametrize("mode", MIXED)
@pytest.mark.parametrize("model", MODELS)
def test_records_tell_what_kernels_do(model, mode):
    arguments = flags(model, mode)
    expected = kernel_counts.count(kernels(arguments))
    assert sum(expected[kind] for kind in KINDS) > 0
    assert sum_records(explain("jsonl", arguments)) == +expected
    assert read_lines(explain("summary", arguments)) == +expected


@pytest.mark.parametrize("model", ["bert-dynamo-18", "lstm-dynamo-18"])
def test_all_formats_tell_the_same(model):
    arguments = flags(model, "16-mixed")
    text = explain("summary", arguments)
    counts = read_lines(text)
    first, second = text.splitlines()[:2]
    expected = sum(counts[kind] for kind in KINDS), counts["free"]
    assert text.split()[-3:] == [str(counts[kind]) for kind in KINDS]

    table = explain("table", arguments)
    assert table.splitlines()[:2] == [first, second]
    assert sum_table(table) == expected

    page = explain("html", arguments)
    assert f"<p>{html.escape(first)}<br>{html.escape(second)}</p>" in page
    assert sum_page(page) == expected

    graph = explain("dot", arguments)
    assert f'label="{first}\\n{second}";' in graph
    assert sum_graph(graph) == expected


def test_training_starts_with_the_line_of_explain(tmp_path):
    arguments = flags("lstm-dynamo-18", "bf16-mixed")
    process = mpctest.mpc_ok(
        *("train", *arguments, "--data", FAMILIES / "lstm.npz"),
        *("--max-steps", 1, "--output", tmp_path / "trained.onnx"),
    )
    first = explain("summary", arguments).splitlines()[0]
    assert first in process.stderr.splitlines()


def test_a_kernel_with_one_cast_less_is_noticed():
    """Negative control."""
    arguments = flags("bert-dynamo-18", "bf16-mixed")
    text = kernels(arguments)
    counts = kernel_counts.count(text)
    fewer = re.sub(r"\n.* = amp\.cast .*", "", text, count=1)
    assert kernel_counts.count(fewer) != counts


def test_nothing_is_cast_in_one_type():
    arguments = flags("bert-dynamo-18", "32-true")
    counts = read_lines(explain("summary", arguments))
    assert set(counts) == {"f32"}
    assert sum_records(explain("jsonl", arguments)) == counts
