"""Runs the examples in the descriptions of passes.

    pass_examples.py MLIR_INCLUDE ROOT PASSES.TD...

ROOT is the project's root, below which a PASSES.TD may include parts of its
own.

A description has examples of this form; more than one `After` may follow a
`Before`, each with options of its own:

    Before:                      a whole module
    After, with `OPTION=VALUE`:  lines of what the pass makes of it, in order

`target=NAME` is not a pass option: it sets the module's target.

An `After` has the lines that mpc-opt prints, with these freedoms. Values may
have other names, but arguments have those of `Before`. Lines indented by 4 or
more continue a long line. `...` stands for any part of a line, or alone for any
lines. Errors and remarks are lines too. The test fails for a pass without an
example, and for an `After` that already holds before the pass.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import subprocess
import sys
import tempfile

PASS = re.compile(r"^### `-([a-z0-9-]+)`$", re.M)
# An example with the line above it.
FENCE = re.compile(r"([^\n]*)\n\n```(?:mlir|text)\n(.*?)```", re.S)
LEAD = re.compile(r"(Before|After)(?:, with `([^`]*)`)?(?:, [^:]*)?:")
# Functions, where value names begin anew.
FUNCTION = re.compile(r"\s*(func\.func|llvm\.func|plan\.program)\b")
VALUE = re.compile(r"%\w+")
TARGET = re.compile(r'mpc\.target = #mpc\.target<"[^"]*">(, )?|, mpc\.target = #mpc\.target<"[^"]*">')


def join(example):
    """Returns the lines of an example, each joined with its continuation lines."""
    lines, indent = [], 0
    for line in filter(str.strip, example.splitlines()):
        own = len(line) - len(line.lstrip())
        if lines and own >= indent + 4:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
            indent = own
    return lines


def to_pattern(line, bound):
    """Returns FileCheck's pattern for the line. `bound` are the known names."""
    # The line defines new values, even if another block used their names.
    if FUNCTION.match(line):
        bound.clear()
    elif line.startswith("^"):
        bound.difference_update(VALUE.findall(line))
    elif line.startswith("%"):
        bound.difference_update(VALUE.findall(line.split(" = ")[0]))

    def replace(match):
        text = match.group()
        if text == "...":
            return "{{.*}}"
        if text[0] in "[{":
            return "{{" + re.escape(text) + "}}"
        name = "V" + text[1:]
        if text in bound:
            return f"[[{name}]]"
        bound.add(text)
        return f"[[{name}:%[0-9a-zA-Z_]+]]"

    return re.sub(r"%\w+|\.\.\.|\[\[+|\{\{+", replace, line)


def to_checks(after, arguments):
    """Returns FileCheck's lines for an `After`."""
    checks, kind, bound = [], "CHECK", set(arguments)
    for line in join(after):
        if line == "...":
            kind = "CHECK"
        else:
            checks.append(f"{kind}: {to_pattern(line, bound)}")
            kind = "CHECK-NEXT"
    return "\n".join(checks) + "\n"


def run(flags, before):
    """Returns mpc-opt's output for the module, and the exit status."""
    done = subprocess.run(
        ["mpc-opt", "-", "--mlir-print-op-on-diagnostic=false", *flags],
        input=before,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout, done.returncode


def compare(checks, arguments, printed):
    """Returns FileCheck's complaint about the text; empty if it matches."""
    with tempfile.NamedTemporaryFile("w", suffix=".check") as file:
        file.write(checks)
        file.flush()
        values = [f"-DV{name[1:]}=%arg{i}" for i, name in enumerate(arguments)]
        done = subprocess.run(
            ["FileCheck", "--match-full-lines", "--allow-empty", *values, file.name],
            input=printed,
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stderr if done.returncode else ""


def check(name, options, before, after):
    """Returns the errors of one example of a pass; empty if there are none."""
    signature = before[before.find("func") :].split("{\n")[0]
    arguments = list(dict.fromkeys(VALUE.findall(signature)))
    checks = to_checks(after, arguments)
    words = (options or "").split()
    targets = [word for word in words if word.startswith("target=")]
    own = " ".join(word for word in words if word not in targets)
    flags = [f"--mpc-attach-target={word.replace('target', 'name')}" for word in targets]
    printed, status = run([*flags, f"--{name}={own}" if own else f"--{name}"], before)
    if targets:
        printed = TARGET.sub("", printed).replace("module attributes {} {", "module {")
    if (status != 0) != ("error: " in after):
        return f"mpc-opt ends with status {status}:\n{printed}"
    if problem := compare(checks, arguments, printed):
        return f"{problem}\nThe pass makes:\n{printed}"
    if not compare(checks, arguments, run([], before)[0]):
        return "what is said to be after holds before"
    return ""


def check_pass(name, section):
    """Returns the errors in the examples of a pass, and their number."""
    problems, before, count = [], None, 0
    fences = FENCE.findall(section)
    if len(fences) != len(re.findall(r"```\w", section)):
        problems.append("every example needs a line above it, and an empty one")
    for above, example in fences:
        lead = LEAD.fullmatch(above)
        if not lead:
            problems.append(f"neither Before nor After: {above}")
        elif lead.group(1) == "Before":
            before = example
        elif before:
            count += 1
            problems.append(check(name, lead.group(2), before, example))
    if not count:
        problems.append("no example with Before and After")
    return [f"{name}: {problem}" for problem in problems if problem], count


def main():
    include, root, *tables = sys.argv[1:]
    problems, count = [], 0
    for table in tables:
        document = subprocess.run(
            ["mlir-tblgen", "-gen-pass-doc", "-I", include, "-I", root, table],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        passes = list(PASS.finditer(document))
        if not passes:
            problems.append(f"{table}: no pass")
        for this, following in zip(passes, passes[1:] + [None]):
            section = document[this.end() : following.start() if following else None]
            found, examples = check_pass(this.group(1), section)
            problems += found
            count += examples
    print(f"{count} examples")
    sys.exit("\n\n".join(problems) or None)


main()
