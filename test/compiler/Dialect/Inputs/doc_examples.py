"""Turns the examples of the dialects' op documentation into modules.

Reads the Markdown of `mlir-tblgen -gen-dialect-doc` and prints every ```mlir
example as a module of its own, separated for `mpc-opt -split-input-file`. Free
values of an example become arguments of a function, with the types of the
example's functional type. Every op must have an example.

SPDX-License-Identifier: Apache-2.0
"""

import re
import sys

OP = re.compile(r"^### `([a-z_.]+)`", re.M)
FENCE = re.compile(r"```mlir\n(.*?)```", re.S)
TENSOR = re.compile(r"tensor<[^>]*>")
# Not inside a function: state. Without free values: constants.
MODULE_LEVEL = {"mpc.variable"}
# Shown by the op they end; name functions, as outline-bodies.mlir has them.
PARTS = {"mpc.yield": "mpc.region", "mpc.scan_call": "mpc.scan",
         "mpc.if_call": "mpc.if"}
# Operands with their types: carried(%h0 : tensor<20x64xf32>).
GROUP = re.compile(r"\w+\((%[^:()]*) : ([^()]*)\)")


def wrap(example):
    """The example inside a function that takes its free values."""
    defined = set(
        re.findall(
            r"%\w+",
            " ".join(
                line.split(" = ")[0]
                for line in example.splitlines()
                if " = " in line
            ),
        )
    )
    defined |= set(re.findall(r"(%\w+): tensor", example))
    statement = example.split("{\n^bb")[0]
    used = [
        v
        for v in re.findall(r"%\w+", statement.split(" = ", 1)[-1])
        if v not in defined
    ]
    signature = (
        statement.rsplit(" : ", 1)[1]
        if " : (" not in statement
        else (statement[statement.rindex(" : (") + 3 :].split("->")[0])
    )
    types = TENSOR.findall(signature)[: len(used)]
    if groups := GROUP.findall(statement.split("->")[0]):
        types = [t for _, group in groups for t in TENSOR.findall(group)]
        # A condition stands before the groups.
        types = ["tensor<i1>"] * (len(used) - len(types)) + types
    if len(types) != len(used):
        sys.exit(f"cannot tell the operand types of:\n{example}")
    arguments = ", ".join(f"{v}: {t}" for v, t in zip(used, types))
    return f"func.func @example({arguments}) {{\n{example}  return\n}}\n"


def main():
    text = sys.stdin.read()
    ops = list(OP.finditer(text))
    modules, missing = [], []
    for op, following in zip(ops, ops[1:] + [None]):
        section = text[op.end() : following.start() if following else None]
        name = op.group(1)
        examples = FENCE.findall(section)
        if not examples:
            missing.append(name)
        if name in PARTS:
            continue
        for example in examples:
            modules.append(example if name in MODULE_LEVEL else wrap(example))
    if missing:
        sys.exit("ops without an example: " + ", ".join(missing))
    print("\n// -----\n\n".join(modules))
    print(f"// {len(modules)} examples")


main()
