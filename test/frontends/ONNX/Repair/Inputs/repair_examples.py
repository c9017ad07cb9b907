"""Runs the examples in the head comments of repairs.

    repair_examples.py ROOT NAME    runs those of one repair of Repairs.def
    repair_examples.py ROOT --all TESTS    checks that TESTS has a test for each

The head comment of a repair's file has examples of this form:

    // Before:
    //
    // ```
    // a whole model in ONNX text
    // ```
    //
    // After:
    //
    // ```
    // lines that --emit=repair prints of it, in order
    // ```

An `After` of a row that only warns has what the import says: "warning: ...". A
long line goes on in lines indented by 4 and more. `...` stands for anything:
for part of a line, or on a line of its own for any lines. A row without an
example fails. So does an `After` that holds with `--no-repair NAME`.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROW = re.compile(r"^MPC_(?:UNCHECKED_)?(REPAIR|LOSS)\(\w+, \"([a-z-]+)\"", re.M)
BLOCK = re.compile(r"^(Before|After):\n\n```\n(.*?)```$", re.M | re.S)


def read_rows(root):
    """Kind by name, in order."""
    table = root / "frontends/ONNX/Repair/Repairs.def"
    text = re.sub(r"\(\s*(\w+),\s*", r"(\1, ", table.read_text(encoding="utf-8"))
    return {name: kind for kind, name in ROW.findall(text)}


def read_head(root, name):
    """The head comment of a repair's file, without the slashes."""
    file = "".join(word.capitalize() for word in name.split("-")) + ".cpp"
    lines = (root / "frontends/ONNX/Repair" / file).read_text(encoding="utf-8").splitlines()
    head = []
    for line in lines:
        if not line.startswith("//"):
            break
        head.append(line[3:])
    return "\n".join(head) + "\n"


def join(example):
    """The lines of an example, each with those that continue it."""
    lines, indent = [], 0
    for line in filter(str.strip, example.splitlines()):
        own = len(line) - len(line.lstrip())
        if lines and own >= indent + 4:
            # No space within a call's target.
            lines[-1] += ("" if lines[-1].endswith("=") else " ") + line.strip()
        else:
            lines.append(line.strip())
            indent = own
    return lines


def holds(after, printed):
    """True if the lines of `after` are in the printed text, in order."""
    pattern, gap = "", True
    for line in join(after):
        if line == "...":
            gap = True
            continue
        text = ".*".join(re.escape(part) for part in line.split("..."))
        pattern += (r"(?:.*\n)*?" if gap else "") + rf" *{text} *\n"
        gap = False
    return re.match(pattern, printed) is not None


def run(kind, model, *flags):
    """What mpc prints of the model, and says about it."""
    emit = ["--emit=repair"] if kind == "REPAIR" else ["--emit=import", "--as-exported"]
    done = subprocess.run(
        ["mpc", "compile", model, *emit, "-o", "-", *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stderr.replace(f"{model}: ", "")
    return done.stdout, said, done.returncode


def check(kind, name, before, after):
    """What is wrong with one example, nothing if it holds."""
    # Other tests than these need no package.
    import onnx
    import repair_text

    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model.onnx"
        onnx.save(repair_text.read("\n".join(join(before)) + "\n"), model)
        printed, said, status = run(kind, model)
        if status:
            return f"mpc ends with status {status}:\n{said}"
        text = printed if kind == "REPAIR" else said
        if not holds(after, text):
            return f"After does not hold:\n{after}\nmpc makes:\n{text}"
        if kind == "REPAIR" and f"--no-repair {name}" not in said:
            return f"nothing names --no-repair {name}:\n{said}"
        printed, said, status = run(kind, model, "--no-repair", name)
        if holds(after, printed if kind == "REPAIR" else said):
            return f"After holds with --no-repair {name}"
    return ""


def check_repair(root, name):
    """What is wrong with the examples of a repair."""
    kind = read_rows(root).get(name)
    if not kind:
        return [f"no row of Repairs.def has the name {name}"]
    problems, before, count = [], None, 0
    for lead, example in BLOCK.findall(read_head(root, name)):
        if lead == "Before":
            before = example
        elif lead == "After" and before:
            count += 1
            problems.append(check(kind, name, before, example))
    if not count:
        problems.append("no example with Before and After")
    return [f"{name}: {problem}" for problem in problems if problem]


def main():
    root, name = pathlib.Path(sys.argv[1]), sys.argv[2]
    if name == "--all":
        tests = pathlib.Path(sys.argv[3])
        problems = [
            f"{row}: no test {row}.test"
            for row in read_rows(root)
            if not (tests / f"{row}.test").exists()
        ]
        problems += [
            f"{row}: no example with Before and After"
            for row in read_rows(root)
            if not {"Before", "After"} <= {lead for lead, _ in BLOCK.findall(read_head(root, row))}
        ]
    else:
        problems = check_repair(root, name)
    sys.exit("\n\n".join(problems) or None)


if __name__ == "__main__":
    main()
