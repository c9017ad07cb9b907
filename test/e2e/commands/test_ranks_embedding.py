"""The program for several ranks in docs/embedding.md trains under mpirun.

SPDX-License-Identifier: Apache-2.0
"""

import re
import shutil
import subprocess

import numpy as np
import pytest

import documents
import mpctest
from test_ranks import ENVIRONMENT, mpirun_command

DOCUMENT = mpctest.ROOT / "docs" / "embedding.md"
MODEL = mpctest.MODELS / "digits-cnn.onnx"
COMPILE, START = next(
    block.replace("\\\n", " ").strip().splitlines()
    for block in documents.read_blocks(DOCUMENT, "bash")
    if "mpirun" in block
)

pytestmark = pytest.mark.skipif(
    not shutil.which("mpirun") or not shutil.which("cc"),
    reason="mpirun of Open MPI or a C compiler is not installed",
)


@pytest.fixture(scope="module", name="folder")
def compile_program(tmp_path_factory):
    """Returns a folder with the program and its artifact."""
    folder = tmp_path_factory.mktemp("embedding")
    *_, program = documents.read_blocks(DOCUMENT, "c")
    assert "mpc_communicator_connect" in program
    (folder / "ranks.c").write_text(program)
    (folder / "mpc").symlink_to(mpctest.ROOT / "runtime" / "capi")
    library = mpctest.BUILD.resolve() / "lib"
    subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", "ranks.c", "-I", folder, "-L", library]
        + [f"-Wl,-rpath,{library}", "-lmpc_runtime", "-o", "ranks"],
        cwd=folder,
        check=True,
    )
    shutil.copy(MODEL, folder / "model.onnx")
    process = documents.execute(COMPILE, folder)
    assert process.returncode == 0, process.stderr
    return folder


def run(folder, words):
    return subprocess.run(
        words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )


def read_losses(output):
    return [float(loss) for loss in re.findall(r"^batch \d+: loss (\S+)$", output, re.M)]


def test_the_documented_command_trains(folder):
    assert START.startswith("mpirun -n 2 ./ranks ranks.mpc ")
    command = [*mpirun_command(2), *START.split()[3:]]
    process = run(folder, command)
    assert process.returncode == 0, process.stderr
    losses = read_losses(process.stdout)
    assert len(losses) == 5 and losses[0] > 2 and losses[-1] < 0.5
    (figures,) = re.findall(r"^2 ranks, 200 samples: .* (\S+)$", process.stdout, re.M)
    assert float(figures) > 0.9
    first = (folder / "weights.safetensors").read_bytes()
    assert run(folder, command).stdout == process.stdout
    assert (folder / "weights.safetensors").read_bytes() == first


def test_without_a_launcher_it_trains_alone(folder):
    process = run(folder, ["./ranks", "ranks.mpc", "alone.npz"])
    assert process.returncode == 0, process.stderr
    assert "1 ranks, 100 samples" in process.stdout


def compile_artifact(folder, name, *flags):
    mpctest.mpc_ok(
        *("compile", MODEL, "--loss", "softmax_cross_entropy"),
        *("--batch-size", 32, "-o", folder / name, *mpctest.TARGET, *flags),
    )


def test_two_ranks_train_as_one_that_accumulates(folder):
    compile_artifact(folder, "sgd.mpc", "--optimizer", "sgd", "--data-parallel")
    compile_artifact(folder, "sum.mpc", "--optimizer", "sgd", "--accumulate-grad-batches", 2)

    def train(ranks, artifact):
        words = ["./ranks", artifact, f"{artifact}{ranks}.npz"]
        process = run(folder, words if ranks == 1 else mpirun_command(ranks) + words)
        assert process.returncode == 0, process.stderr
        return np.load(folder / words[-1])

    def difference(found, expected):
        # Running statistics are means of the ranks.
        names = [name for name in expected if "running" not in name]
        return max(np.abs(found[name] - expected[name]).max() for name in names)

    expected = train(1, "sum.mpc")
    assert difference(train(2, "sgd.mpc"), expected) < 1e-5
    # Negative control: one rank whose updates have a batch each.
    assert difference(train(1, "sgd.mpc"), expected) > 1e-3


def test_ranks_with_other_artifacts_end_with_the_reason(folder):
    compile_artifact(folder, "adam.mpc", "--data-parallel", "--optimizer", "adam")
    program = ["./ranks", "ranks.mpc", "w.npz"]
    other = ["./ranks", "adam.mpc", "w.npz"]
    process = run(
        folder,
        [*mpirun_command(1), *program, ":", "-n", "1", *other],
    )
    assert process.returncode != 0
    assert (
        'rank 1: trains another run than rank 0: optimizer of the recipe is "adam", '
        'rank 0 has "adamw"' in process.stderr
    )
