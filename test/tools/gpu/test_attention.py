"""Tests the GPU check's timing of cuDNN's attention without a GPU. The real
library builds plans for a described GPU, and NumPy computes their results.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

from mpctest import ROOT

CUDA = [
    folder
    for place in (pathlib.Path("/usr/local/cuda"), *pathlib.Path("/opt").glob("cuda*"))
    for folder in (place / "lib64", place / "lib")
    if (folder / "libcudnn.so.9").exists()
]


@pytest.fixture(name="attention")
def import_attention(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "gpu"))
    return importlib.import_module("attention")


@pytest.mark.skipif(not CUDA, reason="this machine has no cuDNN")
@pytest.mark.parametrize("version", [800, 900])
def test_the_library_has_plans_both_ways(tmp_path, version):
    driver = pathlib.Path(__file__).parent / "Inputs" / "described_cuda.c"
    subprocess.run(
        [
            *("cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", driver),
            *("-o", tmp_path / "libcuda.so.1", "-ldl"),
        ],
        check=True,
    )
    folders = [str(folder) for place in CUDA for folder in (place, place.parent / "lib64")]
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "tools" / "gpu" / "attention.py"),
            *("--plans", str(version), "gpt2-gpu"),
        ],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(tmp_path),
            "MPC_CUDA_LIBRARY_PATH": ":".join(folders),
            "MPC_TEST_CAPABILITY": str(version // 10),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    record = json.loads(done.stdout)
    for way in ("forward", "deterministic", "accumulating"):
        assert record[f"{way}_build_s"] > 0, record
    # The gradient of all scores, in 16 bits.
    assert record["deterministic_scratch"] >= 16 * 12 * 512 * 512 * 2
    assert record["accumulating_scratch"] < 16 * 12 * 512 * 512


class Memory:
    """Replaces a GPU's memory: addresses are the host's."""

    def __init__(self):
        self.held = {}

    def buffer(self, name, size):
        if name not in self.held:
            self.held[name] = np.zeros(size, np.uint8)
        return types.SimpleNamespace(value=self.held[name].ctypes.data)

    def copy_to(self, address, array):
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def copy_from(self, array, address):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def microseconds(self, run):
        return None if run() else 1.0


class Plan:
    """Computes attention in float32 at the given addresses."""

    workspace = 0

    def __init__(self, module, shape, is_forward):
        self.module, self.shape, self.is_forward = module, shape, is_forward
        self.damage = 0

    def bind(self, addresses, _):
        self.at = addresses

    def view(self, name, count):
        """Returns every `count`th block of heads from an address on, as [batch,
        heads, tokens, width]."""
        b, h, s, d, _ = self.shape
        size = (b * s * count - count + 1) * h * d
        flat = np.frombuffer(
            (ctypes.c_uint16 * size).from_address(self.at[name]), np.uint16
        )
        strides = [s * count * h * d * 2, d * 2, count * h * d * 2, 2]
        return np.lib.stride_tricks.as_strided(flat, (b, h, s, d), strides)

    def load(self, name, count):
        return self.module.from_bf16(self.view(name, count))

    def store(self, name, count, values):
        self.view(name, count)[...] = self.module.to_bf16(values)

    def run(self):
        q, k, v = (self.load(name, 3) for name in "qkv")
        scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(self.shape.width)
        if self.shape.mask == "causal":
            scores[..., ~np.tri(self.shape.tokens, dtype=bool)] = -np.inf
        if self.shape.mask == "bias":
            size = self.shape.batch * self.shape.tokens
            bits = np.frombuffer(
                (ctypes.c_uint16 * size).from_address(self.at["bias"]), np.uint16
            )
            scores += self.module.from_bf16(bits).reshape(self.shape.batch, 1, 1, -1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        if self.is_forward:
            self.store("o", 1, weights @ v + self.damage)
            return 0
        o, slope = self.load("o", 1), self.load("do", 1)
        sums = (o * slope).sum(-1, keepdims=True)
        inner = weights * (np.einsum("bhid,bhjd->bhij", slope, v) - sums)
        inner /= np.sqrt(self.shape.width)
        self.store("dq", 3, inner @ k)
        self.store("dk", 3, np.swapaxes(inner, 2, 3) @ q)
        self.store("dv", 3, np.swapaxes(weights, 2, 3) @ slope + self.damage)
        self.damage += self.damage
        return 0


@pytest.mark.parametrize("mask", ["causal", "bias", None])
def test_what_a_plan_gives_is_judged(attention, mask):
    shape = attention.Shape(2, 3, 40, 16, mask)
    plans = {
        "forward": Plan(attention, shape, True),
        "deterministic": Plan(attention, shape, False),
        "accumulating": Plan(attention, shape, False),
    }
    plans["accumulating"].damage = 1e-3
    result = attention.measure(Memory(), plans, shape)
    assert result["forward_same_bits"] and result["deterministic_same_bits"]
    assert not result["accumulating_same_bits"]
    for way in ("forward", "deterministic"):
        assert result[f"{way}_us"] == 1.0
        assert 0 < result[f"{way}_relative_error"] < 0.02
    assert result["accumulating_relative_error"] > 0.02
