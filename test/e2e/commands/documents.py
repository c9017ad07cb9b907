"""Reads the fenced blocks of the documentation and executes their commands.

In a console block, lines that start with `$` are commands (`\\` continues a
command). The other lines are output.

SPDX-License-Identifier: Apache-2.0
"""

import fnmatch
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


def list_markdown():
    """The names of all documents of the tree."""
    found = []
    for folder, folders, files in os.walk(mpctest.ROOT):
        # Builds and packages are large, and have documents of others.
        hidden = re.compile(r"build|\.|__pycache__")
        folders[:] = [name for name in folders if not hidden.match(name)]
        found += [os.path.join(folder, name) for name in files if name.endswith(".md")]
    return sorted(os.path.relpath(path, mpctest.ROOT) for path in found)


# Placeholders in paths: passes/STAGE/MyPass.cpp.
PLACEHOLDERS = re.compile(r"STAGE|FOLDER|NAME|Name|MyPass|my-pass(-errors)?")
SOURCE = r"(?:cpp|h|td|def|mlir|onnxtxt|proto)"


def read_paths(path):
    """The files and folders of the tree that a document names in backticks,
    with a star in place of what the document leaves open."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.S | re.M)
    folders = {entry.name for entry in mpctest.ROOT.iterdir() if entry.is_dir()}
    folders |= {entry.name for entry in path.parent.iterdir() if entry.is_dir()}
    for word in re.findall(r"`([\w.*/-]+)`", text):
        name = PLACEHOLDERS.sub("*", word)
        in_tree = name.partition("/")[0] in folders - {"build"} and "/" in name
        if in_tree or re.fullmatch(rf"[\w.*-]+\.{SOURCE}", name):
            yield name


def finds(base, name):
    """Whether `name`, perhaps of a source without its ending, is below `base`."""
    if "/" not in name:
        return name in SOURCES or any(fnmatch.filter(SOURCES, name))
    return any(next(base.glob(end), None) for end in (name.rstrip("/"), name + ".*"))


def list_sources():
    tops = ("compiler", "passes", "frontends", "runtime", "tools", "test")
    return {
        name
        for top in tops
        for _, _, files in os.walk(mpctest.ROOT / top)
        for name in files
    }


SOURCES = list_sources()


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
