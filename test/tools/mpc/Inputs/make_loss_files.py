"""Writes valid and invalid files of weights, and labels of -100, for
loss-flags.test.

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np

folder = sys.argv[1]
ones = np.ones(10)
np.save(f"{folder}/ten.npy", ones)
np.save(f"{folder}/nine.npy", ones[:9])
np.savez(
    f"{folder}/bad.npz",
    nan=np.where(np.arange(10) == 3, np.nan, ones),
    less=np.where(np.arange(10) == 9, -1, ones),
    zero=0 * ones,
    square=ones.reshape(2, 5),
    large=1e300 * ones,
)
labels = np.arange(16) % 10
labels[3] = -100
np.savez(
    f"{folder}/ignored.npz",
    image=np.ones((16, 1, 8, 8), np.float32),
    target=labels,
)
