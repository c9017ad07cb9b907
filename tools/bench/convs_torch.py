"""Times single convolutions in PyTorch. Reads the lines that mpc-conv-times
(ConvTimes.cpp) reads, and prints the same output. The argument is the operands'
memory format: `contiguous` or `channels_last`.

SPDX-License-Identifier: Apache-2.0
"""

import statistics
import sys
import time

import torch

FORMATS = {
    ("channels_last", 2): torch.channels_last,
    ("channels_last", 3): torch.channels_last_3d,
}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def parse(line):
    kind, dtype, seconds, *numbers = line.split()
    numbers = [int(number) for number in numbers]
    axes, batch, groups, inputs, outputs = numbers[:5]
    shapes = [
        numbers[5 + i * axes :][:axes] for i in range(5)
    ]
    return kind, TYPES[dtype], float(seconds), batch, groups, inputs, outputs, shapes


def make(line, memory_format):
    """Returns a function that runs the convolution once, and the seconds that
    it may take."""
    parsed = parse(line)
    kind, dtype, seconds, batch, groups, inputs, outputs, shapes = parsed
    spatial, kernel, strides, dilations, pads = shapes
    layout = FORMATS.get((memory_format, len(spatial)), torch.contiguous_format)

    def tensor(*shape):
        values = torch.rand(shape) * 2 - 1
        return values.to(dtype).to(memory_format=layout)

    x = tensor(batch, inputs, *spatial)
    w = tensor(outputs, inputs // groups, *kernel)
    rest = (strides, pads, dilations, False, [0] * len(spatial), groups)

    def forward():
        return torch.ops.aten.convolution(x, w, None, *rest)

    if kind == "forward":
        return forward, seconds
    y = tensor(*forward().shape)
    mask = [kind == "input_grad", kind == "weight_grad", False]
    return (
        lambda: torch.ops.aten.convolution_backward(y, x, w, None, *rest, mask),
        seconds,
    )


def measure(run, seconds):
    """Returns the median of a few runs, without the first run unless that is
    long."""
    times, begin = [], time.thread_time()
    while True:
        start = time.thread_time()
        run()
        times.append(time.thread_time() - start)
        spent = time.thread_time() - begin
        if spent >= (seconds if len(times) >= 3 else 10 * seconds):
            break
    return statistics.median(times[1:] or times) * 1000


def main():
    torch.set_num_threads(1)
    with torch.no_grad():
        for line in sys.stdin:
            print(measure(*make(line, sys.argv[1])), flush=True)


if __name__ == "__main__":
    main()
