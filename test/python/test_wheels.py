"""tools/wheels makes wheels that work where no LLVM is, nor any library that
they bring along.

The command in the wheel mpc-compiler is the build's if LLVM is inside it. Other
builds test with a small program in its place, which the runtime's library
loads, too.

Tests tools/pack_wheels.py, python/wheel_files.py, test/python/smoke.py and
python/compiler/mpc_compiler/__init__.py.

SPDX-License-Identifier: Apache-2.0
"""

import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import mpctest

# One worker builds the wheels for all tests.
pytestmark = pytest.mark.xdist_group("wheels")

CAN_HIDE = (
    os.geteuid() == 0
    and shutil.which("unshare")
    and subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0
)
# Links the runtime, and answers as the command does.
PROGRAM = """
#include <runtime/capi/mpc.h>
#include <stdio.h>
int main(void) { printf("mpc %s\\n", mpc_version()); return 0; }
"""


def run(*command, **options):
    process = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def read_version():
    text = (mpctest.ROOT / "CMakeLists.txt").read_text()
    return re.search(r"^project\(mpc VERSION ([\d.]+)", text, re.M)[1]


@pytest.fixture(scope="module", name="build")
def make_build(tmp_path_factory):
    """A build folder with a small program in place of mpc, which is packed in
    seconds."""
    folder = tmp_path_factory.mktemp("build")
    (folder / "lib").symlink_to(mpctest.BUILD.resolve() / "lib")
    (folder / "bin").mkdir()
    (folder / "mpc.c").write_text(PROGRAM)
    run(
        *("cc", folder / "mpc.c", "-I", mpctest.ROOT, "-L", folder / "lib"),
        *("-lmpc_runtime", "-Wl,-rpath,$ORIGIN/../lib", "-o", folder / "bin" / "mpc"),
    )
    return folder


@pytest.fixture(scope="module", name="dist")
def build_wheels(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(mpctest.ROOT / "tools" / "wheels", "--build", build, "--dist", folder)
    return folder


@pytest.mark.parametrize("kind, limit", [("runtime", 20e6), ("compiler", 100e6)])
def test_wheels_are_sound(dist, kind, limit):
    name = f"mpc_{kind}-{read_version()}-py3-none-manylinux_2_36_x86_64.whl"
    assert (dist / name).stat().st_size < limit
    with zipfile.ZipFile(dist / name) as wheel:
        info = f"mpc_{kind}-{read_version()}.dist-info"
        text = wheel.read(f"{info}/RECORD").decode()
        record = {row[0]: row[1] for row in csv.reader(io.StringIO(text))}
        files = {name for name in wheel.namelist() if not name.endswith("/")}
        assert set(record) == files
        for file in files - {f"{info}/RECORD"}:
            digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(file)).digest())
            assert record[file] == "sha256=" + digest.decode().rstrip("="), file
        metadata = wheel.read(f"{info}/METADATA").decode()
        needs = re.findall(r"^Requires-Dist: (\S+)$", metadata, re.M)
        assert needs == (["numpy>=1.23"] if kind == "runtime" else [])
    folders = ("LICENSE", "NOTICE", "onednn/LICENSE", "libzip4/copyright")
    assert {f"mpc_{kind}/licences/{file}" for file in folders} <= files


def test_the_command_is_a_program(dist, tmp_path):
    """pip puts the program itself on the path, not a script that starts it."""
    (wheel,) = dist.glob("mpc_compiler-*.whl")
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    run(*pip, "--target", target, wheel)
    assert (target / "bin" / "mpc").read_bytes()[:4] == b"\x7fELF"
    libraries = run("ldd", target / "bin" / "mpc")
    for name in ("mpc_runtime", "dnnl", "zip", "gomp"):
        (path,) = re.findall(rf"lib{name}-\S+ => (\S+)", libraries)
        assert os.path.realpath(path).startswith(str(target / "libexec")), path
    assert run(target / "bin" / "mpc", "--version").startswith("mpc " + read_version())
    environment = {**os.environ, "PYTHONPATH": str(target)}
    find = "import mpc_compiler; print(mpc_compiler.find_mpc())"
    found = run(sys.executable, "-c", find, env=environment)
    assert found.strip() == str(target / "bin" / "mpc")
    found = run(sys.executable, "-m", "mpc_compiler", "--version", env=environment)
    assert found.startswith("mpc ")


@pytest.mark.skipif(not CAN_HIDE, reason="needs root and unshare")
def test_the_runtime_works_where_no_llvm_is(dist, tmp_path):
    """Installs the wheel where LLVM and its libraries are hidden. tools/wheels
    --try also tries mpc."""
    (wheel,) = dist.glob("mpc_runtime-*.whl")
    shutil.copy(wheel, tmp_path)
    printed = run(
        *(mpctest.ROOT / "tools" / "wheels", "--build", mpctest.BUILD),
        *("--dist", tmp_path, "--only-try", "--try", "here"),
    )
    assert re.search(r"^an opened artifact: accuracy 9\d", printed, re.M)
    assert printed.endswith("the wheels work\n")


def test_a_library_that_is_too_new_is_refused(tmp_path):
    """Negative control of the check of glibc: a symbol of glibc 2.38."""
    build = tmp_path / "build"
    (build / "lib").mkdir(parents=True)
    (build / "new.c").write_text(
        'extern int new(void);\n__asm__(".symver new, new@GLIBC_2.38");\n'
        "int mpc_version(void) { return new(); }\n"
    )
    (build / "libc.c").write_text("int new(void) { return 0; }\n")
    (build / "libc.map").write_text("GLIBC_2.38 { global: new; };\n")
    run(
        *("cc", "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libc.so.6"),
        *(f"-Wl,--version-script={build}/libc.map", build / "libc.c"),
        *("-o", build / "libc.so.6"),
    )
    run(
        *("cc", "-shared", "-fPIC", "-nostdlib", build / "new.c"),
        *(build / "libc.so.6", "-o", build / "lib" / "libmpc_runtime.so.0"),
    )
    process = subprocess.run(
        [mpctest.ROOT / "tools" / "wheels", "--runtime", "--build", build]
        + ["--dist", tmp_path / "dist"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode != 0
    assert "too-recent versioned symbols" in process.stderr
    assert not list(tmp_path.glob("dist/*.whl"))
