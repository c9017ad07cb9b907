"""Writes a causal attention with both exporters of PyTorch, for contexts whose
mask exceeds mpc's limit of folding.

    make_causal.py    (needs tools/models/requirements.txt)

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "families"))
from make_families import strip  # noqa: E402

WIDTH, HEADS = 4, 2


class Attention(nn.Module):
    """PyTorch's own attention, which the exporters decompose."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        query, key, value = (
            part.view(batch, tokens, HEADS, -1).transpose(1, 2)
            for part in self.inputs(x).split(WIDTH, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True
        )
        return mixed.transpose(1, 2).reshape(batch, tokens, WIDTH)


class Compared(Attention):
    """Compares positions, as Hugging Face's models do."""

    def forward(self, x):
        batch, tokens, _ = x.shape
        query, key, value = (
            part.view(batch, tokens, HEADS, -1).transpose(1, 2)
            for part in self.inputs(x).split(WIDTH, dim=2)
        )
        places = torch.arange(tokens)
        scores = query @ key.transpose(2, 3)
        scores = scores.masked_fill(places > places[:, None], -torch.inf)
        mixed = scores.softmax(3) @ value
        return mixed.transpose(1, 2).reshape(batch, tokens, WIDTH)


def main():
    torch.manual_seed(0)
    names = {"input_names": ["x"], "output_names": ["y"]}
    for tokens in (512, 2048):
        x = (torch.randn(1, tokens, WIDTH),)
        path = HERE / f"attention-{tokens}-torchscript.onnx"
        torch.onnx.export(
            *(Attention(), x, path),
            **names,
            dynamo=False,
            opset_version=17,
            do_constant_folding=False,
        )
        strip(path)
        # TorchScript computes the comparison and writes its elements to the
        # file.
        for kind in (Attention, Compared):
            path = HERE / f"{kind.__name__.lower()}-{tokens}-dynamo.onnx"
            torch.onnx.export(
                *(kind(), x, path),
                **names,
                dynamo=True,
                opset_version=18,
                optimize=False,
                external_data=False,
            )
            strip(path)


if __name__ == "__main__":
    main()
