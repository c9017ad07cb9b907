"""Lists the tests of a source file.

    tests_of.py FILE

Prints a line per test: `unit REGEX` for ctest -R, `lit PATH` or `python PATH`.
A test belongs to FILE if it has the name of FILE, or if its text names FILE.
Names of tests leave out verbs and prefixes: the tests of EmitMovement.cpp are
MovementTest.cpp and movement*.mlir. If there is none, prints all tests in the
folder below test/ that mirrors the folder of FILE. Exits with 1 if that folder
has none.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEST = ROOT / "test"
LIT = (".mlir", ".test", ".onnxtxt")
PREFIXES = ("Emit", "Import", "MPC", "Add", "Build", "Find", "Recognize")


def names_of(stem):
    """Returns the spellings of a file's name, also without a prefix and in
    kebab case."""
    names = [stem] + [stem[len(p) :] for p in PREFIXES if stem.startswith(p) and stem != p]
    words = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", n) for n in names]
    return names, [word.lower() for word in words]


def is_test(path):
    if "Inputs" in path.parts or path.is_relative_to(TEST / "data"):
        return False
    python = path.name.startswith("test_") and path.suffix == ".py"
    return path.suffix in LIT or path.name.endswith("Test.cpp") or python


def is_of(path, names, kebabs):
    if path.suffix == ".cpp":
        return path.stem.removesuffix("Test") in names
    stem = path.stem.removeprefix("test_").replace("_", "-")
    return any(stem == kebab or stem.startswith(kebab + "-") for kebab in kebabs)


def tests_of(source):
    if source.is_relative_to(TEST):
        return [source]
    name = source.relative_to(ROOT)
    tests = [path for path in sorted(TEST.rglob("*")) if path.is_file() and is_test(path)]
    names, kebabs = names_of(source.stem)
    of_name = [path for path in tests if is_of(path, names, kebabs)]
    # Two stages have a Movement.cpp, and so two tests: print the test in the
    # own folder first.
    folder = TEST / name.parent
    while folder != TEST and not folder.is_dir():
        folder = folder.parent
    near = [path for path in of_name if path.is_relative_to(folder)] if folder != TEST else []
    mention = re.compile(re.escape(name.as_posix()) + r"\b")
    mentions = [path for path in tests if mention.search(path.read_text())]
    if near or of_name or mentions:
        return sorted({*(near or of_name), *mentions})
    return [path for path in tests if folder != TEST and path.is_relative_to(folder)]


def describe(path):
    if path.suffix == ".cpp":
        suites = sorted(set(re.findall(r"^TEST(?:_[FP])?\((\w+),", path.read_text(), re.M)))
        return f"unit (^|/)({'|'.join(suites)})\\." if suites else None
    return f"{'python' if path.suffix == '.py' else 'lit'} {path.relative_to(ROOT)}"


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    if not source.is_file() or not source.is_relative_to(ROOT):
        sys.exit(f"tests_of.py: no such file of the tree: {sys.argv[1]}")
    lines = [line for line in map(describe, tests_of(source)) if line]
    if not lines:
        sys.exit(f"tests_of.py: no test for {sys.argv[1]}")
    print("\n".join(lines))


main()
