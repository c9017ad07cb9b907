"""exits.py CODE COMMAND...: runs the command; fails unless it exits with CODE.

SPDX-License-Identifier: Apache-2.0
"""

import subprocess
import sys

code = subprocess.run(sys.argv[2:], check=False).returncode
if code != int(sys.argv[1]):
    print(f"exits.py: expected exit code {sys.argv[1]}, found {code}")
    sys.exit(1)
