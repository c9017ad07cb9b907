"""Makes the shared helpers of the Python suites (mpctest.py) importable: pytest
puts this folder on the path because this file is in it. And gives the processes
that tests start the signals of a terminal, also where the suite runs under nohup
or in the background of a script, which have them ignore SIGHUP or SIGINT.

SPDX-License-Identifier: Apache-2.0
"""

import signal

for number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
