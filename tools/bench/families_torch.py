"""A model family in PyTorch: writes it and a batch as files, or prints the
milliseconds of each training step.

    families_torch.py export FAMILY SIZE FILE.onnx BATCH.npz
    families_torch.py {eager|compiled} {fp32|bf16} WARM_UP STEPS THREADS \\
        FAMILY SIZE {cpu|cuda}

SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import sys

import numpy as np
import torch
import torch_steps

sys.path.append(str(pathlib.Path(__file__).parents[1] / "models"))
import export as exporter  # noqa: E402
from families import FAMILIES  # noqa: E402


def make_batch(family):
    random = np.random.RandomState(0)
    inputs = exporter.make_inputs(family, family.batch, random)
    return inputs, exporter.make_labels(family, family.batch, random)


def export(name, size, model, data):
    """Prints, as JSON, the flags that mpc needs for the model."""
    family = FAMILIES[name][size]()
    torch.manual_seed(0)
    inputs, labels = make_batch(family)
    exporter.export(family.make(), inputs, model, "dynamo", 18)
    np.savez(data, **inputs, target=labels)
    axes = [
        f"{key}={array.axis}"
        for key, array in family.inputs.items()
        if array.axis != 0
    ]
    print(json.dumps({"batch": family.batch, "loss": family.loss, "axes": axes}))


def time_steps(name, size, device):
    arguments = torch_steps.parse_arguments()
    family = FAMILIES[name][size]()
    inputs, labels = make_batch(family)
    model = family.make().train().to(device)
    if device == "cuda" and any(array.ndim == 4 for array in inputs.values()):
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    torch_steps.print_times(
        *(*arguments, model, optimizer),
        tuple(map(torch.from_numpy, inputs.values())),
        torch.from_numpy(labels),
        family.compute_loss,
        device,
    )


if __name__ == "__main__":
    if sys.argv[1] == "export":
        export(*sys.argv[2:])
    else:
        time_steps(*sys.argv[6:])
