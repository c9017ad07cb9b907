"""The training step and its clock, for all of PyTorch's contenders.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import json
import sys
import time

import torch


def parse_arguments():
    """Parses {eager|compiled} {fp32|bf16} WARM_UP STEPS THREADS, and sets the
    threads and the seed."""
    how, precision = sys.argv[1:3]
    warm_up, steps, threads = map(int, sys.argv[3:6])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    return how, precision, warm_up, steps


def to_device(array, device):
    """Copies an array to the device. On a GPU images become channels-last, as
    its users have them."""
    array = array.to(device, non_blocking=True)
    if device == "cuda" and array.dim() == 4:
        array = array.to(memory_format=torch.channels_last)
    return array


def print_times(
    how,
    precision,
    warm_up,
    steps,
    model,
    optimizer,
    x,
    target,
    loss=torch.nn.functional.cross_entropy,
    device="cpu",
):
    """Prints the milliseconds of each step after the first `warm_up`, as JSON.
    `x` is the input, or a tuple of all inputs. On a GPU, each step reads inputs
    from pinned memory and returns the loss."""
    on_host = x if isinstance(x, tuple) else (x,)
    if device == "cuda":
        target = target.pin_memory()
        on_host = tuple(array.pin_memory() for array in on_host)

    def cast():
        if precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(device, torch.bfloat16)

    def loss_of(target, *inputs):
        with cast():
            return loss(model(*inputs), target)

    if how == "compiled":
        loss_of = torch.compile(loss_of)
    times = []
    for _ in range(warm_up + steps):
        begin = time.perf_counter()
        inputs = [to_device(array, device) for array in on_host]
        value = loss_of(to_device(target, device), *inputs)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        value.item()
        times.append((time.perf_counter() - begin) * 1000)
    print(json.dumps(times[warm_up:]))


def export(model, inputs, path, names, **options):
    """Writes `model` for training, by the exporter that does not optimize it."""
    torch.onnx.export(
        model,
        inputs,
        path,
        input_names=names[:1],
        output_names=names[1:],
        do_constant_folding=False,
        dynamo=False,
        **options,
    )


def main(export, time_steps):
    """Runs the command line of a benchmark's model."""
    if sys.argv[1] == "export":
        return export(*sys.argv[2:])
    return time_steps()
