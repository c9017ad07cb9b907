"""Prints a step of COUNT products, each with a tanh behind: products.py COUNT.

SPDX-License-Identifier: Apache-2.0
"""

import sys

kind = "tensor<4x4xf32>"
print(f"func.func @step(%x: {kind}, %w: {kind}) -> {kind} {{")
value = "%x"
for i in range(int(sys.argv[1])):
    print(
        f"  %m{i} = mpc.matmul {value}, %w : ({kind}, {kind}) -> {kind} "
        f'loc("matmul{i}")'
    )
    print(f'  %t{i} = mpc.tanh %m{i} : ({kind}) -> {kind} loc("tanh{i}")')
    value = f"%t{i}"
print(f"  return {value} : {kind}\n}}")
