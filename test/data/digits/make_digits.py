"""Makes digits-train.npz and digits-test.npz from scikit-learn's copy of the
UCI optical digits (see ATTRIBUTION.md).

    pip install scikit-learn && python make_digits.py

Every fifth image is held back for testing, in the file's order. Pixels keep the
data's range 0..16: the models divide by 16.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib

import numpy as np
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).parent


def main():
    digits = load_digits()
    image = digits.images.astype(np.uint8)[:, None, :, :]
    target = digits.target.astype(np.uint8)
    held_back = np.arange(len(target)) % 5 == 4
    for name, rows in (("train", ~held_back), ("test", held_back)):
        np.savez_compressed(
            HERE / f"digits-{name}.npz", image=image[rows], target=target[rows]
        )


if __name__ == "__main__":
    main()
