"""Times training steps of model families in PyTorch on a GPU, as fast as its
users get them.

    torch_steps.py LINES PRECISION FAMILY:SIZE:HOW...

Appends a line of JSON to LINES for each, as soon as it is known: the milliseconds
of a step and the memory, or why there are none. HOW is `eager`, `compiled`
(torch.compile) or `graphs` (torch.compile in the mode that captures CUDA graphs).

Everything that is known to help is on: cudnn.benchmark, channels-last images, the
next batch copied while a step runs, the fused optimizer, scaled dot product
attention. AdamW in bf16 by autocast; 32-true is fp32 without tf32.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import sys

import numpy as np
import torch

import export as exporter
import report
import steps
from families import FAMILIES

DTYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
MODES = {"compiled": "default", "graphs": "reduce-overhead"}


class Feed:
    """Batches from pinned memory: the next one is copied by a stream of its own
    while a step runs, as a prefetching loader does."""

    def __init__(self, arrays):
        self.arrays = [torch.from_numpy(array).pin_memory() for array in arrays]
        self.stream = torch.cuda.Stream()
        self.copy()

    def copy(self):
        with torch.cuda.stream(self.stream):
            self.next = [
                array.to("cuda", non_blocking=True) for array in self.arrays
            ]
            self.next = [
                array.to(memory_format=torch.channels_last)
                if array.dim() == 4
                else array
                for array in self.next
            ]

    def take(self):
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        batch = self.next
        for array in batch:
            array.record_stream(current)
        self.copy()
        return batch


def make_step(family, precision, how):
    torch.manual_seed(0)
    random = np.random.RandomState(0)
    inputs = exporter.make_inputs(family, family.batch, random)
    feed = Feed([*inputs.values(), exporter.make_labels(family, family.batch, random)])
    model = family.make().train().to("cuda")
    if any(array.ndim == 4 for array in inputs.values()):
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler(enabled=precision == "16-mixed")

    def loss_of(target, *arrays):
        is_low = precision in DTYPES
        with (
            torch.autocast("cuda", DTYPES[precision])
            if is_low
            else contextlib.nullcontext()
        ):
            return family.compute_loss(model(*arrays), target)

    if how in MODES:
        torch.compiler.reset()
        loss_of = torch.compile(loss_of, mode=MODES[how])

    def step():
        *arrays, target = feed.take()
        if how == "graphs":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(target, *arrays)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return step


def time_steps(name, size, precision, how):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step = make_step(FAMILIES[name][size](), precision, how)

    def run(count):
        for _ in range(count):
            step()

    milliseconds = steps.milliseconds(run)
    return {"ms": milliseconds, "bytes": torch.cuda.max_memory_allocated()}


def main():
    lines, precision, *cases = sys.argv[1:]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    for case in cases:
        name, size, how = case.split(":")
        try:
            result = time_steps(name, size, precision, how)
        except (RuntimeError, ImportError) as error:
            result = {"error": f"{type(error).__name__}: {str(error)[-300:]}"}
        key = {"model": f"{name}-{size}", "how": how, "precision": precision}
        report.append(lines, "torch", {**key, **result})


if __name__ == "__main__":
    main()
