"""Times training steps of ResNet-50 in mpc and PyTorch.

    resnet_bench.py [--rounds N] [--steps N] [--cpus LIST] [--only NAME]

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np
import rounds
from resnet_torch import BATCH, CLASSES, SIZE

WARM_UP = 2


def prepare(options):
    """The model with its weights, and one batch of data, as files."""
    rounds.FOLDER.mkdir(parents=True, exist_ok=True)
    script = rounds.HERE / "resnet_torch.py"
    model = rounds.FOLDER / "resnet50.onnx"
    rounds.execute([sys.executable, script, "export", model], options.cpus)
    random = np.random.RandomState(0)
    image = random.uniform(0, 1, (BATCH, 3, SIZE, SIZE)).astype(np.float32)
    target = random.randint(0, CLASSES, BATCH)
    np.savez(rounds.FOLDER / "resnet50.npz", image=image, target=target)


def main():
    options = rounds.parse_options(__doc__, WARM_UP)
    prepare(options)

    def mpc(precision):
        return lambda: rounds.train(
            options,
            *(rounds.FOLDER / "resnet50.onnx", rounds.FOLDER / "resnet50.npz"),
            *(BATCH, precision, "--optimizer", "momentum", "--lr", "1e-3"),
        )

    def torch(how, precision):
        script = "resnet_torch.py"
        return lambda: rounds.run_torch(options, script, how, precision)

    contenders = {
        "mpc 32-true": mpc("32-true"),
        "mpc bf16-mixed": mpc("bf16-mixed"),
        "PyTorch fp32 eager": torch("eager", "fp32"),
        "PyTorch fp32 compiled": torch("compiled", "fp32"),
        "PyTorch bf16 eager": torch("eager", "bf16"),
        "PyTorch bf16 compiled": torch("compiled", "bf16"),
    }
    title = f"ResNet-50, batch {BATCH}, SGD with momentum"
    rounds.compare(title, options, contenders, "mpc bf16-mixed")


if __name__ == "__main__":
    main()
