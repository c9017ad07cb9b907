"""One PyTorch contender of mlp_bench.py: prints the milliseconds of each step.

    mlp_torch.py {eager|compiled} {fp32|bf16} WARM_UP STEPS THREADS

SPDX-License-Identifier: Apache-2.0
"""

import torch
import torch_steps

LAYERS, WIDTH, CLASSES, BATCH = 4, 2048, 10, 256


def make_model():
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, CLASSES))


def main():
    arguments = torch_steps.parse_arguments()
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.rand(BATCH, WIDTH)
    target = torch.randint(CLASSES, (BATCH,))
    torch_steps.print_times(*arguments, model, optimizer, x, target)


if __name__ == "__main__":
    main()
