"""What a step of a plan has to move and to multiply, and the time that a GPU
needs for it at least.

SPDX-License-Identifier: Apache-2.0
"""

import collections
import math

# By a word of the GPU's name, newest first: bytes a second that kernels reach of
# its memory (85 % of what its maker says), and operations a second of its dense
# 16-bit and tf32 Tensor Cores and of its fp32 units.
GPU = collections.namedtuple("GPU", "bytes low tf32 f32")
GPUS = {
    "B200": GPU(6.8e12, 2250e12, 1100e12, 75e12),
    "H200": GPU(4.1e12, 989e12, 494e12, 67e12),
    "H100": GPU(2.85e12, 989e12, 494e12, 67e12),
    "A100": GPU(1.7e12, 312e12, 156e12, 19.5e12),
}
LOW = ("f16", "bf16")
WIDTHS = {"i1": 1}


def find_gpu(name):
    """Nothing for a GPU that is not in the table: it has no roof."""
    return next((gpu for word, gpu in GPUS.items() if word in name), None)


def width_of(dtype):
    """Bytes of an element."""
    return WIDTHS.get(dtype) or int(dtype.lstrip("uibf")) // 8


def bytes_of(buffer):
    return math.prod(buffer["shape"]) * width_of(buffer["type"])


def operands_of(step):
    """The buffers that a step names, each as often as it does."""
    names = {
        "launch": ("args",),
        "copy": ("src", "dst"),
        "conv": ("x", "w", "y"),
        "check_indices": ("buffer",),
    }[step["op"]]
    operands = []
    for name in names:
        value = step.get(name)
        operands += value if isinstance(value, list) else [value]
    return [operand for operand in operands if operand is not None]


def work_of(step, buffers):
    """Bytes loaded and stored, multiplications and additions, and the type that
    is multiplied; a loop's are those of all iterations."""
    if step["op"] == "for":
        parts = [work_of(inner, buffers) for inner in step["steps"]]
        moved, operations = (
            step["count"] * sum(part[i] for part in parts) for i in (0, 1)
        )
        kinds = [part[2] for part in parts if part[1]]
        return moved, operations, kinds[0] if kinds else None
    if step["op"] == "matmul":
        return product_of(step, buffers)
    moved = sum(bytes_of(buffers[operand]) for operand in operands_of(step))
    if step["op"] == "conv":
        operations = (
            *(2, step["batch"], step["out_channels"]),
            *(step["in_channels"] // step["groups"],),
            *step["out_spatial"],
            *step["kernel"],
        )
        operand = step["x"] if step["x"] is not None else step["y"]
        return moved, math.prod(operations), kind_of(step, buffers[operand])
    return moved, 0, None


def product_of(step, buffers):
    """Its operands may be columns of larger buffers; one that all matrices of a
    batch share is read once."""
    outer = step.get("outer") or {"extents": [], "a": [], "b": []}
    m, n, k = step["m"], step["n"], step["k"]
    count = step["batch"] * math.prod(outer["extents"])

    def moved(name, elements):
        if step.get(name) is None:
            return 0
        width = width_of(buffers[step[name]]["type"])
        is_shared = step[f"stride_{name}"] == 0 and not any(outer.get(name, []))
        return elements * width * (1 if is_shared else count)

    fused = step.get("fused") or {}
    others = [fused.get(name) for name in ("bias", "aux", "bias_grad")]
    total = moved("a", m * k) + moved("b", k * n) + moved("c", m * n)
    total += sum(bytes_of(buffers[other]) for other in others if other is not None)
    return total, 2 * count * m * n * k, kind_of(step, buffers[step["a"]])


def kind_of(step, operand):
    if operand["type"] in LOW:
        return "low"
    return "tf32" if step.get("compute") == "tf32" else "f32"


def seconds_at_least(step, buffers, gpu):
    moved, operations, kind = work_of(step, buffers)
    return max(
        moved / gpu.bytes, operations / getattr(gpu, kind) if operations else 0
    )
