"""Times training steps of ResNet-50 in mpc and PyTorch.

    resnet_bench.py [--rounds N] [--steps N] [--cpus LIST] [--only NAME]

SPDX-License-Identifier: Apache-2.0
"""

import itertools

import numpy as np
import rounds
from resnet_torch import BATCH, CLASSES, SIZE

WARM_UP = 2


def prepare(options):
    """Writes the model with its weights, and one batch of data, as files."""
    random = np.random.RandomState(0)
    image = random.uniform(0, 1, (BATCH, 3, SIZE, SIZE)).astype(np.float32)
    target = random.randint(0, CLASSES, BATCH)
    rounds.export(options, "resnet", image=image, target=target)


def main():
    options = rounds.parse_options(__doc__, WARM_UP)
    prepare(options)

    contenders = rounds.list_contenders(
        *(options, "resnet", BATCH, ["--optimizer", "momentum", "--lr", "1e-3"]),
        torch=itertools.product(("fp32", "bf16"), ("eager", "compiled")),
    )
    title = f"ResNet-50, batch {BATCH}, SGD with momentum"
    rounds.compare(title, options, contenders, "mpc bf16-mixed")


if __name__ == "__main__":
    main()
