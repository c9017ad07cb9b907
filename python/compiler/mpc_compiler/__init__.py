"""The command mpc, as a wheel carries it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import pathlib
import sysconfig

__all__ = ["find_mpc"]


def find_mpc() -> str:
    """Returns the path of the command mpc that was installed with this package.
    Raises FileNotFoundError if there is none."""
    here = pathlib.Path(__file__).resolve()
    folders = [
        # pip install --target, then --prefix: the programs are near the package.
        here.parents[1] / "bin",
        here.parents[4] / "bin",
        pathlib.Path(sysconfig.get_path("scripts")),
        pathlib.Path(sysconfig.get_path("scripts", "posix_user")),
    ]
    for folder in folders:
        path = folder / "mpc"
        if (path.parent.parent / "libexec" / "mpc-compiler").is_dir() and os.access(
            path, os.X_OK
        ):
            return str(path)
    raise FileNotFoundError(
        f"the command mpc is in none of {', '.join(map(str, folders))}; reinstall"
        " mpc-compiler"
    )
