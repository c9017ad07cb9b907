"""Counts casts and stored bytes in the text of a module after the Fusion stage,
independently of mpc explain.

SPDX-License-Identifier: Apache-2.0
"""

import collections
import re

SIZES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}
VALUE = r"%[\w#]+"
SYMBOL = r'@("[^"]+"|[\w.$-]+)'


def values(text):
    return re.findall(VALUE, text)


def tensors(text):
    """Returns the element type and the bytes of each float tensor in `text`; a
    size of 0 for other tensors."""
    found = []
    for shape, element in re.findall(r"tensor<((?:\d+x)*)(\w+)>", text):
        size = SIZES.get(element, 0)
        for extent in shape.split("x")[:-1]:
            size *= int(extent)
        found.append((element, size))
    return found


class Kernel:
    def __init__(self, name):
        self.name, self.ops, self.stored = name, [], []

    def add(self, line):
        if found := re.match(r"\s+mpc\.yield (.*?) : (.*)", line):
            self.stored = list(zip(values(found[1]), tensors(found[2])))
        elif "^bb0" not in line:
            results, _, op = line.partition(" = ")
            self.ops.append((values(results)[0], op))


class Function:
    def __init__(self, header):
        self.is_private = "func.func private" in header
        results = header.rpartition(" -> ")[2]
        self.updates = [
            re.search(rf"mpc\.updates = {SYMBOL}", port)
            for port in re.findall(r"tensor<[^>]*>(?: \{[^}]*\})?", results)
        ]
        self.kernels, self.bodies, self.views, self.returned = [], [], {}, []

    def add(self, line):
        if found := re.match(r"    (%\w+)(?::\d+)? = mpc\.region ", line):
            self.kernels.append(Kernel(found[1]))
        elif line.startswith("     "):
            self.kernels[-1].add(line)
        elif "^bb0" in line:
            pass
        elif found := re.search(r" = mpc\.scan_call @(\w+) (\d+)", line):
            self.bodies.append((found[1], int(found[2])))
        elif found := re.search(r" = mpc\.if_call %\S+ @(\w+) else @(\w+)", line):
            self.bodies += [(found[1], 1), (found[2], 1)]
        elif found := re.match(rf"    ({VALUE}) = mpc\.reshape ({VALUE})", line):
            self.views[found[1]] = found[2]
        elif found := re.match(r"    return (.*?) : ", line):
            self.returned = values(found[1])

    def low_copies(self, derived):
        """Returns the values that become low copies of parameters."""
        copies = set()
        for value, update in zip(self.returned, self.updates):
            if update and update[1] in derived:
                copies.add(self.views.get(value, value))
        return copies


def parse(text):
    """Returns the functions by name, and the names of derived variables."""
    functions, function = {}, None
    for line in text.splitlines():
        if found := re.match(r"  func\.func (?:private )?@(\w+)\(", line):
            function = functions[found[1]] = Function(line)
        elif line.startswith("  }"):
            function = None
        elif function and not line.startswith("    }"):
            function.add(line)
    derived = re.findall(rf"mpc\.variable {SYMBOL} : \S+ role derived", text)
    return functions, set(derived)


def count(text):
    """Returns the counts of the functions that train, or else of @forward."""
    functions, derived = parse(text)
    total = collections.Counter()

    def visit(function, times):
        copies = function.low_copies(derived)
        for kernel in function.kernels:
            add_kernel(total, kernel, times, copies)
        for body, length in function.bodies:
            visit(functions[body], times * length)

    for names in (["step"], ["accumulate", "update"], ["forward"]):
        if names[0] in functions:
            for name in names:
                visit(functions[name], 1)
            return total
    raise AssertionError("no function to count")


def add_kernel(total, kernel, times, copies):
    computed = {result for result, _ in kernel.ops}
    stored = dict(kernel.stored)
    for _, (element, size) in kernel.stored:
        if size:
            total[element] += times * size
    casts = [(result, op) for result, op in kernel.ops if op.startswith("amp.cast")]
    work = [op for _, op in kernel.ops if not op.startswith("mpc.constant")]
    total["kernels"] += bool(casts) and len(casts) == len(work)
    loaded = set()
    for result, op in casts:
        source = values(op)[0]
        if result not in stored or not (source not in computed or source in stored):
            total["free"] += 1
            continue
        position = [value for value, _ in kernel.stored].index(result)
        name = kernel.name + (f"#{position}" if len(kernel.stored) > 1 else "")
        total["weights" if name in copies else "activations"] += 1
        total["bytes"] += times * stored[result][1]
        readers = [op for _, op in kernel.ops if source in values(op)]
        alone = all(op.startswith("amp.cast") for op in readers)
        if source not in computed and alone and source not in loaded:
            loaded.add(source)
            total["bytes"] += times * tensors(op)[0][1]
