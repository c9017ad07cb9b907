"""Times training steps of a transformer in mpc and PyTorch.

    transformer_bench.py [--rounds N] [--steps N] [--cpus LIST] [--only NAME]

SPDX-License-Identifier: Apache-2.0
"""

import itertools

import numpy as np
import rounds
from transformer_torch import BATCH, LAYERS, TOKENS, VOCABULARY, WIDTH

WARM_UP = 3


def prepare(options):
    """Writes the model with its weights, and one batch of data, as files."""
    random = np.random.RandomState(0)
    ids, target = random.randint(0, VOCABULARY, (2, BATCH, TOKENS))
    rounds.export(options, "transformer", ids=ids, target=target)


def main():
    options = rounds.parse_options(__doc__, WARM_UP)
    prepare(options)

    contenders = rounds.list_contenders(
        *(options, "transformer", BATCH, ["--optimizer", "adamw", "--lr", "1e-4"]),
        torch=itertools.product(("fp32", "bf16"), ("eager", "compiled")),
    )
    tokens = BATCH * TOKENS
    title = f"{LAYERS} layers of {WIDTH}, {tokens} tokens, AdamW"
    rounds.compare(title, options, contenders, "mpc bf16-mixed")


if __name__ == "__main__":
    main()
