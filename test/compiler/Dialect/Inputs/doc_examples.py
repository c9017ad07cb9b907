"""Turns the examples of the dialects' op documentation into modules.

Reads the Markdown of `mlir-tblgen -gen-dialect-doc` and prints every ```mlir
example as a module of its own, separated for `mpc-opt -split-input-file`. Free
values of an example become arguments of a function, or buffers of a program,
with the types the example names. Every op must have a sentence and an example.

SPDX-License-Identifier: Apache-2.0
"""

import re
import sys

OP = re.compile(r"^### `([a-z_.]+)`", re.M)
FENCE = re.compile(r"```mlir\n(.*?)```", re.S)
# The text between the name and the lists: summary, syntax, description.
TEXT = re.compile(
    r"\n\n_[^\n]+_\n(?:\nSyntax:\n\n```\n.*?```\n)?(.*?)(?:Traits:|Interfaces:|Effects:|####|\Z)",
    re.S,
)
VALUE = re.compile(r"%\w+")
TYPE = re.compile(r"(?:tensor|memref)<[^>]*>")
# The start of a statement. Other lines continue the line above.
BEGIN = re.compile(r"\s*(?:%[\w:, %]+ = |\^|\}|(?:mpc|amp|plan|func)\.)")
ATTRIBUTES = re.compile(r"\{\s*\w+ = [^{}]*\}")
# Operands with their types: carried(%h0 : tensor<20x64xf32>), into %y : ...
GROUP = re.compile(r"\w+\((%[^:()]*) : ([^()]*)\)|into (%\w+) : (\S+)")
# The type of a condition follows the regions, or is missing.
CONDITION = re.compile(r"\b(?:mpc|plan)\.if (%\w+)")
# Ops that stand directly in the module.
MODULE_LEVEL = {"mpc.variable", "plan.program"}
# Ops that the examples of other ops show: terminators, and calls of functions
# as outline-bodies.mlir has them.
PARTS = {"mpc.yield": "mpc.region", "mpc.scan_call": "mpc.scan",
         "mpc.if_call": "mpc.if", "plan.yield": "plan.product"}
# The context that an op must stand in.
AROUND = {"plan.part": "plan.for 35 {{\n{}}}\n"}
STATE = re.compile(r"plan\.state (@[\w.]+) : memref(<[^>]*>)")


def statements(example):
    """Returns the statements of an example, each on one line."""
    lines = []
    for line in filter(str.strip, example.splitlines()):
        if lines and not BEGIN.match(line):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
    return lines


def typed_operands(statement):
    """Returns pairs of a statement's operands and their types."""
    pairs = []
    if match := CONDITION.search(statement):
        buffer = statement.startswith("plan.")
        pairs.append((match.group(1), "memref<i1>" if buffer else "tensor<i1>"))
    results = statement.startswith("%")
    text = statement.split(" = ", 1)[-1] if results else statement
    text = ATTRIBUTES.sub("", text)
    for match in GROUP.finditer(text):
        values, types = (group for group in match.groups() if group)
        pairs += zip(VALUE.findall(values), TYPE.findall(types))
    operands, _, types = GROUP.sub("", text).partition(" : ")
    types = types if types.startswith("tensor") else types.split("->")[0]
    return pairs + list(zip(VALUE.findall(operands), TYPE.findall(types)))


def wrap(example):
    """Returns the example inside a function or program with its free values."""
    defined, free = set(), {}
    for statement in statements(example):
        for value, type_ in typed_operands(statement):
            if value not in defined:
                free.setdefault(value, type_)
        if statement.startswith("^"):
            defined |= set(VALUE.findall(statement))
        elif statement.startswith("%"):
            defined |= set(VALUE.findall(statement.split(" = ")[0]))
    if "memref" not in example:
        arguments = ", ".join(f"{v}: {t}" for v, t in free.items())
        return f"func.func @example({arguments}) {{\n{example}  return\n}}\n"
    buffers = "".join(f"  {v} = plan.arena : {t}\n" for v, t in free.items())
    variables = "".join(
        f'mpc.variable {name} : tensor{type_} role "parameter"\n'
        for name, type_ in STATE.findall(example)
    )
    return f"{variables}plan.program @example {{\n{buffers}{example}}}\n"


def main():
    text = sys.stdin.read()
    ops = list(OP.finditer(text))
    modules, missing = [], []
    for op, following in zip(ops, ops[1:] + [None]):
        section = text[op.end() : following.start() if following else None]
        name = op.group(1)
        examples = FENCE.findall(section)
        if not examples:
            missing.append(f"{name}: no example")
        text_of = TEXT.search(section)
        if not text_of:
            missing.append(f"{name}: no summary")
        elif not re.search(r"\w", FENCE.sub("", text_of.group(1))):
            missing.append(f"{name}: no sentence")
        if name in PARTS:
            continue
        for example in examples:
            example = AROUND.get(name, "{}").format(example)
            modules.append(example if name in MODULE_LEVEL else wrap(example))
    if missing:
        sys.exit("\n".join(missing))
    print("\n// -----\n\n".join(modules))
    print(f"// {len(modules)} examples")


main()
