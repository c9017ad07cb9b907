"""Configures lit: the test files, the tools that they call, and the host's
features.
"""

import os
import shutil
import subprocess
import sys

import lit.formats
from lit.llvm import llvm_config

config.name = "mpc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".onnxtxt", ".test"]
config.excludes = ["Inputs", "data", "e2e", "numerics", "onnx-node"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.mpc_binary_root, "test")

llvm_config.with_system_environment(["HOME", "TMPDIR", "TEMP"])
# An emulated CPU (test/emulator) needs these variables.
llvm_config.with_system_environment(["LD_PRELOAD", "MPC_EMULATOR_CPU"])
llvm_config.use_default_substitutions()

bin_dir = os.path.join(config.mpc_binary_root, "bin")
llvm_config.with_environment("PATH", bin_dir, append_path=True)
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.add_tool_substitutions(
    ["mpc-opt", "mpc-translate", "split-file", "mlir-tblgen"], [bin_dir, config.llvm_tools_dir]
)

# A captured variable ends with its CHECK-LABEL block. A prefix that no line
# uses is an error.
config.environment["FILECHECK_OPTS"] = (
    "--enable-var-scope --allow-unused-prefixes=false"
)
# Keep all caches inside the tree.
config.environment["MPC_KERNEL_CACHE"] = os.path.join(
    config.mpc_binary_root, "kernel-cache"
)
# Expected machine code is for one target, whichever host runs the test.
config.environment.pop("MPC_TARGET", None)
if config.mpc_sanitize == "ON":
    # MLIR's context outlives main in command-line tools by design. tools/test
    # explains the poisoned memory.
    config.environment["ASAN_OPTIONS"] = "detect_leaks=0:allow_user_poisoning=0"
    config.available_features.add("sanitize")

venv_python = os.path.join(config.mpc_source_root, ".venv", "bin", "python")
if not os.path.exists(venv_python):
    venv_python = sys.executable
# Precede lit's own substitution, which is the interpreter that runs lit.
config.substitutions.insert(0, ("%python", venv_python))
onnx_check = [venv_python, "-c", "import numpy, onnx"]
if subprocess.run(onnx_check, capture_output=True, check=False).returncode == 0:
    config.available_features.add("python-onnx")
if shutil.which("mpirun"):
    config.available_features.add("mpirun")
exits = os.path.join(config.test_source_root, "exits.sh")
config.substitutions.append(("%exits", exits))
onnx_text = os.path.join(config.test_source_root, "onnx_text.py")
config.substitutions.append(("%onnx_text", f"{venv_python} {onnx_text}"))
config.substitutions.append(("%root", config.mpc_source_root))
config.substitutions.append(("%build", config.mpc_binary_root))
config.substitutions.append(
    ("%runtime", os.path.join(config.mpc_binary_root, "lib/libmpc_runtime.so"))
)
config.substitutions.append(("%mlir_include", config.mlir_include_dir))
config.substitutions.append(
    ("%data", os.path.join(config.test_source_root, "data"))
)


def cpu_flags():
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("flags"):
                return set(line.split(":", 1)[1].split())
    return set()


flags = cpu_flags()
if {"amx_tile", "amx_bf16"} <= flags:
    config.available_features.add("amx")
if "avx512_bf16" in flags:
    config.available_features.add("avx512bf16")
try:
    for side in os.openpty():
        os.close(side)
    config.available_features.add("terminal")
except OSError:
    pass
if shutil.which("git"):
    config.available_features.add("git")
if shutil.which("ptxas"):
    config.available_features.add("ptxas")
if os.path.exists("/dev/nvidiactl"):
    config.available_features.add("cuda")
