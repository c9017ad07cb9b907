"""`cmake --install` leaves working programs, pages and a relocatable library. C
programs train with them as docs/embedding.md shows.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import shutil
import subprocess

import onnx
import pytest

import mpctest

DOCUMENT = mpctest.ROOT / "docs" / "embedding.md"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Installs everything, moves the installation, and returns its new folder."""
    folder = tmp_path_factory.mktemp("install")
    subprocess.run(
        ["cmake", "--install", mpctest.BUILD, "--prefix", folder / "usr"],
        check=True,
        capture_output=True,
    )
    return (folder / "usr").rename(folder / "moved")


def run(*command, **options):
    process = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_programs_take_the_runtime_beside_them(prefix):
    for program in ("mpc", "mpc-opt"):
        libraries = run("ldd", prefix / "bin" / program)
        assert str(mpctest.BUILD.resolve()) not in libraries
        assert "not found" not in libraries
    assert str(prefix.resolve()) in run("ldd", prefix / "bin" / "mpc").replace(
        f"{prefix}/bin/../", f"{prefix.resolve()}/"
    )
    assert run(prefix / "bin" / "mpc", "--version").startswith("mpc ")


def test_nothing_is_looked_for_in_the_working_folder(prefix):
    files = [*(prefix / "bin").iterdir(), *(prefix / "lib").glob("*.so*")]
    assert len(files) >= 3
    dynamic = run("readelf", "--dynamic", "--wide", *files)
    paths = re.findall(r"Library r(?:un)?path: \[(.*)\]", dynamic)
    assert paths
    for folder in ":".join(paths).split(":"):
        assert folder.startswith(("/", "$ORIGIN")), paths


def test_licences_go_with_it(prefix):
    for package in ("mpc-onnx", "libmpc-runtime0", "libmpc-runtime-dev"):
        notice = (prefix / f"share/doc/{package}/NOTICE").read_text()
        for part in ("lld", "CLI11", "nlohmann-json", "toml++", "xxHash", "ONNX"):
            assert f"\n{part}" in notice
        assert (prefix / f"share/doc/{package}/LICENSE").exists()
    assert (prefix / "share/doc/libmpc-runtime0/onednn/LICENSE").exists()


def list_files(folder):
    """Returns the paths of the files and links below `folder`."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def test_components_are_the_parts_of_it(prefix, tmp_path):
    """Each file is in one component, since each component is a package."""
    parts = {}
    has_gloo = (mpctest.BUILD / "lib/libmpc_gloo.so").exists()
    optional = ("gloo",) if has_gloo else ()
    for component in ("mpc", "runtime", "development", "opt", *optional):
        command = ["cmake", "--install", mpctest.BUILD, "--component", component]
        run(*command, "--prefix", tmp_path / component)
        parts[component] = list_files(tmp_path / component)
    together = [path for files in parts.values() for path in files]
    assert sorted(together) == sorted(list_files(prefix))
    assert {"bin/mpc", "share/man/man1/mpc-train.1"} <= parts["mpc"]
    assert "share/doc/mpc-onnx/docs/install.md" in parts["mpc"]
    libraries = {path for path in parts["runtime"] if ".so" in path}
    names = {path.rsplit("/", 1)[1] for path in libraries}
    assert {"libmpc_runtime.so.0", "libdnnl.so.3"} <= names
    assert "include/mpc/mpc.h" in parts["development"]
    assert parts["opt"] == {"bin/mpc-opt"}
    if has_gloo:
        assert "lib/mpc/libmpc_gloo.so" in parts["gloo"]


def test_every_command_has_a_page(prefix):
    pages = {page.name for page in (prefix / "share/man/man1").iterdir()}
    listed = run(prefix / "bin" / "mpc", "help").split("Subcommands:")[1]
    commands = re.findall(r"^  ([a-z]+) ", listed, re.M)
    assert pages == {"mpc.1"} | {f"mpc-{name}.1" for name in commands}
    assert len(commands) > 8
    train = (prefix / "share/man/man1/mpc-train.1").read_text()
    assert train.startswith(".TH MPC-TRAIN 1")


def test_shells_complete(prefix):
    script = prefix / "share/bash-completion/completions/mpc"
    print_words = (
        f'source {script}; COMP_WORDS=(mpc tra) COMP_CWORD=1; $(complete -p mpc |'
        ' sed "s/.*-F \\([^ ]*\\).*/\\1/"); echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{prefix}/bin:{os.environ['PATH']}"}
    words = run("bash", "-c", print_words, env=environment)
    assert words.split() == ["train"]
    zsh = (prefix / "share/zsh/site-functions/_mpc").read_text()
    assert zsh.startswith("#compdef mpc")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Returns the folder of the documented programs and the project that builds
    the first."""
    folder = tmp_path_factory.mktemp("embedding")
    text = DOCUMENT.read_text()
    programs = re.findall(r"^```c\n(.*?)^```", text, re.S | re.M)
    (project,) = re.findall(r"^```cmake\n(.*?)^```", text, re.S | re.M)
    names = ("train.c", "trainer.c", "ranks.c")
    for name, program in zip(names, programs, strict=True):
        (folder / name).write_text(program)
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(train LANGUAGES C)\n"
        "add_executable(train train.c)\n" + project
    )
    return folder


@pytest.fixture(scope="module")
def artifact(prefix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifact")
    shutil.copy(mpctest.MODELS / "digits-cnn.onnx", folder / "model.onnx")
    (command,) = re.findall(r"^\$ (mpc compile .*)$", DOCUMENT.read_text(), re.M)
    run("sh", "-c", f"{prefix}/bin/{command}", cwd=folder)
    return folder / "model.mpc"


def check_that_it_learns(output):
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", output)]
    assert len(losses) == 5
    assert losses[0] > 2 and losses[-1] < 0.5
    assert re.search(r"^fc1\.weight: parameter, \d+ bytes$", output, re.M), output


def compile_program(prefix, code, program):
    run(
        *("cc", "-Wall", "-Wextra", "-Werror", code),
        *("-I", prefix / "include", "-L", prefix / "lib"),
        *(f"-Wl,-rpath,{prefix}/lib", "-lmpc_runtime", "-o", program),
    )
    return program


def test_a_program_in_c_trains(prefix, source, artifact, tmp_path):
    program = compile_program(prefix, source / "train.c", tmp_path / "train")
    check_that_it_learns(run(program, artifact))


def test_a_trainer_in_c_resumes(prefix, source, artifact, tmp_path):
    """A run in two parts ends with the bits of a whole run. The written model is
    that of the checkpoint."""
    program = compile_program(prefix, source / "trainer.c", tmp_path / "trainer")
    parts, whole = tmp_path / "parts", tmp_path / "whole"

    def train(checkpoints, steps):
        files = [f"{checkpoints}.safetensors", f"{checkpoints}.onnx"]
        return run(program, artifact, checkpoints, steps, *files)

    first = train(parts, 37)
    assert first.startswith("no checkpoint to resume from")
    assert "step 20: loss" in first and "step 40" not in first
    second = train(parts, 100)
    assert re.search(r"\Astep 40: loss \S+, learning rate 0.00750$", second.strip(), re.M)
    train(whole, 100)
    for extension in (".safetensors", ".onnx"):
        files = [path.with_suffix(extension) for path in (parts, whole)]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert sorted(path.name for path in parts.iterdir()) == ["step-100", "step-37"]
    figures = re.search(r"250 samples: loss \S+, accuracy (\S+), top2 (\S+)$", second, re.M)
    assert float(figures[1]) > 0.95 and float(figures[2]) >= float(figures[1])

    data = mpctest.DIGITS / "digits-test.npz"
    model = f"{parts}.onnx"
    onnx.checker.check_model(model, full_check=True)
    results = [
        run(prefix / "bin/mpc", "eval", *words, "--data", data)
        for words in (
            [artifact, "--checkpoint", parts],
            [artifact, "--weights", f"{parts}.safetensors"],
            [model, "--loss", "softmax_cross_entropy", "--batch-size", 32],
        )
    ]
    assert results[0] == results[1] == results[2]

    # The command goes on with runs of its own data only.
    command = [prefix / "bin/mpc", "train", artifact, "--data", data, "--resume", parts]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 8
    assert "the data differs" in process.stderr and "bright rows" in process.stderr


@pytest.fixture(scope="module")
def program(prefix, source, tmp_path_factory):
    """Returns the documented program, built by the documented project."""
    folder = tmp_path_factory.mktemp("build")
    run(
        *("cmake", "-G", "Ninja", "-S", source, "-B", folder),
        f"-DCMAKE_PREFIX_PATH={prefix}",
    )
    run("cmake", "--build", folder)
    return folder / "train"


def test_cmake_finds_the_library(program, artifact):
    check_that_it_learns(run(program, artifact))


def test_an_error_is_a_status(program):
    process = subprocess.run(
        [program, mpctest.MODELS / "digits-cnn.onnx"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 3
    assert "digits-cnn.onnx" in process.stderr
