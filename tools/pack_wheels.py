"""Builds the wheels mpc-runtime and mpc-compiler from a finished build.

    pack_wheels.py BUILD DIST [runtime] [compiler]

Without names, builds both. Runs in an environment with the packages of
wheels.txt. Each wheel has the shared libraries that it needs, but for glibc,
libstdc++ and libgcc_s. Ends with an error if a wheel is larger than its limit,
or needs a glibc newer than 2.36.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLATFORM = "manylinux_2_36_x86_64"
# The file of a build that each wheel carries, at the same path in the package.
# auditwheel adds the libraries under names of their own: another package may
# have loaded another libdnnl.so.3.
FILES = {"runtime": "lib/libmpc_runtime.so.0", "compiler": "bin/mpc"}
LIMITS = {"runtime": 20e6, "compiler": 100e6}
# The folder of the command's libraries below the environment's prefix.
LIBEXEC = "libexec/mpc-compiler"


def run(*command, **options):
    """Runs a program of this environment. Prints its output only on failure."""
    environment = {**os.environ, **options.pop("env", {})}
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.run(
        [str(word) for word in command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{process.stdout}{process.stderr}")
    return process.stdout


# Libraries that stay out of a wheel, because every system has them.
SYSTEM = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g", None}


def find_licences(file):
    """Maps paths of licences, below a package's licences/, to files. Includes
    the licences of the libraries that `file` loads."""
    licences = {"LICENSE": ROOT / "LICENSE", "NOTICE": ROOT / "NOTICE"}
    share = ROOT / ".onednn/share/doc/onednn"
    for name in ("LICENSE", "THIRD-PARTY-PROGRAMS"):
        licences[f"onednn/{name}"] = share / name
    paths = re.findall(r"=> (/\S+)", run("ldd", file))
    for owner in {find_package(path) for path in paths} - SYSTEM:
        text = pathlib.Path(f"/usr/share/doc/{owner}/copyright")
        if not text.exists():
            sys.exit(f"{text}: the licence of a copied library is missing")
        licences[f"{owner}/copyright"] = text
    return licences


def find_package(path):
    """Returns the Debian package that owns a file, or None."""
    for name in (path, os.path.realpath(path), "/usr" + path):
        found = subprocess.run(
            ["dpkg", "-S", name], capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            return found.stdout.partition(":")[0]
    return None


def build_raw(kind, files, folder):
    """Builds the wheel of python/KIND with `files`, as the compiler left them."""
    files = {path: str(file) for path, file in files.items()}
    run(
        *("hatchling", "build", "-t", "wheel", "-d", folder),
        cwd=ROOT / "python" / kind,
        env={"MPC_WHEEL_FILES": json.dumps(files)},
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def repair(wheel, build, folder):
    """Copies libraries of the build and of the system into the wheel. Ends with
    an error if the wheel does not fit PLATFORM."""
    run(
        *("auditwheel", "repair", "--plat", PLATFORM, "--only-plat", "--strip"),
        *("-w", folder, wheel),
        env={"AUDITWHEEL_LD_LIBRARY_PATH": str(build / "lib")},
    )
    (repaired,) = folder.glob("*.whl")
    return repaired


def move_command(wheel, folder):
    """Moves the command to where pip installs programs, and its libraries below
    LIBEXEC. auditwheel would leave a Python script that starts the command,
    since the place of Python's packages differs between versions of Python; the
    place of LIBEXEC does not."""
    unpacked = folder / "unpacked"
    run("wheel", "unpack", "-d", unpacked, wheel)
    (top,) = unpacked.iterdir()
    (info,) = top.glob("*.dist-info")
    data = top / (info.name.removesuffix(".dist-info") + ".data")
    scripts, libexec = data / "scripts", data / "data" / LIBEXEC
    scripts.mkdir(parents=True)
    libexec.mkdir(parents=True)
    shutil.move(top / "mpc_compiler/bin/mpc", scripts / "mpc")
    # Libraries find one another beside them, as auditwheel has set.
    for library in top.glob("mpc_compiler.libs/*"):
        shutil.move(library, libexec / library.name)
    run("patchelf", "--set-rpath", f"$ORIGIN/../{LIBEXEC}", scripts / "mpc")
    for empty in ("mpc_compiler/bin", "mpc_compiler.libs"):
        (top / empty).rmdir()
    packed = folder / "packed"
    packed.mkdir()
    run("wheel", "pack", "-d", packed, top)
    (moved,) = packed.glob("*.whl")
    return moved


def pack(kind, build, dist):
    package, main_file = f"mpc_{kind}", build / FILES[kind]
    files = {f"{package}/{FILES[kind]}": main_file}
    for name, file in find_licences(main_file).items():
        files[f"{package}/licences/{name}"] = file
    with tempfile.TemporaryDirectory() as scratch:
        folders = [pathlib.Path(scratch) / name for name in ("raw", "repaired")]
        for folder in folders:
            folder.mkdir()
        wheel = repair(build_raw(kind, files, folders[0]), build, folders[1])
        if kind == "compiler":
            wheel = move_command(wheel, pathlib.Path(scratch))
        size = wheel.stat().st_size
        if size > LIMITS[kind]:
            sys.exit(
                f"{wheel.name} has {size / 1e6:.1f} MB, expected at most"
                f" {LIMITS[kind] / 1e6:.0f} MB"
            )
        dist.mkdir(parents=True, exist_ok=True)
        for old in dist.glob(f"{package}-*.whl"):
            old.unlink()
        shutil.move(wheel, dist / wheel.name)
    print(f"{dist / wheel.name}: {size / 1e6:.1f} MB")


def main():
    build, dist = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    for kind in sys.argv[3:] or LIMITS:
        pack(kind, build, dist)


if __name__ == "__main__":
    main()
