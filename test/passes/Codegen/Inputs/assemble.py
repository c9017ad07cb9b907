"""Compiles a model's training step for GPUs in every mode and assembles it.

    assemble.py MODEL OUTPUT-FOLDER [TARGET...]

The default targets are sm_80 and sm_90. Prints one line per mode and target with
the number of kernels. Exits with 1 if
ptxas rejects a kernel, or if a kernel spills registers or uses a stack.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import subprocess
import sys

MODES = ("32-true", "bf16-mixed", "16-mixed", "64-true")
REPORT = re.compile(
    r"Function properties for (\S+)\s+(\d+) bytes stack frame, "
    r"(\d+) bytes spill stores, (\d+) bytes spill loads"
)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stderr


def main():
    model, folder, *targets = sys.argv[1:]
    name = pathlib.Path(model).stem
    recipe = ["--loss", "softmax_cross_entropy", "--optimizer", "adamw"]
    pathlib.Path(folder).mkdir(exist_ok=True)
    bad = []
    for mode in MODES:
        for target in targets or ("sm_80", "sm_90"):
            ptx = f"{folder}/{mode}.{target}.ptx"
            run("mpc", "compile", model, *recipe, "--batch-size", "32",
                "--precision", mode, "--target", target, "--emit=ptx",
                "-o", ptx)  # fmt: skip
            said = run("ptxas", "-v", f"-arch={target}", "-o", "/dev/null", ptx)
            kernels = REPORT.findall(said)
            entries = pathlib.Path(ptx).read_text().count(".entry ")
            print(f"{name} {mode} {target}: {len(kernels)} kernels")
            if len(kernels) != entries or entries == 0:
                bad.append(f"{mode} {target}: {entries} kernels in the PTX")
            bad += [f"{mode} {target}: {kernel}" for kernel in kernels
                    if kernel[1:] != ("0", "0", "0")]  # fmt: skip
    for line in bad:
        print("bad:", line)
    sys.exit(bool(bad))


main()
