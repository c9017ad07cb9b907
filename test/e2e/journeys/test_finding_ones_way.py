"""A user who has read nothing tries the command line: help, typing errors,
files of flags, streams.

SPDX-License-Identifier: Apache-2.0
"""

import subprocess

import journey

import mpctest

TRAIN = ["train", journey.MLP, "--data", journey.TRAIN, *journey.CLASSES]
TRAIN += ["--batch-size", "32", "--max-steps", "3", *mpctest.TARGET]


def test_help():
    text = mpctest.mpc_ok("help").stdout
    for command in ("train", "eval", "run", "profile", "check", "explain", "inspect", "report", "doctor"):
        assert f"\n  {command} " in text
        assert mpctest.mpc_ok("help", command).stdout.count("--") > 2
    assert mpctest.mpc_ok("help", "--man", "train").stdout.startswith(".TH")
    script = mpctest.mpc_ok("completion", "bash").stdout
    process = subprocess.run(
        ["bash", "-c", script + "\ncomplete -p mpc"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr


def test_slips():
    """Each answer is one line with the intended or the possible names."""
    for arguments, words in (
        (["trian", journey.MLP], "did you mean train?"),
        ([*TRAIN, "--optmizer", "adam"], "did you mean --optimizer?"),
        ([*TRAIN, "--optimizer", "adamv"], "adamw"),
        ([*TRAIN, "--lr", "fast"], "--lr"),
        ([*TRAIN, "--optimizer", "adam", "--momentum", 0.9], "has no effect on adam"),
        ([*TRAIN, "--min-lr", 1e-5], "has no effect on constant"),
        (TRAIN[:2], "--data is required"),
    ):
        text = journey.refused(journey.USAGE, *arguments)
        (line,) = text.splitlines()
        assert line.startswith("error: ") and words in line, line
    # PyTorch's SGD has a momentum.
    plain = mpctest.mpc_ok(*TRAIN).stdout
    assert mpctest.mpc_ok(*TRAIN, "--momentum", 0.99).stdout != plain
    # The last value of a repeated flag counts, which scripts rely on.
    assert "3 steps" in plain
    assert "1 step," in mpctest.mpc_ok(*TRAIN, "--max-steps", 1).stdout


def test_a_file_of_flags(tmp_path):
    """Every command accepts --config, at any position."""
    config = tmp_path / "recipe.toml"
    config.write_text(
        f'model = "{journey.MLP}"\nloss = "softmax_cross_entropy"\n'
        'batch-size = 32\noptimizer = "adamw"\n'
        f'[train]\ndata = "{journey.TRAIN}"\nmax-steps = 2\n'
    )
    mpctest.mpc_ok("check", "--config", config)
    before = mpctest.mpc_ok("--config", config, "train").stdout
    after = mpctest.mpc_ok("train", "--config", config).stdout
    assert before.split(";")[0] == after.split(";")[0]
    assert "2 steps" in after
    assert "1 step," in mpctest.mpc_ok("train", "--config", config, "--max-steps", 1).stdout
    config.write_text(config.read_text().replace("optimizer", "optimiser"))
    text = journey.refused(journey.USAGE, "train", "--config", config)
    assert "recipe.toml:4" in text and "did you mean optimizer?" in text


def test_streams(tmp_path):
    """The model comes from a pipe. Metrics and the trained model go into one."""
    with open(journey.MLP, "rb") as file:
        process = subprocess.run(
            [mpctest.MPC, *map(str, ["train", "-", *TRAIN[2:], "--output", "-"])],
            stdin=file,
            capture_output=True,
            timeout=mpctest.TIMEOUT,
            check=True,
        )
    (tmp_path / "piped.onnx").write_bytes(process.stdout)
    mpctest.mpc_ok(*TRAIN, "--output", tmp_path / "file.onnx")
    assert process.stdout == (tmp_path / "file.onnx").read_bytes()
    # Cheap mistakes are found before compilation.
    text = journey.refused(5, *TRAIN, "--output", tmp_path / "none" / "o.onnx")
    assert "does not exist" in text and "trainable" not in text
