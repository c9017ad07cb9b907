"""Writes models with both exporters of PyTorch whose programs drop values by
their own masks, not by nn.Dropout.

    make_masks.py    (needs tools/models/requirements.txt and timm)

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

import torch
from timm.layers import DropPath
from torch import nn
from torchvision.ops import StochasticDepth

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "families"))
from make_families import strip  # noqa: E402

KEEP = 0.75


class Floor(nn.Module):
    """timm's form before DropPath, still used in EfficientNet."""

    def forward(self, x):
        mask = (KEEP + torch.rand(x.shape[0], 1, 1, 1)).floor()
        return x / KEEP * mask


class Compare(nn.Module):
    def forward(self, x):
        return x * (torch.rand_like(x) > 1 - KEEP).float() / KEEP


class Choose(nn.Module):
    def forward(self, x):
        return torch.where(torch.rand_like(x) < KEEP, x / KEEP, 0.0)


class Noise(nn.Module):
    """The file does not show the model without its noise."""

    def forward(self, x):
        return x + 0.5 * torch.randn_like(x)


class Unscaled(nn.Module):
    """No scale compensates for the dropped values."""

    def forward(self, x):
        return x * torch.bernoulli(torch.full_like(x, KEEP))


class Masked(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 1)
        self.mask = mask
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        x = self.first(x)
        return self.last((x + self.mask(x.tanh())).mean((2, 3)))


MASKS = {
    "drop-path": DropPath(1 - KEEP),
    "stochastic-depth": StochasticDepth(1 - KEEP, "row"),
    "stochastic-depth-batch": StochasticDepth(1 - KEEP, "batch"),
    "dropout-2d": nn.Dropout2d(1 - KEEP),
    "alpha-dropout": nn.AlphaDropout(1 - KEEP),
    "feature-alpha-dropout": nn.FeatureAlphaDropout(1 - KEEP),
    "floor": Floor(),
    "compare": Compare(),
    "choose": Choose(),
    "noise": Noise(),
    "unscaled": Unscaled(),
}
# TorchScript cannot express these.
DYNAMO_ONLY = ("dropout-2d", "alpha-dropout", "feature-alpha-dropout")


def main():
    for name, mask in MASKS.items():
        torch.manual_seed(0)
        module = Masked(mask).train()
        x = (torch.randn(4, 2, 2, 2),)
        names = {"input_names": ["x"], "output_names": ["y"]}
        if name not in DYNAMO_ONLY:
            path = HERE / f"{name}-torchscript.onnx"
            torch.onnx.export(
                *(module, x, path),
                **names,
                dynamo=False,
                opset_version=17,
                training=torch.onnx.TrainingMode.TRAINING,
                do_constant_folding=False,
            )
            strip(path)
        for optimize in (False, True):
            path = HERE / f"{name}-dynamo{'-optimized' * optimize}.onnx"
            torch.onnx.export(
                *(module, x, path),
                **names,
                dynamo=True,
                opset_version=18,
                optimize=optimize,
                external_data=False,
            )
            strip(path)


if __name__ == "__main__":
    main()
