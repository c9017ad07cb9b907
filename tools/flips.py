"""Applies every flag that mpc explain prints, and compares the decisions.

    flips.py MODE MODEL [FLAG...]

MODE is a mixed mode, such as bf16-mixed. The flags describe the training step,
for example:

    tools/flips.py bf16-mixed test/data/models/resnet.onnx \\
        --loss softmax_cross_entropy --batch-size 4

For each op with a flag (`flip`), two things must hold if the flag is given: the
op gets other types, and the other ops with other types are those that the
record lists (`follows`). Prints every op for which one does not hold, and exits
with 1. MPC_BUILD_DIR names the build (default: build/ of this tree).

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
MPC = pathlib.Path(os.environ.get("MPC_BUILD_DIR", ROOT / "build")) / "bin" / "mpc"


def run_mpc(*arguments):
    return subprocess.run(
        [str(word) for word in (MPC, *arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def explain(mode, model, flags, run):
    """Returns the records of the training step by id. `run` runs mpc. Leaves out
    constants: a constant that only low ops read is cast at compile time, and has
    no record then."""
    process = run("explain", model, "--precision", mode, "--format", "jsonl", *flags)
    if process.returncode != 0:
        raise ValueError(process.stderr.strip())
    rows = map(json.loads, process.stdout.splitlines())
    return {row["id"]: row for row in rows if row["reason"] != "constant"}


def types(row):
    return row["compute"], row["storage"]


def check_flip(before, row, explain_with):
    """Applies the flag of one op. Returns a text if the flag is not true."""
    op, flip = row["id"], row["flip"]
    try:
        after = explain_with(flip)
    except ValueError as error:
        return f"{op}: {flip}: {error}"
    if set(after) != set(before):
        return f"{op}: {flip}: other ops: {sorted(set(after) ^ set(before))}"
    changed = {name for name in before if types(before[name]) != types(after[name])}
    if op not in changed:
        return f"{op}: {flip}: the op keeps its types"
    others, listed = changed - {op}, set(row["follows"])
    if others != listed:
        return (
            f"{op}: {flip}: follow but are not listed: {sorted(others - listed)}; "
            f"are listed but do not follow: {sorted(listed - others)}"
        )
    return None


def check(mode, model, flags, run=run_mpc, sample=slice(None)):
    """Applies the flags of all ops of `sample`, one at a time. Returns what is
    wrong, and the number of these ops."""
    before = explain(mode, model, flags, run)

    def explain_with(flip):
        dropped = flip.removeprefix("drop ")
        kept = [flag for flag in flags if flag != dropped]
        return explain(mode, model, kept if dropped != flip else [*flags, flip], run)

    rows = [row for row in before.values() if row["flip"]][sample]
    found = [check_flip(before, row, explain_with) for row in rows]
    return [text for text in found if text], len(rows)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    mode, model, *flags = sys.argv[1:]
    wrong, count = check(mode, model, flags)
    print("\n".join([*wrong, f"{count} flags, {len(wrong)} wrong"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
