"""`native` detects CPUs of other classes than the host, and gives the same bits
as the same target by name.

SPDX-License-Identifier: Apache-2.0
"""

import re
import shutil
import subprocess
import tempfile

import pytest

import mpctest

LIBRARY = mpctest.BUILD / "test" / "emulator" / "libmpc_emulated_cpu.so"
# The target with the same features as each CPU.
CPUS = {
    "sapphirerapids": "sapphirerapids",
    "zen5": "zen5",
    "haswell": "x86-64-v3",
}
# A target with more features than the CPU.
MORE = {"zen5": "sapphirerapids", "haswell": "zen5"}
EMULATED_FEATURES = {"amx-bf16", "amx-tile", "avx512fp16"}
MODES = ["32-true", "bf16-mixed", "16-mixed", "64-true"]
TASK = ["--loss", "softmax_cross_entropy", "--optimizer", "adamw"]
TASK += ["--batch-size", "32"]


@pytest.fixture(name="cpu", params=CPUS)
def emulated_cpu(request, monkeypatch):
    """Returns the name of the CPU that all later processes detect."""
    real = set(features("native"))
    monkeypatch.setenv("LD_PRELOAD", str(LIBRARY))
    monkeypatch.setenv("MPC_EMULATOR_CPU", request.param)
    process = subprocess.run(
        ["true"], capture_output=True, text=True, check=False
    )
    if "needs a machine with" in process.stderr:
        pytest.skip(process.stderr)
    assert process.returncode == 0, process.stderr
    wanted = set(features(CPUS[request.param])) - EMULATED_FEATURES
    if not wanted <= real:
        pytest.skip("this machine has less than the CPU to emulate")
    return request.param


def compile_mlp(target, path):
    model = mpctest.MODELS / "mlp.onnx"
    mpctest.mpc_ok("compile", model, *TASK, "--target", target, "-o", path)


def features(target):
    """Returns the CPU features that code for `target` may use."""
    with tempfile.TemporaryDirectory() as folder:
        compile_mlp(target, f"{folder}/mlp.mpc")
        text = mpctest.mpc_ok("inspect", f"{folder}/mlp.mpc").stdout
    return re.search("^target .*, needs (.*)$", text, re.MULTILINE)[1].split()


def losses(target, precision, folder):
    metrics, _ = mpctest.train(
        mpctest.MODELS / "digits-cnn.onnx",
        mpctest.DIGITS / "digits-train.npz",
        folder,
        *(*TASK, "--max-steps", "6"),
        *("--precision", precision, "--target", target),
    )
    return mpctest.losses(metrics)


def test_native_is_what_cpuid_says(cpu):
    assert features("native") == features(CPUS[cpu])


@pytest.mark.parametrize("cpu", MORE, indirect=True)
def test_code_for_more_is_refused(cpu, tmp_path):
    compile_mlp(MORE[cpu], tmp_path / "mlp.mpc")
    process = mpctest.mpc(
        *("train", tmp_path / "mlp.mpc"),
        *("--data", mpctest.DIGITS / "digits-train.npz"),
    )
    assert process.returncode == 6
    assert "needs CPU features" in process.stderr


def test_a_library_without_its_folder_does_not_emulate(tmp_path):
    library = shutil.copy(LIBRARY, tmp_path)
    process = subprocess.run(
        ["true"],
        capture_output=True,
        text=True,
        check=False,
        env={"LD_PRELOAD": str(library), "MPC_EMULATOR_CPU": "haswell"},
    )
    assert process.returncode != 0
    assert f"{tmp_path}/cpuid/ cannot be read" in process.stderr


@pytest.mark.parametrize("precision", MODES)
def test_bits_are_those_of_the_target_by_name(
    cpu, precision, tmp_path, monkeypatch
):
    native = losses("native", precision, tmp_path / "native")
    # The host runs code for a weaker CPU natively. sapphirerapids stays
    # emulated in both runs, because its tiles are.
    if cpu in MORE:
        monkeypatch.delenv("LD_PRELOAD")
    assert native == losses(CPUS[cpu], precision, tmp_path / "named")
