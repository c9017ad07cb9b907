"""Computes the least and the likely time that a GPU needs for a plan's steps.

    roof.py [--gpu H100] [--library PATH] ARTIFACT...

predicts the time of artifacts' training steps from their plans, without a GPU.
A step's data movement and multiplications take measured rates, plus the time
between kernels.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import math
import pathlib

import capi

# By a word in the GPU's name, newest first: bytes per second of memory that
# kernels reach (85 % of the maker's figure), and operations per second of dense
# 16-bit and tf32 Tensor Cores and of fp32 units. Attention multiplies on the
# 16-bit Tensor Cores.
GPU = collections.namedtuple("GPU", "bytes low attention tf32 f32")
GPUS = {
    "B200": GPU(6.8e12, 2250e12, 2250e12, 1100e12, 75e12),
    "H200": GPU(4.1e12, 989e12, 989e12, 494e12, 67e12),
    "H100": GPU(2.85e12, 989e12, 989e12, 494e12, 67e12),
    "A100": GPU(1.7e12, 312e12, 312e12, 156e12, 19.5e12),
}
# The share of the Tensor Cores' rate that the libraries' large 16-bit products
# and convolutions reach, on an H100 and an H200.
REACHED = 600 / 989
# The share that cuDNN's attention with heads of 64 elements reaches, backward:
# NVIDIA's published run on an H200. Forward, and with wider heads, it is more.
ATTENTION_REACHED = 299 / 989
# The time between two kernels of a graph.
GAP_SECONDS = 1e-6
# The target milliseconds of a step on an H100.
TARGETS = {"gpt2-gpu": 17, "bert-gpu": 23, "vit-gpu": 16, "resnet50-gpu": 10.5}
LOW = ("f16", "bf16")
WIDTHS = {"i1": 1}


def find_gpu(name):
    """None for a GPU that is not in the table: its roof is unknown."""
    return next((gpu for word, gpu in GPUS.items() if word in name), None)


def width_of(dtype):
    """Returns the bytes of an element."""
    return WIDTHS.get(dtype) or int(dtype.lstrip("uibf")) // 8


def bytes_of(buffer):
    return math.prod(buffer["shape"]) * width_of(buffer["type"])


def operands_of(step):
    """Returns the buffers that a step names, as often as it names them."""
    names = {
        "launch": ("args",),
        "copy": ("src", "dst"),
        "conv": ("x", "w", "y"),
        "check_indices": ("buffer",),
        "all_reduce": ("buffer",),
    }[step["op"]]
    operands = []
    for name in names:
        value = step.get(name)
        operands += value if isinstance(value, list) else [value]
    return [operand for operand in operands if operand is not None]


def work_of(step, buffers):
    """Returns the bytes loaded and stored, the multiplications and additions,
    and the multiplied type. A loop's numbers cover all iterations."""
    if step["op"] == "for":
        parts = [work_of(inner, buffers) for inner in step["steps"]]
        moved, operations = (
            step["count"] * sum(part[i] for part in parts) for i in (0, 1)
        )
        kinds = [part[2] for part in parts if part[1]]
        return moved, operations, kinds[0] if kinds else None
    if step["op"] == "matmul":
        return product_of(step, buffers)
    if step["op"] == "attention":
        return attention_of(step, buffers)
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
    """Returns a product's bytes and operations. Operands may be columns of
    larger buffers. An operand that all matrices of a batch share is read
    once."""
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


def attention_of(step, buffers):
    """Returns the bytes and operations of attention. Operands may be columns of
    larger buffers. For the gradient, the library also writes and reads the
    gradients of all scores, so that sums have an order."""
    queries, keys = step["queries"], step["keys"]
    causal = step.get("causal_offset")
    rows = range(queries)
    seen = sum(keys if causal is None else min(keys, i + causal + 1) for i in rows)
    heads = step["batch"] * step["heads"]
    key_heads = step["batch"] * step["key_heads"]
    size, columns = step["size"], step["columns"]
    inputs = heads * queries * size + key_heads * keys * (size + columns)
    output = heads * queries * columns
    is_forward = step["kind"] == "forward"
    elements = inputs + output
    operations = 2 * heads * seen * (size + columns)
    if not is_forward:
        elements = 2 * elements + 2 * heads * queries * keys
        operations = 2 * heads * seen * (3 * size + 2 * columns)
    total = elements * width_of(buffers[step["query"]]["type"])
    for name in ("bias", "statistics"):
        if step.get(name) is not None:
            total += bytes_of(buffers[step[name]])
    return total, operations, "attention"


def kind_of(step, operand):
    if operand["type"] in LOW:
        return "low"
    return "tf32" if step.get("compute") == "tf32" else "f32"


def seconds_at_least(step, buffers, gpu):
    moved, operations, kind = work_of(step, buffers)
    return max(
        moved / gpu.bytes, operations / getattr(gpu, kind) if operations else 0
    )


def calls_of(step):
    """Returns the number of kernels. A call of a library counts as one, but the
    gradient of attention as three: sums of rows, products, the queries'
    gradient."""
    if step["op"] == "for":
        return step["count"] * sum(calls_of(inner) for inner in step["steps"])
    if step["op"] == "matmul" and step.get("outer"):
        return math.prod(step["outer"]["extents"])
    return 3 if step["op"] == "attention" and step["kind"] == "gradient" else 1


def predict(function, gpu):
    """Sums up a function of a plan: steps, kernels, bytes, operations, the
    seconds of its roof, and its likely seconds, as a whole and by part."""
    total = collections.Counter()
    reached = gpu._replace(
        low=gpu.low * REACHED,
        attention=gpu.attention * ATTENTION_REACHED,
        tf32=gpu.tf32 * REACHED,
    )
    for step in function["steps"]:
        moved, operations, _ = work_of(step, function["buffers"])
        likely = seconds_at_least(step, function["buffers"], reached)
        likely += calls_of(step) * GAP_SECONDS
        total.update(
            {
                "steps": 1,
                "kernels": calls_of(step),
                "bytes": moved,
                "operations": operations,
                "roof": seconds_at_least(step, function["buffers"], gpu),
                "likely": likely,
                ("products" if operations else "others"): likely,
            }
        )
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", choices=GPUS, default="H100")
    parser.add_argument(
        "--library",
        default=pathlib.Path(__file__).parents[2] / "build/lib/libmpc_runtime.so",
    )
    parser.add_argument("artifacts", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    runtime = capi.Runtime(options.library)
    print(
        f"Predicted for an {options.gpu}, not measured: ms of a training step\n"
        f"{'artifact':24}{'kernels':>9}{'GB':>8}{'TFLOP':>8}{'roof':>8}"
        f"{'likely':>8}{'products':>10}{'others':>8}{'wanted':>8}"
    )
    for path in options.artifacts:
        function = runtime.plan(path)["functions"]["step"]
        total = predict(function, GPUS[options.gpu])
        name = path.stem.removeprefix("timed-")
        wanted = TARGETS.get(name, "")
        milliseconds = [
            total[key] * 1e3 for key in ("roof", "likely", "products", "others")
        ]
        print(
            f"{name:24}{total['kernels']:9}{total['bytes'] / 1e9:8.1f}"
            f"{total['operations'] / 1e12:8.2f}{milliseconds[0]:8.1f}"
            f"{milliseconds[1]:8.1f}{milliseconds[2]:10.1f}"
            f"{milliseconds[3]:8.1f}{wanted:>8}"
        )


if __name__ == "__main__":
    main()
