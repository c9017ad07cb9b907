"""A user makes many runs: a loop over learning rates compared on one page, a
Makefile, a run repeated from a file of flags, and a killed run.

SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import signal
import subprocess
import time

import pytest

import documents
import mpctest
from journey import CLASSES, MLP, TEST, TRAIN


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    shutil.copy(MLP, tmp_path / "model.onnx")
    shutil.copy(TRAIN, tmp_path / "train.npz")
    shutil.copy(TEST, tmp_path / "test.npz")
    return tmp_path


def test_one_page_compares_a_sweep(folder):
    process = documents.execute(
        """
        mkdir runs
        for lr in 0.1 0.01 0.001; do
          mpc train model.onnx --data train.npz --val-data test.npz -q \
            --loss cross_entropy --batch-size 32 --epochs 1 --lr $lr \
            --metrics runs/lr-$lr.jsonl --output runs/lr-$lr.onnx
        done
        mpc report runs -o sweep.html
        """,
        folder,
    )
    assert process.returncode == 0, process.stderr
    page = (folder / "sweep.html").read_text()
    for rate in ("0.1", "0.01", "0.001"):
        assert f"lr-{rate}" in page
    (folder / "empty").mkdir()
    process = documents.execute("mpc report empty", folder)
    assert process.returncode == 3
    assert "empty: has no metrics file" in process.stderr


MAKEFILE = """
report.txt: trained.onnx
\tmpc eval trained.onnx --data test.npz --loss cross_entropy -q > $@
trained.onnx: model.onnx train.npz
\tmpc train model.onnx --data train.npz --loss cross_entropy --batch-size 32 -q -o $@
"""


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_sees_what_is_there(folder):
    (folder / "Makefile").write_text(MAKEFILE)
    process = documents.execute("make report.txt && make report.txt", folder)
    assert process.returncode == 0, process.stderr
    assert (folder / "report.txt").read_text().startswith("evaluation: accuracy")
    assert "up to date" in process.stdout
    # A failed training leaves no target file.
    process = documents.execute("rm train.npz; touch train.npz; make report.txt", folder)
    assert process.returncode == 2
    assert "train.npz" in process.stderr


def test_a_file_of_flags_makes_a_run_again(folder):
    (folder / "run.toml").write_text(
        """
        loss = "cross_entropy"
        batch-size = 32
        precision = "bf16-mixed"

        [train]
        data = ["train.npz"]
        optimizer = "adamw"
        lr = 0.003
        lr-scheduler = "one-cycle"
        gradient-clip-val = 1.0
        epochs = 2
        seed = 7
        """
    )
    train = "mpc train model.onnx --config run.toml -q"
    process = documents.execute(
        f"{train} -o first.npz; {train} --threads 1 -o second.npz; "
        f"{train} --seed 8 -o third.npz; cmp first.npz second.npz; "
        "! cmp -s first.npz third.npz",
        folder,
    )
    assert process.returncode == 0, process.stderr


def test_what_is_killed_goes_on_to_the_same_bits(folder):
    flags = ["--data", folder / "train.npz", *CLASSES, "--batch-size", "16"]
    flags += ["--epochs", "3"]
    train = ["train", folder / "model.onnx", *flags]
    mpctest.mpc_ok(*train, "--output", folder / "whole.npz")
    checkpoints = folder / "checkpoints"
    parts = [*map(str, train), "--checkpoint-dir", str(checkpoints)]
    parts += ["--checkpoint-every", "7"]
    parts += ["--resume", "auto", "--output", str(folder / "parts.npz")]
    # The run is killed twice, at arbitrary moments.
    for saved in (1, 3):
        process = subprocess.Popen(
            [mpctest.MPC, *parts],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "MPC_THREADS": "1"},
        )
        deadline = time.monotonic() + mpctest.TIMEOUT
        while process.poll() is None and time.monotonic() < deadline:
            if len(list(checkpoints.glob("step-*"))) >= saved:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.002)
        process.wait()
    mpctest.mpc_ok(*parts)
    whole, again = folder / "whole.npz", folder / "parts.npz"
    assert whole.read_bytes() == again.read_bytes()
