"""ResNet-50 in PyTorch: writes it as ONNX, or prints the milliseconds of each
training step.

    resnet_torch.py export FILE.onnx
    resnet_torch.py {eager|compiled} {fp32|bf16} WARM_UP STEPS THREADS

SPDX-License-Identifier: Apache-2.0
"""

import torch
import torch_steps
import torchvision

BATCH, SIZE, CLASSES = 16, 224, 1000


def export(path):
    torch_steps.export(
        torchvision.models.resnet50(weights=None).eval(),
        torch.rand(BATCH, 3, SIZE, SIZE),
        path,
        ["image", "scores"],
        training=torch.onnx.TrainingMode.PRESERVE,
    )


def time_steps():
    arguments = torch_steps.parse_arguments()
    model = torchvision.models.resnet50(weights=None).train()
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=1e-3, momentum=0.9, foreach=True
    )
    x = torch.rand(BATCH, 3, SIZE, SIZE)
    x = x.to(memory_format=torch.channels_last)
    target = torch.randint(CLASSES, (BATCH,))
    torch_steps.print_times(*arguments, model, optimizer, x, target)


if __name__ == "__main__":
    torch_steps.main(export, time_steps)
