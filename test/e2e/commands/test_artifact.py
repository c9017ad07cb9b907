"""An artifact trains like its model, without the compiler.

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess

import onnx
import pytest

import mpctest

RECIPE = [
    *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
    *("--batch-size", "32", "--precision", "bf16-mixed"),
]


def loop_flags(output):
    return [
        *("--data", mpctest.DIGITS / "digits-train.npz"),
        *("--max-steps", "30", "--seed", "9", "--output", output),
    ]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    path = tmp_path_factory.mktemp("artifact") / "digits.mpc"
    model = mpctest.MODELS / "digits-cnn.onnx"
    mpctest.mpc_ok("compile", model, *RECIPE, "-o", path)
    return path


def test_trains_as_its_model(artifact, tmp_path):
    model = mpctest.MODELS / "digits-cnn.onnx"
    mpctest.mpc_ok("train", model, *RECIPE, *loop_flags(tmp_path / "a.onnx"))
    mpctest.mpc_ok(
        *("train", artifact, "--export-model", model),
        *loop_flags(tmp_path / "b.onnx"),
    )
    models = [onnx.load(tmp_path / f"{name}.onnx") for name in "ab"]
    # An artifact has its loss compiled in, and does not record the flags.
    for model in models:
        del model.metadata_props[:]
    assert models[0] == models[1]


@pytest.mark.starts_mpc
def test_compiling_twice_gives_the_same_file(artifact, tmp_path):
    model = mpctest.MODELS / "digits-cnn.onnx"
    mpctest.mpc_ok(
        *("compile", model, *RECIPE, "--kernel-cache", "none"),
        *("-o", tmp_path / "again.mpc"),
    )
    assert (tmp_path / "again.mpc").read_bytes() == artifact.read_bytes()


def test_standard_tools_can_look_inside(artifact):
    sections = subprocess.run(
        ["readelf", "-SW", artifact], capture_output=True, text=True, check=True
    ).stdout
    for section in (".mpc.plan", ".mpc.data", ".mpc.digest", ".text"):
        assert section in sections


@pytest.mark.skipif(os.geteuid() != 0, reason="files are given away by root")
def test_an_artifact_of_another_user_does_not_run(artifact, tmp_path):
    path = tmp_path / "theirs.mpc"
    path.write_bytes(artifact.read_bytes())
    os.chown(path, 12345, -1)
    flags = loop_flags(tmp_path / "trained.npz")
    process = mpctest.mpc("train", path, *flags)
    assert process.returncode == 2
    assert "user 12345 owns it, neither you nor root; copy it" in process.stderr
    mpctest.mpc_ok("train", path, "--trust", *flags)


@pytest.mark.parametrize("where", [0.2, 0.5, 0.9])
def test_corrupted_artifact_is_invalid_input(artifact, where, tmp_path):
    content = bytearray(artifact.read_bytes())
    content[int(len(content) * where)] ^= 0x10
    path = tmp_path / "corrupted.mpc"
    path.write_bytes(content)
    process = mpctest.mpc("train", path, *loop_flags(tmp_path / "trained.npz"))
    assert process.returncode == 3
    assert process.stderr.count("error") == 1
    assert "corrupted.mpc" in process.stderr
    assert not (tmp_path / "trained.npz").exists()


def test_truncated_artifact_is_invalid_input(artifact, tmp_path):
    content = artifact.read_bytes()
    path = tmp_path / "truncated.mpc"
    path.write_bytes(content[: len(content) // 2])
    process = mpctest.mpc("train", path, *loop_flags(tmp_path / "trained.npz"))
    assert process.returncode == 3


def test_runtime_links_neither_llvm_nor_mlir():
    needed = subprocess.run(
        ["ldd", mpctest.BUILD / "lib" / "libmpc_runtime.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "LLVM" not in needed and "MLIR" not in needed
