"""On every CPU target that the host can execute, each precision has the losses
of 64-true within the types' roundings.

The bounds hold over the first steps. Later the residual network's losses depend
on roundings at Relu's kink.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import mpctest

TARGETS = ["x86-64", "x86-64-v3", "x86-64-v4", "zen5", "sapphirerapids"]
STEPS = 12

# The greatest and the least distance of a loss from float64: 16-bit types must
# round.
BOUNDS = {
    "64-true": (0, 1e-13),
    "32-true": (0, 1e-6),
    "bf16-mixed": (1e-6, 1e-2),
    "16-mixed": (1e-6, 1e-2),
}


@pytest.fixture(scope="module", name="data")
def digits(tmp_path_factory):
    """Returns the digits for each model, in the model's image size."""
    with np.load(mpctest.DIGITS / "digits-train.npz") as arrays:
        image, target = arrays["image"][:512], arrays["target"][:512]
    large = np.pad(image.repeat(3, 2).repeat(3, 3), [(0, 0)] * 2 + [(4, 4)] * 2)
    folder = tmp_path_factory.mktemp("digits")
    np.savez(folder / "small.npz", image=image, target=target)
    np.savez(folder / "large.npz", image=large, target=target)
    return {
        "mlp": folder / "small.npz",
        "resnet": folder / "small.npz",
        "lenet": folder / "large.npz",
    }


def train(model, data, precision, target, folder):
    """Returns the losses. Skips the test if the host lacks the target's
    features."""
    folder.mkdir()
    process = mpctest.mpc(
        *("train", mpctest.MODELS / f"{model}.onnx", "--data", data[model]),
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--lr", "0.05", "--batch-size", "32", "--max-steps", STEPS),
        *("--no-shuffle", "--precision", precision, "--target", target),
        *("--metrics", folder / "metrics.jsonl"),
        *("--output", folder / "trained.onnx"),
    )
    if process.returncode == 6 and "needs CPU features" in process.stderr:
        pytest.skip(f"this machine cannot execute code for {target}")
    assert process.returncode == 0, process.stderr
    losses = mpctest.losses(mpctest.read_metrics(folder / "metrics.jsonl"))
    assert len(losses) == STEPS
    return np.array(losses)


@pytest.fixture(scope="module", name="reference")
def exact_losses(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    return {
        model: train(model, data, "64-true", "native", folder / model)
        for model in data
    }


def cases():
    """Yields every model for every target. A sample keeps lenet for the
    narrowest and the widest vectors: other models have all its layers except
    pooling."""
    for target in TARGETS:
        for model in ["mlp", "lenet", "resnet"]:
            between = model == "lenet" and target not in ("x86-64", "x86-64-v4")
            marks = [pytest.mark.full] if between else []
            yield pytest.param(model, target, marks=marks)


@pytest.mark.parametrize("model, target", cases())
def test_losses_are_those_of_float64(model, target, data, reference, tmp_path):
    for precision, (least, most) in BOUNDS.items():
        losses = train(model, data, precision, target, tmp_path / precision)
        errors = np.abs(losses - reference[model]) / reference[model]
        assert (
            least <= errors.max() <= most
        ), f"{precision}: {errors.max():.1e} from float64"
