"""check_flags.py MPC ROOT: checks that every flag and command in the help has a
description, and is in the manual pages and in the completions of both shells.
The documentation must mention no other flags.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import subprocess
import sys

MPC, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# Lines of the documentation about other programs.
OTHERS = ("mpc-opt", "mpc-translate", "cmake", "ctest", "git ", "pytest", "lit ", "perf ", "numactl", "pip ", "tensorboard ", "FileCheck ", "mpirun", "torchrun", "srun ", "#SBATCH", "Slurm's ", "of Open MPI")


def run(*words):
    done = subprocess.run([MPC, *words], capture_output=True, text=True, check=True)
    return done.stdout


def help_of(text):
    """Returns the flags of a help text, whose lines are indented by two."""
    flags, undescribed = set(), []
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""]):
        match = re.match(r"  ((?:-\w,)?--[a-z][a-z0-9-]*)(.*)", line)
        if not match:
            continue
        flags.update(match.group(1).split(","))
        described = re.search(r"\s{2,}\S|\s\S.*\s\S", match.group(2))
        if not described and not following.startswith(" " * 20):
            undescribed.append(match.group(1))
    return flags, undescribed


def manual_of(text):
    text = text.replace("\\-", "-")
    return set(re.findall(r"\\fB(-\w|--[a-z][a-z0-9-]*)\\fR", text))


def bash_completes(script, words):
    """Returns bash's completions of the last word."""
    program = (
        f"{script}\nCOMP_WORDS=({' '.join(map(repr, words))})\n"
        f"COMP_CWORD={len(words) - 1}\n_mpc\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def zsh_lists(script, command):
    """Returns the flags in a command's branch of the zsh script."""
    start = script.index(f"\n    {command})\n")
    branch = script[start : script.index("\n      ;;", start)]
    return set(re.findall(r"'[^'\[]*?(--[a-z][a-z0-9-]*|-\w)(?=[=+]?\[)", branch))


def check(what, wanted, found):
    missing = sorted(wanted - found)
    if missing:
        print(f"{what} lacks {', '.join(missing)}")
    return not missing


def flags_of_scripts():
    """Returns all flags that the tree's own scripts mention."""
    paths = [
        path
        for path in (ROOT / "tools").rglob("*")
        if path.is_file() and path.relative_to(ROOT / "tools").parts[0] != "mpc"
    ]
    return set(FLAG.findall(" ".join(path.read_text(errors="replace") for path in paths)))


def documented():
    """Returns every flag that Markdown names, and its location."""
    for path in sorted(ROOT.rglob("*.md")):
        inside = path.relative_to(ROOT)
        if re.match(r"build|\.venv$|test$", inside.parts[0]):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not any(other in line for other in OTHERS):
                for flag in FLAG.findall(line):
                    yield flag, f"{inside}:{number}"


def main():
    commands = re.findall(r"^  ([a-z]+) +\S", run("--help").split("Subcommands:")[1], re.M)
    assert "train" in commands and "help" in commands, commands
    bash, zsh = run("completion", "bash"), run("completion", "zsh")
    good = check("completion of commands", set(commands), bash_completes(bash, ["mpc", ""]))
    good &= check("mpc(1)", set(commands), set(re.findall(r"\\fB([a-z]+)\\fR", run("help", "--man"))))
    known = help_of(run("--help"))[0]
    for command in commands:
        flags, undescribed = help_of(run("help", command))
        assert flags, command
        known |= flags
        manual = run("help", "--man", command)
        good &= check(f"mpc-{command}(1)", flags, manual_of(manual))
        good &= check(f"bash's completion of {command}", flags, bash_completes(bash, ["mpc", command, "-"]))
        good &= check(f"zsh's completion of {command}", flags, zsh_lists(zsh, command))
        for flag in undescribed:
            print(f"mpc {command} {flag} has no description")
            good = False
    known |= flags_of_scripts()
    for flag, where in documented():
        if flag not in known:
            print(f"{where}: there is no flag {flag}")
            good = False
    return 0 if good else 1


sys.exit(main())
