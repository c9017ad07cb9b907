"""Runs torch_steps.py on the CPU, with its arguments. Calls for a GPU go to the
CPU, or do nothing.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import types

import torch


def on_cpu(function):
    def call(*arguments, **options):
        arguments = ["cpu" if a == "cuda" else a for a in arguments]
        return function(*arguments, **options)

    return call


class Stream:
    def wait_stream(self, other):
        pass


torch.Tensor.to = on_cpu(torch.Tensor.to)
torch.Tensor.pin_memory = lambda self: self
torch.Tensor.record_stream = lambda self, stream: None
torch.nn.Module.to = on_cpu(torch.nn.Module.to)
torch.autocast = on_cpu(torch.autocast)
torch.cuda.Stream = Stream
torch.cuda.current_stream = Stream
torch.cuda.stream = lambda stream: contextlib.nullcontext()
torch.cuda.reset_peak_memory_stats = lambda: None
torch.cuda.max_memory_allocated = lambda: 0
torch.amp.GradScaler = lambda enabled: types.SimpleNamespace(
    scale=lambda loss: loss,
    step=lambda optimizer: optimizer.step(),
    update=lambda: None,
)

import torch_steps  # noqa: E402  (after the replacements)

torch_steps.main()
