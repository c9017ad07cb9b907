"""Compares mpc's own passes in `mpc-opt --help-list`, on standard input, with
those in `mpc-opt --help`.

SPDX-License-Identifier: Apache-2.0
"""

import re
import subprocess
import sys


def names(text):
    return set(re.findall(r"--((?:mpc|amp|plan)-[a-z0-9-]+) ", text))


def main():
    listed = names(sys.stdin.read())
    screen = subprocess.run(
        [sys.argv[1], "--help"], capture_output=True, text=True, check=True
    ).stdout
    # mpc-codegen is a pipeline, not a pass.
    missing = listed - names(screen) - {"mpc-codegen"}
    assert len(listed) > 40 and not missing, missing
    # One line per pass, and few others.
    assert len(screen.splitlines()) - len(listed) < 38, "too long"


main()
