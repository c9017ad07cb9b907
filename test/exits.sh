#!/bin/sh
# exits.sh CODE COMMAND...: runs the command and fails unless the exit code is
# CODE.
#
# SPDX-License-Identifier: Apache-2.0
expected=$1
shift
"$@"
found=$?
[ "$found" -eq "$expected" ] && exit
echo "exits.sh: expected exit code $expected, found $found"
exit 1
