"""`python -m mpc_compiler` is the command mpc.

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys

from mpc_compiler import find_mpc

os.execv(find_mpc(), ["mpc", *sys.argv[1:]])
