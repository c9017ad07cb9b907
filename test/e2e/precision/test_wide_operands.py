"""Float32 values that meet low-precision values keep their digits: h is not
rounded away by a large input, constant or parameter, or by a tiny scale.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

BATCH, WIDTH, RATE = 16, 32, 1.0
# Digits of the low type. A product and a gradient lose a few each.
BOUND = {"bf16-mixed": 2e-2, "16-mixed": 3e-3}
MEETINGS = {
    "input": ("Add", ["h", "t"]),
    "image": ("Sub", ["t", "h"]),
    "constant": ("Add", ["h", "c"]),
    "scale": ("Mul", ["h", "c"]),
}


def norm_of(meeting, size, random):
    """Returns fc(LayerNorm(fc(x) meets t or c)) and its data."""
    op, operands = MEETINGS[meeting]

    def weight():
        return (random.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)

    def near(*shape):
        noise = 1 + 0.01 * random.standard_normal(shape)
        return (size * noise).astype(np.float32)

    def node(op, inputs, output, **attributes):
        return helper.make_node(op, inputs, [output], output, **attributes)

    def normal():
        return random.standard_normal((BATCH, WIDTH)).astype(np.float32)

    data = {"x": normal()}
    weights = {
        "w1": weight() / 2,
        "w2": weight(),
        "scale": np.ones(WIDTH, np.float32),
        "shift": np.zeros(WIDTH, np.float32),
    }
    if "t" in operands:
        data["t"] = near(BATCH, WIDTH)
    else:
        weights["c"] = near(WIDTH)
    model = mpctest.make_model(
        [
            node("MatMul", ["x", "w1"], "h"),
            node(op, operands, "s"),
            node(
                "LayerNormalization",
                ["s", "scale", "shift"],
                "n",
                axis=-1,
                epsilon=1e-5 * min(size**2, 1),
            ),
            node("MatMul", ["n", "w2"], "y"),
        ],
        {name: (np.float32, list(value.shape)) for name, value in data.items()},
        {"y": (np.float32, [BATCH, WIDTH])},
        weights,
    )
    return model, {**data, "target": normal()}, weights


@pytest.mark.parametrize("precision", BOUND)
@pytest.mark.parametrize(
    "meeting, size",
    [
        ("input", 1.5),
        ("input", 3),
        ("input", 1000),
        ("image", 255),
        ("constant", 100),
        ("scale", 1e-6),
    ],
)
def test_updates_are_of_the_low_type_s_digits(meeting, size, precision, tmp_path):
    """Compares weights before and behind the meeting with 64-true."""
    model, data, weights = norm_of(meeting, size, np.random.default_rng(0))

    def train(mode, *flags):
        metrics, trained = mpctest.train(
            model,
            data,
            tmp_path / mode,
            *("--loss", "mse", "--lr", RATE, "--max-steps", 1),
            *("--batch-size", BATCH, "--train", "^(w1|w2)$"),
            *("--precision", mode, *flags),
        )
        return mpctest.losses(metrics)[0], trained

    scale = ("--loss-scale", 4096) if precision == "16-mixed" else ()
    exact_loss, exact = train("64-true")
    loss, found = train(precision, *scale)
    assert abs(loss - exact_loss) < BOUND[precision] * exact_loss
    for name in ("w1", "w2"):
        update = exact[name].astype(np.float64) - weights[name]
        error = np.linalg.norm(found[name].astype(np.float64) - exact[name])
        assert error < BOUND[precision] * np.linalg.norm(update), name


def count_low(model, data, folder, *flags, command="train"):
    """The ops that compute or store below float32, as the command says."""
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "data.npz", **data)
    loss = ("--loss", "mse", "--precision", "bf16-mixed", "--batch-size", BATCH)
    if command == "train":
        flags = ("--data", folder / "data.npz", "--max-steps", 1, *flags)
    process = mpctest.mpc_ok(command, folder / "model.onnx", *loss, *flags)
    found = re.search(r"bf16-mixed: (\d+) of \d+ ops low", process.stdout + process.stderr)
    return int(found[1]) if found else None


def test_the_size_of_an_input_is_that_of_the_data(tmp_path):
    """As prepared: what --normalize makes small meets low values in bfloat16."""
    random = np.random.default_rng(0)
    model, data, _ = norm_of("input", 1, random)
    small = {**data, "t": random.standard_normal((BATCH, WIDTH)).astype(np.float32)}
    large = {**small, "t": small["t"] * 1000}
    unusual = {**small, "t": small["t"].copy()}
    unusual["t"][-1, -1] = 1000
    low = count_low(model, small, tmp_path / "small")
    wide = count_low(model, large, tmp_path / "large")
    assert low > wide
    assert count_low(model, unusual, tmp_path / "unusual") == wide
    scaled = ("--normalize", "t=0:1000")
    assert count_low(model, large, tmp_path / "scaled", *scaled) == low
    # Without data nothing is known.
    alone = count_low(model, small, tmp_path / "alone", command="explain")
    assert alone in (wide, None)
