"""Installs the packages of dist/ in a fresh Debian root, where neither LLVM nor
a compiler is, and trains there. `tools/test --packages` runs this suite.

The root is made by debootstrap, needs root rights, and is kept as a template in
the build folder. Without one of these, the suite is skipped.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DIST = pathlib.Path(os.environ.get("MPC_DIST_DIR", ROOT / "dist"))
CACHE = pathlib.Path(os.environ.get("MPC_ROOTS_DIR", ROOT / "build-packages" / "roots"))
SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("mpc-onnx", "libmpc-runtime0", "libmpc-runtime-dev", "libmpc-gloo0")
TRAIN = (
    "--loss softmax_cross_entropy --optimizer adamw --batch-size 32"
    " --precision bf16-mixed"
)


def make_template(folder):
    """Makes a minimal root. An interrupted run leaves none."""
    unfinished = folder.with_suffix(".tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", SUITE, unfinished, MIRROR]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        pytest.skip(f"debootstrap failed: {process.stdout[-300:]}")
    # How this machine reaches the mirror.
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", unfinished / "etc" / name)
    dump = subprocess.run(
        ["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True
    )
    proxies = [line for line in dump.stdout.splitlines() if "Proxy" in line]
    (unfinished / "etc/apt/apt.conf.d/90proxy").write_text("\n".join(proxies) + "\n")
    unfinished.rename(folder)


class FreshRoot:
    """A root file system of its own. `run` returns a command's output."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, command, code=0):
        environment = {
            "HOME": "/root",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C.UTF-8",
        }
        process = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
            + [f"--root={self.folder}", "--mount-proc", "--wd=/root"]
            + ["sh", "-c", command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == code, process.stdout + process.stderr
        return process.stdout

    def installed(self):
        """Returns the names of the installed packages."""
        return set(self.run("dpkg-query -W -f '${Package}\n'").split())


def find_package(name):
    (file,) = DIST.glob(f"{name}_*_amd64.deb")
    return file


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A fresh root in which mpc-onnx is installed."""
    if os.geteuid() != 0:
        pytest.skip("a fresh root needs the rights of root")
    if not shutil.which("debootstrap"):
        pytest.skip("debootstrap is not installed")
    template = CACHE / SUITE
    if not template.exists():
        make_template(template)
    folder = CACHE / "fresh"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["cp", "-a", template, folder], check=True)
    for name in PACKAGES:
        shutil.copy(find_package(name), folder / "root" / f"{name}.deb")
    shutil.copy(ROOT / "test/data/models/digits-cnn.onnx", folder / "root/model.onnx")
    for part in ("train", "test"):
        source = ROOT / f"test/data/digits/digits-{part}.npz"
        shutil.copy(source, folder / f"root/{part}.npz")
    fresh = FreshRoot(folder)
    begin = time.monotonic()
    fresh.run("apt-get update -qq")
    fresh.run(
        "apt-get install -qq --no-install-recommends ./mpc-onnx.deb"
        " ./libmpc-runtime0.deb"
    )
    print(f"\ninstalled in {time.monotonic() - begin:.1f} s")
    yield fresh
    shutil.rmtree(folder, ignore_errors=True)


def test_no_compiler_comes_along(root):
    names = root.installed()
    assert {"mpc-onnx", "libmpc-runtime0", "libjpeg62-turbo"} <= names
    assert not [name for name in names if re.search(r"llvm|mlir|clang|gcc-\d+$|binutils", name)]
    linked = root.run("ldd /usr/bin/mpc /usr/lib/x86_64-linux-gnu/libmpc_runtime.so.0")
    assert "libmpc_runtime.so.0 => " in linked
    assert "not found" not in linked
    assert not re.search("LLVM|MLIR", linked)


def test_the_program_describes_itself(root):
    lines = root.run("mpc --version").splitlines()
    assert re.fullmatch(r"mpc \d+\.\d+\.\d+", lines[0])
    assert lines[2].startswith("LLVM: 22.")


def test_a_model_trains(root):
    begin = time.monotonic()
    root.run(f"mpc train model.onnx --data train.npz --epochs 10 {TRAIN} --output t.onnx")
    print(f"\ntrained in {time.monotonic() - begin:.1f} s")
    scores = root.run("mpc eval t.onnx --data test.npz --loss softmax_cross_entropy")
    (accuracy,) = re.findall(r"accuracy\D*([\d.]+)", scores)
    assert float(accuracy) > 95, scores


def test_an_artifact_trains(root):
    root.run(f"mpc compile model.onnx {TRAIN} -o model.mpc")
    assert "step" in root.run("mpc inspect model.mpc")
    root.run(
        "mpc train model.mpc --data train.npz --epochs 1 --output w.safetensors"
        " --metrics run.jsonl --checkpoint-dir checkpoints"
    )
    root.run("mpc eval model.mpc --checkpoint checkpoints --data test.npz")
    root.run("mpc report run.jsonl -o report.html")


def test_ranks_without_mpi_train(root):
    train = f"mpc train model.onnx --data train.npz --max-steps 5 {TRAIN} 2>&1"
    ranks = (
        "export WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500;"
        f" RANK=1 {train} & RANK=0 {train}"
    )
    assert "libmpc-gloo0" in root.run(ranks, code=9)
    root.run("apt-get install -qq --no-install-recommends ./libmpc-gloo0.deb")
    assert "2 ranks, connected by gloo" in root.run(ranks)


def test_pages_and_documents_are_there(root):
    for path in (
        "man/man1/mpc-train.1",
        "bash-completion/completions/mpc",
        "doc/mpc-onnx/docs/install.md",
        "doc/mpc-onnx/CHANGELOG.md",
        *(f"doc/{name}/copyright" for name in PACKAGES[:2]),
    ):
        assert (root.folder / "usr/share" / path).is_file(), path


def test_debian_s_mpc_is_another_program(root):
    """Both have /usr/bin/mpc, so apt replaces one by the other."""
    planned = root.run("apt-get install -s --no-install-recommends mpc")
    assert "Remv mpc-onnx" in planned


def test_a_program_in_c_is_built(root):
    text = (ROOT / "docs" / "embedding.md").read_text()
    program, *_ = re.findall(r"^```c\n(.*?)^```", text, re.S | re.M)
    (root.folder / "root/train.c").write_text(program)
    root.run(
        "apt-get install -qq --no-install-recommends ./libmpc-runtime-dev.deb gcc"
        " libc6-dev"
    )
    output = root.run("cc -Wall -Werror train.c -lmpc_runtime -o train && ./train model.mpc")
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", output)]
    assert losses[0] > 2 and losses[-1] < 0.5


def test_removing_leaves_nothing(root):
    files = root.run(f"dpkg-query -L {' '.join(PACKAGES)}").split("\n")
    own = [root.folder / file[1:] for file in files if "mpc" in file]
    assert len(own) > 50 and any(path.exists() for path in own)
    root.run(f"apt-get purge -qq {' '.join(PACKAGES)}")
    assert not [path for path in own if path.exists()]
