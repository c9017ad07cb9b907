"""Times training steps of a model family in PyTorch on a GPU, tuned as users
would.

    torch_steps.py LINES PRECISION FAMILY:SIZE MEETING SECONDS [WAYS]

Appends lines of JSON to LINES as soon as results are known: for each way, the
milliseconds of a step and the memory, or the reason for their absence. WAYS
lists the ways that are prepared together, and after a slash the ones that
follow. The default is `eager,compiled,graphs/tuned`: `compiled` is
torch.compile, `graphs` its mode that captures CUDA graphs, and `tuned` its mode
that tries kernels for products, without graphs.

Compiling takes most of the time and one processor each. Processes for several
models therefore get ready side by side and meet in the folder MEETING. Then one
after the other has the GPU for itself. After SECONDS nobody waits for late
ones. A time taken while others work is `provisional`.

All known optimizations are on: cudnn.benchmark, channels-last images, the next
batch copied while a step runs, the fused optimizer, scaled dot product
attention. AdamW in bf16 by autocast; 32-true is fp32 without tf32.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import fcntl
import os
import pathlib
import sys
import time

import numpy as np
import torch

import export as exporter
import processes
import report
import steps
from families import FAMILIES

DTYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
MODES = {
    "compiled": "default",
    "graphs": "reduce-overhead",
    "tuned": "max-autotune-no-cudagraphs",
}
WAYS = "eager,compiled,graphs/tuned"
# Compiling ends, and graphs are captured, within the first steps.
FIRST_STEPS, PROVISIONAL_STEPS = 4, 5


class Feed:
    """Batches from pinned memory. A separate stream copies the next batch while
    a step runs, like a prefetching loader."""

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


class Trainer:
    """A model with its optimizer, whose step can run in several ways."""

    def __init__(self, family, precision):
        torch.manual_seed(0)
        random = np.random.RandomState(0)
        inputs = exporter.make_inputs(family, family.batch, random)
        labels = exporter.make_labels(family, family.batch, random)
        self.feed = Feed([*inputs.values(), labels])
        self.family, self.precision = family, precision
        self.model = family.make().train().to("cuda")
        if any(array.ndim == 4 for array in inputs.values()):
            self.model = self.model.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-4, fused=True
        )
        self.scaler = torch.amp.GradScaler(enabled=precision == "16-mixed")

    def loss_of(self, target, *arrays):
        is_low = self.precision in DTYPES
        with (
            torch.autocast("cuda", DTYPES[self.precision])
            if is_low
            else contextlib.nullcontext()
        ):
            return self.family.compute_loss(self.model(*arrays), target)

    def step_by(self, how):
        loss_of = self.loss_of
        if how != "eager":
            loss_of = torch.compile(loss_of, mode=MODES[how])

        def step():
            *arrays, target = self.feed.take()
            if how == "graphs":
                torch.compiler.cudagraph_mark_step_begin()
            self.optimizer.zero_grad(set_to_none=True)
            loss = loss_of(target, *arrays)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            return loss.item()

        return step


class Meeting:
    """A folder with a file for each process that is ready, the expected number
    of processes, and a lock for the GPU."""

    def __init__(self, folder, seconds):
        self.folder = pathlib.Path(folder)
        self.expected = int((self.folder / "expected").read_text())
        self.until = time.monotonic() + seconds

    def wait(self, phase):
        (self.folder / f"ready-{phase}-{os.getpid()}").touch()
        while self.missing(phase) and time.monotonic() < self.until:
            time.sleep(0.1)

    def missing(self, phase):
        """Returns the number of awaited processes. Ended processes count as
        present."""
        ended = len(list(self.folder.glob("ended-*")))
        ready = len(list(self.folder.glob(f"ready-{phase}-*")))
        return max(self.expected - ended - ready, 0)

    @contextlib.contextmanager
    def turn(self):
        with open(self.folder / "turn", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def take(step, count):
    for _ in range(count):
        step()


def get_ready(trainer, how, note):
    """Runs the first steps. Returns the step and its figures; None if it fails."""
    begin = time.perf_counter()
    torch.cuda.reset_peak_memory_stats()
    try:
        step = trainer.step_by(how)
        take(step, FIRST_STEPS)
        ready = time.perf_counter()
        take(step, PROVISIONAL_STEPS)
    except Exception as error:  # any error of a compiler
        note(how, error=f"{type(error).__name__}: {str(error)[-300:]}")
        return None
    milliseconds = (time.perf_counter() - ready) * 1000 / PROVISIONAL_STEPS
    # All prepared models share one GPU.
    torch.cuda.empty_cache()
    known = {"start_seconds": ready - begin}
    known["bytes"] = torch.cuda.max_memory_allocated()
    note(how, ms=milliseconds, provisional=True, **known)
    return step, known


def main():
    lines, precision, model, folder, seconds, *ways = sys.argv[1:]
    processes.end_with_parent()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    name, size = model.split(":")
    meeting = Meeting(folder, float(seconds))

    def note(how, **result):
        key = {"model": f"{name}-{size}", "how": how, "precision": precision}
        report.append(lines, "torch", {**key, **result})

    trainer = Trainer(FAMILIES[name][size](), precision)
    for phase, names in enumerate((ways[0] if ways else WAYS).split("/")):
        prepared = [
            (how, get_ready(trainer, how, note)) for how in names.split(",")
        ]
        meeting.wait(phase)
        with meeting.turn():
            for how, ready in prepared:
                if ready:
                    step, known = ready
                    late = meeting.missing(phase)
                    taken = steps.milliseconds(lambda n, step=step: take(step, n))
                    if late:
                        known["provisional"] = True
                    note(how, ms=taken, others_at_work=late, **known)


if __name__ == "__main__":
    main()
