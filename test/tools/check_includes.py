"""Checks that no folder includes a folder above it.

    check_includes.py ROOT

Prints every upward include as "FILE:LINE: FOLDER includes FOLDER", and every
source in a folder that is missing in the table below. Exits with 1 if there is
one. Everybody may include the shared headers, which depend on nothing. The
runtime must not include MLIR or LLVM.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import re
import sys

# Folders in ascending order. A folder may include itself and the folders in its
# list.
COMPILER = (
    "compiler/Support compiler/Target compiler/Interfaces compiler/Dialect "
    "compiler/Kernels compiler/Regions compiler/Precision compiler/Artifact"
).split()
DIALECTS = ["compiler/Dialect/MPC", "compiler/Dialect/AMP"]
ONNX = [f"frontends/ONNX/{room}" for room in ("Model", "Repair", "Importer", "Ops", "Training")]
CODEGEN = [f"passes/Codegen/{room}" for room in ("Kernels", "TensorCore")]
RUNTIME = [
    f"runtime/{room}" for room in ("cpu", "cuda", "distributed", "train", "capi")
]
FLOORS = [
    f"runtime/train/{floor}"
    for floor in ("support", "trainee", "data", "record", "evaluate", "checkpoint")
]
ABOVE_STAGES = ["compiler", "passes", "frontends", "runtime"]


def allowed():
    """Returns a map from a folder to the other folders that it may include."""
    table = {room: COMPILER[:i] for i, room in enumerate(COMPILER)}
    below = ["compiler/Support", "compiler/Target", "compiler/Interfaces"]
    table["compiler/Dialect/MPC"] = below
    table["compiler/Dialect/AMP"] = below
    table["compiler/Dialect/Plan"] = below + DIALECTS
    table["compiler/Artifact"] = COMPILER[:5]
    # Stages include the compiler, but not each other. The pipeline includes
    # both.
    stages = [f"passes/{stage}" for stage in STAGES]
    for stage in stages:
        table[stage] = COMPILER[:-1]
    for i, room in enumerate(CODEGEN):
        table[room] = COMPILER[:-1] + CODEGEN[:i]
    table["passes/Codegen"] += CODEGEN
    table["passes"] = COMPILER + stages
    for i, room in enumerate(ONNX):
        table[room] = COMPILER[:4] + ONNX[:i]
    table["frontends/ONNX/Export"] = COMPILER[:4] + ONNX[:2]
    table["frontends/ONNX"] = COMPILER[:4] + ONNX
    table["runtime"] = RUNTIME[:2]
    # Devices get a communicator from their user.
    for room in RUNTIME[:3]:
        table[room] = ["runtime"]
    for i, floor in enumerate(FLOORS):
        table[floor] = ["runtime"] + FLOORS[:i]
    table["runtime/train"] = ["runtime", "runtime/distributed"] + FLOORS
    table["runtime/capi"] = ["runtime", "runtime/distributed", "runtime/train"] + FLOORS
    for tool in ("tools/mpc", "tools/mpc-opt", "tools/mpc-translate"):
        table[tool] = ABOVE_STAGES + RUNTIME
    table["tools/bench"] = ["runtime", "runtime/cpu", "runtime/distributed"]
    return table


STAGES = ("Target", "Recognition", "Differentiation", "Precision", "Fusion", "Planning", "Codegen")
# Plain headers that the compiler and the runtime share.
SHARED = {
    *("runtime/ABI.h", "runtime/ArtifactFormat.h", "runtime/AttentionOperands.h"),
    "runtime/Names.h",
    "runtime/capi/PrintableText.h",
    "runtime/NodesFormat.h",
    *("runtime/PlanSchema.def", "runtime/PlanSchema.h"),
    "runtime/RecipeNames.h",
    "runtime/TemporaryFile.h",
    "runtime/VariableNames.h",
}
PRODUCT = ("compiler", "passes", "frontends", "runtime", "tools")
INCLUDE = re.compile(r'^\s*#?include\s+[<"]((?:%s|mlir|llvm)/[^>"]+)[>"]' % "|".join(PRODUCT))


def room_of(path, rooms):
    """Returns the innermost folder of the table that contains `path`."""
    folder = pathlib.PurePosixPath(path).parent
    while str(folder) not in rooms and str(folder) != ".":
        folder = folder.parent
    return str(folder)


def findings(root):
    table = allowed()
    for source in sorted(root.glob("*/**/*")):
        name = source.relative_to(root).as_posix()
        if source.suffix not in (".h", ".cpp", ".td", ".cu", ".def"):
            continue
        if name.split("/")[0] not in PRODUCT:
            continue  # tests and builds may include anything
        room = room_of(name, table)
        if room not in table:
            yield f"{name}: in no folder that the table places"
            continue
        knows_mlir = not room.startswith("runtime")
        for number, line in enumerate(source.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or match[1] in SHARED:
                continue
            if match[1].startswith(("mlir/", "llvm/")):
                if not knows_mlir:
                    yield f"{name}:{number}: {room} includes {match[1]}"
                continue
            target = room_of(match[1], table)
            inside = target == room or any(
                target == folder
                # Access to the runtime's own files does not include its
                # subfolders.
                or (target.startswith(folder + "/") and folder != "runtime")
                for folder in table[room]
            )
            if not inside:
                yield f"{name}:{number}: {room} includes {match[1]}"


def main():
    found = list(findings(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else "no include turns back")
    sys.exit(bool(found))


main()
