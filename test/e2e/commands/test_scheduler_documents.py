"""Executes the examples of docs/distributed: the commands for mpirun, the script
for Slurm with stand-ins for its programs, and the script of Kubernetes' pod.

SPDX-License-Identifier: Apache-2.0
"""

import re
import shutil
import signal
import stat
import subprocess
import textwrap
import time

import pytest

import documents
import mpctest
import test_documents
import test_ranks

FOLDER = mpctest.ROOT / "docs" / "distributed"
FILES = {path.name: path for path in FOLDER.glob("*.md")}
SCHEDULERS = FILES["schedulers.md"]
# The languages of blocks, and the test of their content.
TRIED = {
    "console": "test_commands",
    "schedulers.md bash": "test_the_script_queues_a_saved_run_again",
    "schedulers.md yaml": "test_the_launcher_of_the_job_saves_on_sigterm",
    # torchrun, srun and several GPUs, which a test machine may lack.
    "README.md bash": "test_ranks_gloo.py, with the variables of the launchers",
    "": "",
}

needs_mpirun = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun of Open MPI is not installed"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that commands name. mpirun may start more ranks than cores."""
    for name, value in test_ranks.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OMPI_MCA_rmaps_base_oversubscribe", "1")
    test_documents.set_up_digits(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_every_block_is_tried(name):
    for language, text in documents.read_blocks(FILES[name]):
        assert language in TRIED or f"{name} {language}" in TRIED, text


@needs_mpirun
@pytest.mark.parametrize("name", FILES)
def test_commands(name, folder):
    for command, shown in documents.read_commands(FILES[name]):
        process = documents.execute(command, folder)
        assert process.returncode == 0, f"{command}\n{process.stderr}"
        printed = process.stdout + process.stderr
        for line in shown.splitlines():
            assert line in printed.splitlines(), f"{line}\n{printed}"


def write_program(path, text):
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run_script(folder, name):
    """Runs the script for Slurm as a job whose time is over after a second. The
    stand-in for srun starts the ranks by mpirun."""
    (script,) = documents.read_blocks(SCHEDULERS, "bash")
    (folder / "job.sh").write_text(script.replace("--epochs 20", "--epochs 1000"))
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    write_program(
        programs / "srun",
        'shift 2\nmpirun -n 2 "$@" &\nranks=$!\n'
        "until [ -d checkpoints ]; do sleep 0.1; done\nsleep 1\n"
        f"kill -{name} $ranks\nwait $ranks\n",
    )
    write_program(programs / "scontrol", 'echo "$@" >>requeued\n')
    variables = documents.environment(folder)
    path = f"{programs}:{variables['PATH']}"
    return subprocess.run(
        ["bash", "job.sh"],
        cwd=folder,
        env={
            **variables,
            **{"PATH": path, "SLURM_JOB_ID": "17", "SLURM_CPUS_PER_TASK": "1"},
        },
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        check=False,
    )


@needs_mpirun
def test_the_script_queues_a_saved_run_again(folder):
    process = run_script(folder, "USR1")
    assert process.returncode == 138, process.stderr
    assert (folder / "requeued").read_text() == "requeue 17\n"
    assert list((folder / "checkpoints").glob("step-*"))


def read_job():
    """The manifests of the job, as text: no test package reads YAML."""
    return "".join(documents.read_blocks(SCHEDULERS, "yaml"))


@needs_mpirun
def test_the_launcher_of_the_job_saves_on_sigterm(folder):
    (script,) = re.findall(r"^      - \|\n((?:        .*\n)+)", read_job(), re.M)
    script = textwrap.dedent(script).replace("/data/", f"{folder}/")
    script = script.replace("mpirun mpc", "mpirun -n 2 mpc")
    script = script.replace("--epochs 20", "--epochs 1000")
    process = subprocess.Popen(
        ["bash", "-c", script], env=documents.environment(folder), cwd=folder
    )
    deadline = time.monotonic() + 60
    while not (folder / "checkpoints").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 138
    assert list((folder / "checkpoints").glob("step-*"))


def test_exit_codes_of_the_job_are_those_of_mpc():
    """The rules name the code of --unfinished-code, and only codes that mpc
    documents."""
    text = read_job()
    ignored, failed = (
        [int(code) for code in values.split(",")]
        for values in re.findall(r"values: \[(.*)\]", text)
    )
    unfinished = int(re.search(r"--unfinished-code (\d+)", text)[1])
    assert ignored == [unfinished, 138]
    readme = (mpctest.ROOT / "README.md").read_text()
    codes = readme.split("## Exit codes")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\d, ]+) \|", codes, re.M)
    listed = [int(code) for row in rows for code in row.split(",")]
    assert set(failed) | {138} <= set(listed)
    assert not set(failed) & {0, 5, 6, 9}, "another machine may succeed"
