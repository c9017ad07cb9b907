"""Times training steps of a 4 x 2048 perceptron in mpc and PyTorch.

    mlp_bench.py [--rounds N] [--steps N] [--cpus LIST] [--only NAME]

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np
import rounds

WIDTH, BATCH, WARM_UP = 2048, 256, 5

sys.path.insert(0, str(rounds.ROOT / "test" / "data" / "models"))
import make_models  # noqa: E402  (found through the path above)


def prepare():
    """Writes the model with its weights, and one batch of data, as files."""
    import onnx

    rounds.FOLDER.mkdir(parents=True, exist_ok=True)
    model = make_models.mlp((WIDTH,) * 5, (WIDTH,))
    onnx.save(model, rounds.FOLDER / "mlp.onnx")
    random = np.random.RandomState(0)
    image = random.uniform(0, 16, (BATCH, WIDTH)).astype(np.float32)
    target = random.randint(0, 10, BATCH)
    np.savez(rounds.FOLDER / "mlp.npz", image=image, target=target)


def main():
    options = rounds.parse_options(__doc__, WARM_UP)
    prepare()

    contenders = rounds.list_contenders(
        *(options, "mlp", BATCH, ["--optimizer", "adamw", "--lr", "1e-4"]),
        torch=[("fp32", "eager"), ("bf16", "eager"), ("bf16", "compiled")],
    )
    title = f"4 x {WIDTH}, batch {BATCH}, AdamW"
    rounds.compare(title, options, contenders, "mpc bf16-mixed")


if __name__ == "__main__":
    main()
