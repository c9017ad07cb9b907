"""`--sync-batch-norm`: ranks normalize by the batches of all ranks, so they train
as one rank does with their samples in one batch.

SPDX-License-Identifier: Apache-2.0
"""

import json
import shutil

import numpy as np
import pytest
from onnx import helper

import mpctest
import test_ranks

USAGE = 2
CNN = mpctest.MODELS / "digits-cnn.onnx"
LOSS = ("--loss", "softmax_cross_entropy")
SYNC = "--sync-batch-norm"
# Rounding of losses: two ranks add in another order than one, and a value in 16
# bits may then round to a neighbour.
TOLERANCES = {"32-true": 1e-5, "64-true": 1e-12, "bf16-mixed": 3e-3, "16-mixed": 1e-3}

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun of Open MPI is not installed"
)


def train(count, batch, folder, *flags, model=CNN, steps=6):
    """Trains on `count` ranks with `batch` samples each. Returns the losses of the
    steps, and the weights with the running statistics."""
    folder.mkdir(exist_ok=True)
    process = test_ranks.mpirun(
        *(count, "train", model, *test_ranks.LOOP, *mpctest.TARGET),
        *("--max-steps", steps, "--lr", 0.1, "--metrics", folder / "m.jsonl"),
        *("--output", folder / "w.npz", *flags),
        *(() if model.suffix == ".mpc" else ("--batch-size", batch, *LOSS)),
    )
    assert process.returncode == 0, process.stderr
    lines = mpctest.read_metrics(folder / "m.jsonl")
    losses = [line["loss"] for line in lines if line["event"] == "train"]
    assert len(losses) == steps
    return losses, dict(np.load(folder / "w.npz"))


def statistics(weights):
    found = {k: v for k, v in weights.items() if "mean" in k or "var" in k}
    assert found
    return found


@pytest.mark.parametrize("precision", TOLERANCES)
def test_ranks_train_as_one_with_their_samples_in_one_batch(precision, tmp_path):
    mode = ("--precision", precision)
    losses, weights = train(2, 8, tmp_path / "two", SYNC, *mode)
    again = train(2, 8, tmp_path / "again", SYNC, *mode)
    assert again[0] == losses
    assert test_ranks.largest_difference(again[1], weights) == 0
    expected, single = train(1, 16, tmp_path / "one", *mode)
    tolerance = TOLERANCES[precision]
    assert losses == pytest.approx(expected, rel=tolerance)
    assert weights.keys() == single.keys()
    for name, value in statistics(single).items():
        np.testing.assert_allclose(
            weights[name], value, rtol=10 * tolerance, atol=10 * tolerance
        )
    # Negative control: each rank with its own statistics.
    own, _ = train(2, 8, tmp_path / "own", *mode)
    assert own != pytest.approx(expected, rel=3 * tolerance)


def test_micro_batches_and_three_ranks(tmp_path):
    """Each micro-batch has statistics of its own, over all ranks."""
    flags = ("--accumulate-grad-batches", 2)
    losses, _ = train(3, 4, tmp_path / "three", SYNC, *flags)
    expected, _ = train(1, 12, tmp_path / "one", *flags)
    assert losses == pytest.approx(expected, rel=1e-5)


def test_one_rank_trains_to_the_same_bits(tmp_path):
    """A single rank has no statistics to reduce."""
    losses, weights = train(1, 16, tmp_path / "plain")
    for flags in ([SYNC], [SYNC, "--data-parallel"]):
        again, other = train(1, 16, tmp_path / "-".join(["one", *flags]), *flags)
        assert again == losses
        assert test_ranks.largest_difference(other, weights) == 0


def make_model(path, offset=0.0):
    """Writes a linear layer, a normalization and a linear layer for digits. The
    running statistics after a step are those of its batch."""
    random = np.random.RandomState(0)
    values = {
        "w": random.randn(64, 8) / 8,
        "b": np.full(8, offset),
        "scale": np.ones(8),
        "bias": np.zeros(8),
        "mean": np.zeros(8),
        "var": np.ones(8),
        "head": random.randn(8, 10) / 3,
    }
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "w", "b"], ["h"], "fc"),
        helper.make_node(
            *("BatchNormalization", ["h", "scale", "bias", "mean", "var"]),
            *(["n", "new_mean", "new_var"], "bn"),
            momentum=0.0,
            training_mode=1,
        ),
        helper.make_node("MatMul", ["n", "head"], ["y"], "classes"),
    ]
    model = mpctest.make_model(
        nodes,
        {"image": (np.float32, ["N", 1, 8, 8])},
        {"y": (np.float32, ["N", 10])},
        {name: value.astype(np.float32) for name, value in values.items()},
    )
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("variance", ["population", "unbiased"])
def test_the_running_variance_counts_the_elements_of_all_ranks(variance, tmp_path):
    """Two ranks with two elements per channel have the factor 4 / 3, not 2."""
    flags = ("--running-variance", variance)
    options = {"model": make_model(tmp_path / "model.onnx"), "steps": 1}
    _, weights = train(2, 2, tmp_path / "two", SYNC, *flags, **options)
    _, single = train(1, 4, tmp_path / "one", *flags, **options)
    for name, value in statistics(single).items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-5, err_msg=name)


def test_digits_do_not_cancel_far_from_zero(tmp_path):
    """The mean of each channel is far larger than the deviation. In float32, mean(x
    * x) - mean(x) * mean(x) would lose the digits of the variance."""
    model = make_model(tmp_path / "model.onnx", offset=1000.0)
    flags = ("--running-variance", "population")
    _, weights = train(2, 8, tmp_path / "two", SYNC, *flags, model=model, steps=1)
    _, single = train(1, 16, tmp_path / "one", *flags, model=model, steps=1)
    for name, value in statistics(single).items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-4, err_msg=name)


def test_the_flag_must_have_an_effect(tmp_path):
    mlp = mpctest.MODELS / "mlp.onnx"
    flags = (*LOSS, "--batch-size", 4, SYNC)
    process = mpctest.mpc("compile", mlp, *flags, "--data-parallel", "--emit=plan")
    assert process.returncode == USAGE
    assert "the model has no BatchNormalization that normalizes" in process.stderr
    process = mpctest.mpc("compile", CNN, *flags, "--emit=plan")
    assert process.returncode == USAGE
    assert "no effect without --data-parallel" in process.stderr


def test_artifacts_record_the_flag_and_train_on_any_number_of_ranks(tmp_path):
    artifact = tmp_path / "m.mpc"
    mpctest.mpc_ok(
        *("compile", CNN, *LOSS, "--batch-size", 8, SYNC, "--data-parallel"),
        *("-o", artifact),
    )
    described = mpctest.mpc_ok("inspect", artifact, "--format", "json").stdout
    assert json.loads(described)["recipe"]["sync_batch_norm"] is True
    for ranks in (1, 2):
        losses, _ = train(ranks, 8, tmp_path / f"{ranks}", model=artifact)
        flags = [SYNC] if ranks > 1 else []
        expected, _ = train(ranks, 8, tmp_path / f"again-{ranks}", *flags)
        assert losses == expected
