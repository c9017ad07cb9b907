"""The gradient of an embedding table travels as the rows that a step looks up,
and trains to the bits of gradients that travel whole: those of
`--shard-optimizer`.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
import test_ranks_gloo
from test_ranks import largest_difference, mpirun, pytestmark

__all__ = ["pytestmark"]
WORDS, WIDTH, CLASSES, FEW = 4096, 64, 10, 50
TABLE_BYTES = 4 * WORDS * WIDTH
ROW_BYTES = 4 * WIDTH + 4  # with the number of the row
PLACES = 12  # words of a sample
STEPS, BATCH = 5, 8
FLAGS = {
    "sgd": ("--optimizer", "sgd", "--lr", 0.5),
    "adamw": ("--precision", "bf16-mixed", "--optimizer", "adamw"),
    "clipped": (
        *("--precision", "16-mixed", "--optimizer", "adam"),
        *("--gradient-clip-val", 0.05),
    ),
    "accumulated": (
        *("--precision", "16-mixed", "--optimizer", "adamw"),
        *("--accumulate-grad-batches", 2),
    ),
    "sum": ("--optimizer", "momentum", "--lr", 0.01, "--reduction", "sum"),
}


def make_classifier(tied=False):
    """Means of the words of a sample, by 64-bit and by 32-bit numbers. A small
    table and the other weights travel in a bucket."""
    random = np.random.default_rng(0)
    node = helper.make_node
    weights = {
        "words": random.normal(size=(WORDS, WIDTH)),
        "kinds": random.normal(size=(FEW, WIDTH)),
        "fc.weight": random.normal(size=(WIDTH, CLASSES)) / 8,
        "fc.bias": np.zeros(CLASSES),
    }
    nodes = [
        node("Gather", ["words", "ids"], ["a"], "first"),
        node("Gather", ["words", "more"], ["b"], "second"),
        node("Gather", ["kinds", "kind"], ["c"], "third"),
        node("ReduceMean", ["a"], ["d"], axes=[1], keepdims=0),
        node("ReduceMean", ["b"], ["e"], axes=[1], keepdims=0),
        node("Sum", ["c", "d", "e"], ["f"], "sum"),
        node("Mul", ["f", "scale"], ["g"], "scaled"),
        node("Gemm", ["g", "fc.weight", "fc.bias"], ["logits"], "fc"),
    ]
    if tied:
        nodes[-1] = node("Gemm", ["g", "words"], ["logits"], "fc", transB=1)
        del weights["fc.weight"], weights["fc.bias"]
    return mpctest.make_model(
        nodes,
        {
            "ids": (np.int64, ["N", PLACES - 4]),
            "more": (np.int32, ["N", 4]),
            "kind": (np.int64, ["N"]),
            "scale": (np.float32, ["N", 1]),
        },
        {"logits": (np.float32, ["N", WORDS if tied else CLASSES])},
        {name: value.astype(np.float32) for name, value in weights.items()},
    )


def make_data(count):
    """Negative numbers count from the end. Words repeat: in a sample, in a batch,
    and on several ranks."""
    random = np.random.default_rng(1)
    ids = random.integers(-WORDS, WORDS, (count, PLACES - 4))
    ids[:, 0] = ids[:, 1] = 7
    ids[:, 2] = -1
    return {
        "ids": ids,
        "more": random.integers(0, WORDS, (count, 4)).astype(np.int32),
        "kind": random.integers(0, FEW, count),
        "scale": np.ones((count, 1), np.float32),
        "target": random.integers(0, CLASSES, count),
    }


@pytest.fixture(scope="module", name="model")
def save_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "words.onnx"
    onnx.save(make_classifier(), path)
    return path


def arguments(model, folder, *flags, data=None):
    folder.mkdir(exist_ok=True)
    np.savez(folder / "data.npz", **(data or make_data(240)))
    return (
        *("train", model, "--data", folder / "data.npz", "--no-shuffle"),
        *("--loss", "softmax_cross_entropy", "--device", "cpu", "--threads", 1),
        *("--batch-size", BATCH, "--max-steps", STEPS, "--check-ranks-every", 1),
        *("--metrics", folder / "m.jsonl", "--overwrite-metrics"),
        *("--output", folder / "w.npz", *mpctest.TARGET, *flags),
    )


def read_results(folder):
    lines = mpctest.read_metrics(folder / "m.jsonl")
    with np.load(folder / "w.npz") as weights:
        return [x for x in lines if x["event"] == "train"], dict(weights)


def train(ranks, model, folder, *flags, data=None):
    """Returns the lines of the steps in the metrics, and the trained weights."""
    process = mpirun(ranks, *arguments(model, folder, *flags, data=data))
    assert process.returncode == 0, process.stderr
    return read_results(folder)


def losses_of(lines):
    return [line["loss"] for line in lines]


def rows_cases():
    """Yields every mode on two and three ranks. A sample alternates."""
    for index, mode in enumerate(FLAGS):
        for ranks in (2, 3):
            marks = [pytest.mark.full] if (index + ranks) % 2 else []
            yield pytest.param(mode, ranks, marks=marks)


@pytest.mark.parametrize("mode, ranks", rows_cases())
def test_rows_train_to_the_bits_of_whole_tables(mode, ranks, model, tmp_path):
    """The run ends with an error if a bit of the ranks differs after a step."""
    flags = FLAGS[mode]
    lines, weights = train(ranks, model, tmp_path / "rows", *flags)
    again, repeated = train(ranks, model, tmp_path / "again", *flags)
    whole, expected = train(
        *(ranks, model, tmp_path / "whole", *flags, "--shard-optimizer")
    )
    assert len(lines) == STEPS
    assert losses_of(lines) == losses_of(again) == losses_of(whole)
    assert [x.get("grad_norm") for x in lines] == [x.get("grad_norm") for x in whole]
    assert largest_difference(repeated, weights) == 0
    assert largest_difference(weights, expected) == 0
    batches = 2 if mode == "accumulated" else 1
    rows = batches * BATCH * PLACES * ROW_BYTES * (ranks - 1)
    other = 8 * 4 * (FEW * WIDTH + WIDTH * CLASSES + CLASSES)
    for line, dense in zip(lines[1:], whole[1:]):
        assert line["wire_bytes"] < rows + other < TABLE_BYTES / 2
        # Negative control: the whole table.
        assert dense["wire_bytes"] > TABLE_BYTES / 2


@pytest.mark.parametrize("ranks", [2, 3])
def test_rows_train_as_one_rank_with_the_batches(ranks, model, tmp_path):
    flags = FLAGS["sgd"]
    lines, weights = train(ranks, model, tmp_path / "ranks", *flags)
    one = ("--accumulate-grad-batches", ranks, *flags)
    expected, single = train(1, model, tmp_path / "one", *one)
    assert losses_of(lines) == pytest.approx(losses_of(expected), rel=1e-5)
    assert largest_difference(weights, single) < 1e-5
    # Negative control: one rank without the batches of the others.
    _, alone = train(1, model, tmp_path / "alone", *flags)
    assert largest_difference(alone, single) > 1e-3


def test_an_overflow_skips_the_step_on_all_ranks(model, tmp_path):
    """A sample of the second step of rank 0 overflows."""
    data = make_data(240)
    data["scale"][20] = 1e6
    flags = ("--precision", "16-mixed", "--optimizer", "adamw")
    lines, weights = train(2, model, tmp_path / "rows", *flags, data=data)
    whole, expected = train(
        *(2, model, tmp_path / "whole", *flags, "--shard-optimizer"), data=data
    )
    skipped = [step == 2 for step in range(1, STEPS + 1)]
    assert [line["skipped"] for line in lines] == skipped
    assert [line["skipped"] for line in whole] == skipped
    assert largest_difference(weights, expected) == 0


def test_a_step_with_most_words_sends_the_whole_table(model, tmp_path):
    """Three ranks would each send 3,000 rows to both others."""
    flags = ("--optimizer", "sgd", "--batch-size", 512, "--max-steps", 2)
    data = make_data(3 * 512 * 2)
    lines, weights = train(3, model, tmp_path / "rows", *flags, data=data)
    _, expected = train(
        *(3, model, tmp_path / "whole", *flags, "--shard-optimizer"), data=data
    )
    assert largest_difference(weights, expected) == 0
    assert lines[-1]["wire_bytes"] > 2 * 2 / 3 * TABLE_BYTES
    assert lines[-1]["wire_bytes"] < 1.2 * 2 * 2 / 3 * TABLE_BYTES


@pytest.mark.skipif(
    not test_ranks_gloo.LIBRARY.exists(), reason="mpc was built without libgloo-dev"
)
@pytest.mark.parametrize("variables", [{}, {"GLOO_SOCKET_IFNAME": "lo"}])
def test_rows_through_gloo_have_the_bits_of_mpi(variables, model, tmp_path):
    """Through shared memory, and through sockets."""
    flags = FLAGS["adamw"]
    _, expected = train(3, model, tmp_path / "mpi", *flags)
    command = arguments(model, tmp_path / "gloo", *flags)
    codes, texts = test_ranks_gloo.Ranks(3, *command, **variables).finish()
    assert codes == [0, 0, 0], texts
    lines, weights = read_results(tmp_path / "gloo")
    assert largest_difference(weights, expected) == 0
    assert lines[-1]["wire_bytes"] < TABLE_BYTES / 2


def planned_rows(model, *flags):
    """Returns the programs whose plan has a reduction of the table's rows."""
    plan = mpctest.mpc_ok(
        *("compile", model, "--loss", "softmax_cross_entropy", "--batch-size", BATCH),
        *("--data-parallel", "--emit=plan", *flags),
    ).stdout
    step = f"{{row_elements = {WIDTH} : i64}} : memref<{WORDS * WIDTH}xf32>"
    assert plan.count("row_elements") == plan.count(step)
    programs = plan.split("plan.program @")[1:]
    return {text.split()[0]: n for text in programs if (n := text.count(step))}


def test_the_plan_has_the_rows_of_tables_that_a_step_only_looks_up(model, tmp_path):
    assert planned_rows(model) == {"step": 1}
    assert planned_rows(model, "--accumulate-grad-batches", 2) == {"update": 1}
    assert planned_rows(model, "--shard-optimizer") == {}
    assert planned_rows(model, "--target", "sm_90") == {}
    onnx.save(make_classifier(tied=True), tmp_path / "tied.onnx")
    assert planned_rows(tmp_path / "tied.onnx") == {}


def test_tied_tables_travel_whole(tmp_path):
    onnx.save(make_classifier(tied=True), tmp_path / "tied.onnx")
    lines, weights = train(2, tmp_path / "tied.onnx", tmp_path / "two", *FLAGS["sgd"])
    one = ("--accumulate-grad-batches", 2, *FLAGS["sgd"])
    _, single = train(1, tmp_path / "tied.onnx", tmp_path / "one", *one)
    assert largest_difference(weights, single) < 1e-4
    assert lines[-1]["wire_bytes"] > TABLE_BYTES
