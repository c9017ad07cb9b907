"""Two and four ranks train models as one rank does with their batches, in every
mode of precision. All ranks have equal bits after every step, and in every run.

SPDX-License-Identifier: Apache-2.0
"""

import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest
import test_ranks_gloo
from test_language_model import LENGTH, WORDS, make_language_model
from test_ranks import ENVIRONMENT, mpirun_command

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun of Open MPI is not installed"
)

MODES = ("32-true", "bf16-mixed", "16-mixed", "64-true")
STEPS, MOST_RANKS = 5, 4
BATCH = {"lenet": 8, "gpt": 4, "normalized": 8}

#
# Models and data
#


def make_normalized_model():
    """Convolution, BatchNormalization, dropout, a product, dropout, a product."""
    random = np.random.default_rng(0)
    weights = {
        "conv.weight": random.normal(size=(6, 1, 3, 3)) / 3,
        "bn.weight": np.ones(6),
        "bn.bias": np.zeros(6),
        "bn.mean": np.zeros(6),
        "bn.var": np.ones(6),
        "fc1.weight": random.normal(size=(6 * 36, 32)) / 15,
        "fc1.bias": np.zeros(32),
        "fc2.weight": random.normal(size=(32, 10)) / 6,
        "fc2.bias": np.zeros(10),
    }
    node = helper.make_node
    return mpctest.make_model(
        [
            node("Conv", ["image", "conv.weight"], ["c"], "conv"),
            node(
                *("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.mean", "bn.var"]),
                *(["n", "bn.new_mean", "bn.new_var"], "bn"),
                training_mode=1,
            ),
            node("Relu", ["n"], ["r"]),
            node("Dropout", ["r", "few", "training"], ["d"], "dropout1"),
            node("Flatten", ["d"], ["f"]),
            node("Gemm", ["f", "fc1.weight", "fc1.bias"], ["g"], "fc1"),
            node("Relu", ["g"], ["h"]),
            node("Dropout", ["h", "half", "training"], ["e"], "dropout2"),
            node("Gemm", ["e", "fc2.weight", "fc2.bias"], ["logits"], "fc2"),
        ],
        {"image": (np.float32, ["N", 1, 8, 8])},
        {"logits": (np.float32, ["N", 10])},
        {
            **{name: value.astype(np.float32) for name, value in weights.items()},
            "few": np.float32(0.1),
            "half": np.float32(0.5),
            "training": np.array(True),
        },
    )


def make_data(name):
    """Returns as many samples as four ranks take."""
    count = BATCH[name] * MOST_RANKS * STEPS
    if name == "gpt":
        starts = np.random.default_rng(1).integers(0, WORDS, (count, 1))
        text = (starts + 7 * np.arange(LENGTH + 1)) % WORDS
        return {"ids": text[:, :-1], "target": text[:, 1:]}
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        images = arrays["image"][:count].astype(np.float32)
        labels = arrays["target"][:count]
    if name == "lenet":  # Its images are 32 x 32, in [0, 255].
        images = images.repeat(4, axis=2).repeat(4, axis=3) * 15
    else:
        images = images / 8 - 1
    return {"image": images, "target": labels}


class Case:
    """A model, its data, and its artifacts, which are compiled once."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.model = mpctest.MODELS / "lenet.onnx"
        if name != "lenet":
            self.model = folder / f"{name}.onnx"
            made = make_language_model() if name == "gpt" else make_normalized_model()
            onnx.save(made, self.model)
        np.savez(folder / "data.npz", **make_data(name))
        self.artifacts = {}

    def artifact(self, mode, *flags):
        key = (mode, *flags)
        if key not in self.artifacts:
            path = self.folder / f"{len(self.artifacts)}.mpc"
            size = () if self.name == "gpt" else ("--batch-size", BATCH[self.name])
            trained = ("--train", ".*") if self.name == "gpt" else ()
            mpctest.mpc_ok(
                *("compile", self.model, "-o", path, "--precision", mode, *size),
                *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
                *(*trained, *mpctest.TARGET, *map(str, flags)),
            )
            self.artifacts[key] = path
        return self.artifacts[key]

    def arguments(self, mode, *compiled, flags=(), data="data.npz"):
        """Returns the arguments of a run, its metrics and its weights."""
        metrics, weights = self.folder / "metrics.jsonl", self.folder / "weights.npz"
        # The last value of a flag counts.
        arguments = (
            *("train", self.artifact(mode, *compiled), "--data", self.folder / data),
            *("--no-shuffle", "--lr", 0.05, "--max-steps", STEPS),
            *("--device", "cpu", "--threads", 1, "--check-ranks-every", 1, *flags),
            *("--metrics", metrics, "--overwrite-metrics", "--output", weights),
        )
        return arguments, metrics, weights

    def train(self, ranks, mode, *flags, accumulate=1, compiled=(), data="data.npz"):
        """Returns the lines of metrics of the steps, and the trained weights."""
        compiled = [*compiled, *(["--data-parallel"] if ranks > 1 else [])]
        if accumulate > 1:
            compiled += ["--accumulate-grad-batches", accumulate]
        arguments, metrics, weights = self.arguments(mode, *compiled, flags=flags, data=data)
        if ranks == 1:
            mpctest.mpc_ok(*arguments)
        else:
            command = [*mpirun_command(ranks), mpctest.MPC, *map(str, arguments)]
            process = subprocess.run(
                command, capture_output=True, text=True, timeout=240, env=ENVIRONMENT
            )
            assert process.returncode == 0, process.stderr
        lines = [x for x in mpctest.read_metrics(metrics) if x["event"] == "train"]
        with np.load(weights) as arrays:
            return lines, dict(arrays)


@pytest.fixture(scope="module", name="cases")
def make_cases(tmp_path_factory):
    """Makes each case once."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = Case(name, tmp_path_factory.mktemp(name))
        return made[name]

    return make


#
# Equal results
#

# Half the distance between neighbours, relative: of the types of sums, and of the
# low types. The sums over ranks and over batches are of float32, or of float64.
SUM = {mode: 2.0**-24 for mode in MODES} | {"64-true": 2.0**-53}
LOW = {"bf16-mixed": 2.0**-9, "16-mixed": 2.0**-12}
# The digits of the metrics.
PRINTED = {mode: 1e-8 for mode in MODES} | {"64-true": 1e-15}
# The most by which gradient descent increases an error in a step of these models,
# and the largest share of a weight in the loss.
GROWTH, SHARE = 10, 2.0**-7


def bound(mode, ranks):
    """The largest relative difference of weights, and of losses, between several
    ranks and one.

    The sum of a gradient and its division round `ranks` times in each step. A
    weight may then round to its other neighbour among 16-bit numbers.
    """
    rounding = SUM[mode] * ranks * STEPS * GROWTH
    return rounding + LOW.get(mode, 0) * SHARE + PRINTED[mode]


def losses_of(lines):
    return np.array([float(line["loss"]) for line in lines])


def is_statistic(name):
    return name in ("bn.mean", "bn.var")


def largest_difference(found, expected):
    """The largest difference of trained weights, relative to the largest weight
    of the tensor. Leaves out running statistics: those of several ranks are means
    over the ranks."""
    assert found.keys() == expected.keys()
    return max(
        np.abs(found[name] - expected[name]).max() / np.abs(expected[name]).max()
        for name in expected
        if not is_statistic(name)
    )


# All models, modes and numbers of ranks occur in a sample of the cases.
SAMPLE = {
    ("lenet", "32-true", 2),
    ("gpt", "bf16-mixed", 2),
    ("gpt", "64-true", 4),
    ("normalized", "16-mixed", 2),
    ("normalized", "32-true", 4),
}


@pytest.mark.parametrize(
    "name, mode, ranks",
    [
        pytest.param(*case, marks=() if case in SAMPLE else pytest.mark.full)
        for case in ((n, m, r) for n in BATCH for m in MODES for r in (2, 4))
    ],
)
def test_ranks_train_as_one_with_their_batches(cases, name, mode, ranks):
    """The run ends with an error if a bit of the ranks differs after a step."""
    case = cases(name)
    lines, weights = case.train(ranks, mode)
    expected, single = case.train(1, mode, accumulate=ranks)
    assert [line["samples"] for line in lines] == [x["samples"] for x in expected]
    assert len(lines) == STEPS and not any(line["skipped"] for line in lines)
    losses, wanted = losses_of(lines), losses_of(expected)
    limit = bound(mode, ranks)
    assert np.abs(losses / wanted - 1).max() <= limit
    assert largest_difference(weights, single) <= limit
    # Negative control: another seed drops other elements.
    if name == "normalized":
        other, _ = case.train(ranks, mode, "--seed", 1)
        assert np.abs(losses_of(other) / wanted - 1).max() > 100 * limit
    # Negative control: one rank without the batches of the others.
    alone, weights = case.train(1, mode)
    assert np.abs(losses_of(alone)[1:] / wanted[1:] - 1).max() > 100 * limit
    assert largest_difference(weights, single) > 100 * limit


@pytest.mark.parametrize(
    "name, mode, ranks",
    [
        ("normalized", "bf16-mixed", 2),
        pytest.param("gpt", "16-mixed", 4, marks=pytest.mark.full),
        pytest.param("lenet", "64-true", 3, marks=pytest.mark.full),
    ],
)
def test_two_runs_have_equal_bits(cases, name, mode, ranks):
    """Threads of other runs do not change the order of sums, either."""
    (first, weights), (second, others) = (
        cases(name).train(ranks, mode, "--threads", threads) for threads in (1, 2)
    )
    assert [line["loss"] for line in first] == [line["loss"] for line in second]
    for key, value in weights.items():
        assert value.tobytes() == others[key].tobytes(), key


@pytest.mark.skipif(
    not test_ranks_gloo.LIBRARY.exists(), reason="mpc was built without libgloo-dev"
)
def test_gloo_gives_the_bits_of_mpi(cases):
    case = cases("gpt")
    lines, weights = case.train(2, "16-mixed")
    arguments, metrics, output = case.arguments("16-mixed", "--data-parallel")
    test_ranks_gloo.start_alone(2, *arguments)
    found = [x for x in mpctest.read_metrics(metrics) if x["event"] == "train"]
    assert [line["loss"] for line in found] == [line["loss"] for line in lines]
    with np.load(output) as others:
        for key, value in weights.items():
            assert value.tobytes() == others[key].tobytes(), key


#
# Overflows
#

# The bad sample is in the last batch of the second step.
BAD_STEP = 2


@pytest.mark.parametrize(
    "name, value, scale, ranks",
    [
        # The bad sample overflows in the forward pass: the loss is not finite.
        ("normalized", 1e6, "dynamic", 2),
        # The loss is finite, and gradients overflow.
        ("lenet", 1e6, "524288", 2),
        pytest.param("lenet", 1e7, "dynamic", 4, marks=pytest.mark.full),
        pytest.param("normalized", 1e6, "dynamic", 4, marks=pytest.mark.full),
    ],
)
def test_an_overflow_on_one_rank_skips_the_step_on_all(cases, name, value, scale, ranks):
    case = cases(name)
    data = make_data(name)
    batch = BAD_STEP * ranks - 1
    data["image"][batch * BATCH[name] + 3] = value
    np.savez(case.folder / "bad.npz", **data)
    flags = {"compiled": ["--loss-scale", scale], "data": "bad.npz"}

    lines, weights = case.train(ranks, "16-mixed", **flags)
    skips = [line["skipped"] for line in lines]
    assert skips == [step == BAD_STEP for step in range(1, STEPS + 1)]
    assert lines[-1]["skipped_total"] == 1
    scales = [line["loss_scale"] for line in lines]
    if scale == "dynamic":
        assert scales == [2.0**16] * BAD_STEP + [2.0**15] * (STEPS - BAD_STEP)
    assert np.isfinite(losses_of(lines)[BAD_STEP - 1]) == (scale != "dynamic")
    assert all(np.isfinite(weight).all() for weight in weights.values())

    # One rank with the batches of all skips the same step.
    expected, single = case.train(1, "16-mixed", accumulate=ranks, **flags)
    assert [line["skipped"] for line in expected] == skips
    assert [line["loss_scale"] for line in expected] == scales
    assert largest_difference(weights, single) <= bound("16-mixed", ranks)

    # Negative controls: only the bad batch overflows, and only by the bad sample.
    count = batch + 2
    alone, _ = case.train(1, "16-mixed", "--max-steps", count, **flags)
    assert [line["skipped"] for line in alone] == [i == batch for i in range(count)]
    good, _ = case.train(ranks, "16-mixed", **{**flags, "data": "data.npz"})
    assert not any(line["skipped"] for line in good)
