"""One PyTorch contender of mlp_bench.py: prints the milliseconds of each step.

    mlp_torch.py {eager|compiled} {fp32|bf16} WARM_UP STEPS THREADS

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import json
import sys
import time

import torch

LAYERS, WIDTH, CLASSES, BATCH = 4, 2048, 10, 256


def make_model():
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, CLASSES))


def main():
    how, precision = sys.argv[1:3]
    warm_up, steps, threads = map(int, sys.argv[3:6])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.rand(BATCH, WIDTH)
    target = torch.randint(CLASSES, (BATCH,))

    def cast():
        if precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast("cpu", torch.bfloat16)

    def loss_of(x, target):
        with cast():
            return torch.nn.functional.cross_entropy(model(x), target)

    if how == "compiled":
        loss_of = torch.compile(loss_of)
    times = []
    for _ in range(warm_up + steps):
        begin = time.perf_counter()
        loss = loss_of(x, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        times.append((time.perf_counter() - begin) * 1000)
    print(json.dumps(times[warm_up:]))


if __name__ == "__main__":
    main()
