"""Reads the fenced blocks of the documentation and executes their commands.

In a console block, lines that start with `$` are commands (`\\` continues a
command). The other lines are output.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import subprocess

import mpctest

INDEX = mpctest.ROOT / "docs" / "README.md"
DOCUMENTS = [
    mpctest.ROOT / "README.md",
    *sorted(set(mpctest.ROOT.glob("docs/*.md")) - {INDEX}),
]


def read_blocks(path, language=None):
    """Returns the texts of the blocks in `language`, or (language, text) of all
    blocks."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```", path.read_text(), re.S | re.M)
    return [text for name, text in found if name == language] if language else found


def read_commands(path):
    """Returns (command, shown output) for every command of a document."""
    commands = []
    for block in read_blocks(path, "console"):
        for entry in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = entry.replace("\\\n", " ").partition("\n")
            commands.append((command, output))
    return commands


def read_links(path):
    """The relative links of a document: (target, path, heading)."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            name, _, heading = target.partition("#")
            yield target, (path.parent / name if name else path), heading


def read_headings(path):
    """The headings of a document as GitHub makes anchors of them."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.S | re.M)
    titles = re.findall(r"^#+ +(.*)$", text, re.M)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
    }


def environment(home):
    """Returns the environment of commands: the build's mpc and the home folder
    `home`."""
    path = f"{mpctest.BUILD.resolve() / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(home)}


def execute(command, folder):
    """Runs a bash script in `folder` with mpc on the path. The first failing
    line ends the script."""
    return subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        check=False,
    )
