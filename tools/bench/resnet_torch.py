"""ResNet-50 in PyTorch: writes it as ONNX, or prints the milliseconds of each
training step.

    resnet_torch.py export FILE.onnx
    resnet_torch.py {eager|compiled} {fp32|bf16} WARM_UP STEPS THREADS

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import json
import sys
import time

import torch
import torchvision

BATCH, SIZE, CLASSES = 16, 224, 1000


def export(path):
    model = torchvision.models.resnet50(weights=None).eval()
    torch.onnx.export(
        model,
        torch.rand(BATCH, 3, SIZE, SIZE),
        path,
        input_names=["image"],
        output_names=["scores"],
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        dynamo=False,
    )


def time_steps(how, precision, warm_up, steps, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = torchvision.models.resnet50(weights=None).train()
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=1e-3, momentum=0.9, foreach=True
    )
    x = torch.rand(BATCH, 3, SIZE, SIZE)
    x = x.to(memory_format=torch.channels_last)
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


def main():
    if sys.argv[1] == "export":
        return export(sys.argv[2])
    return time_steps(*sys.argv[1:3], *map(int, sys.argv[3:6]))


if __name__ == "__main__":
    main()
