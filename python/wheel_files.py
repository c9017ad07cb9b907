"""Adds built files to a wheel: a hook of hatchling.

MPC_WHEEL_FILES is a JSON object from paths in the wheel to files. Only
tools/wheels sets it, because auditwheel must repair the wheel afterwards.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelFiles(BuildHookInterface):
    """Marks the wheel as one for Linux on x86-64, and adds the files."""

    def initialize(self, version, build_data):
        files = os.environ.get("MPC_WHEEL_FILES")
        if not files:
            raise SystemExit("a wheel needs libraries: run tools/wheels")
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"
        for path, file in json.loads(files).items():
            build_data["force_include"][file] = path
