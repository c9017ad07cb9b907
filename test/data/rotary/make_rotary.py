"""Writes rotary embeddings in the forms of PyTorch's models by both exporters,
with the settings of tools/models/export.py and with default settings.

    make_rotary.py    (needs tools/models/requirements.txt)

Each model rotates queries and keys and multiplies them. models.npz has the
inputs and PyTorch's results, in float64.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import pathlib
import sys

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).parent
sys.path += [str(HERE.parent / "families"), str(HERE.parents[2] / "tools" / "models")]
from export import export  # noqa: E402
from make_families import strip  # noqa: E402

BATCH, TOKENS, HEADS, SIZE = 2, 6, 3, 8


def invert_frequencies(size):
    return 1.0 / (10000 ** (torch.arange(0, size, 2).float() / size))


class Model(nn.Module):
    """Queries and keys of all heads, rotated."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(HEADS * SIZE, HEADS * SIZE, bias=False)
        self.key = nn.Linear(HEADS * SIZE, HEADS * SIZE, bias=False)

    def split(self, x):
        shape = x.shape[0], x.shape[1], HEADS, SIZE
        return [layer(x).view(shape) for layer in (self.query, self.key)]


def rotate_half(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


class LlamaTables(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer(
            "inv_freq", invert_frequencies(size), persistent=False
        )

    def forward(self, x, ids):
        inverse = self.inv_freq[None, :, None].float()
        inverse = inverse.expand(ids.shape[0], -1, 1)
        freqs = (inverse @ ids[:, None, :].float()).transpose(1, 2)
        angles = torch.cat((freqs, freqs), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def turn_llama(x, cosine, sine):
    cosine, sine = cosine.unsqueeze(1), sine.unsqueeze(1)
    return (x * cosine) + (rotate_half(x) * sine)


class Llama(Model):
    def __init__(self, size=SIZE):
        super().__init__()
        self.tables = LlamaTables(size)
        self.size = size

    def forward(self, x, ids=None):
        query, key = (part.transpose(1, 2) for part in self.split(x))
        if ids is None:
            ids = torch.arange(x.shape[1]).unsqueeze(0)
        tables = self.tables(x, ids)
        query, key = self.turn(query, tables), self.turn(key, tables)
        return query @ key.transpose(2, 3)

    def turn(self, x, tables):
        return turn_llama(x, *tables)


class NeoX(Llama):
    """Rotates a part of each row."""

    def __init__(self):
        super().__init__(SIZE // 2)

    def turn(self, x, tables):
        front, rest = x[..., : self.size], x[..., self.size :]
        return torch.cat((turn_llama(front, *tables), rest), dim=-1)


def rotate_every_two(x):
    first, second = x[:, :, :, ::2], x[:, :, :, 1::2]
    return torch.stack((-second, first), dim=-1).flatten(-2)


def turn_gptj(x, sine, cosine):
    sine = torch.repeat_interleave(sine[:, :, None, :], 2, 3)
    cosine = torch.repeat_interleave(cosine[:, :, None, :], 2, 3)
    return (x * cosine) + (rotate_every_two(x) * sine)


class GPTJ(Model):
    def __init__(self, size=SIZE):
        super().__init__()
        self.size = size
        angles = torch.outer(torch.arange(16).float(), invert_frequencies(size))
        self.register_buffer(
            "positions",
            torch.cat((angles.sin(), angles.cos()), dim=1),
            persistent=False,
        )

    def forward(self, x):
        query, key = self.split(x)
        ids = torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape[0], -1)
        tables = self.positions.repeat(ids.shape[0], 1, 1)
        rows = ids.unsqueeze(-1).repeat(1, 1, tables.shape[-1])
        both = torch.gather(tables, 1, rows)
        sine, cosine = torch.split(both, both.shape[-1] // 2, dim=-1)
        query, key = (
            self.turn(part, sine, cosine).permute(0, 2, 1, 3)
            for part in (query, key)
        )
        return query @ key.transpose(2, 3)

    def turn(self, x, sine, cosine):
        if self.size == SIZE:
            return turn_gptj(x, sine, cosine)
        front, rest = x[..., : self.size], x[..., self.size :]
        return torch.cat((turn_gptj(front, sine, cosine), rest), dim=-1)


class PartOfGPTJ(GPTJ):
    def __init__(self):
        super().__init__(SIZE // 2)


class Complex(Model):
    """Complex numbers, as in Meta's Llama."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(
            torch.arange(TOKENS).float(), invert_frequencies(SIZE)
        )
        self.register_buffer(
            "turns",
            torch.polar(torch.ones_like(angles), angles),
            persistent=False,
        )

    def forward(self, x):
        query, key = (self.turn(part).transpose(1, 2) for part in self.split(x))
        return query @ key.transpose(2, 3)

    def turn(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        turned = pairs * self.turns.view(1, TOKENS, 1, SIZE // 2)
        return torch.view_as_real(turned).flatten(3)


class Pairs(Complex):
    """Like `Complex` in real numbers, as in torchtune."""

    def __init__(self):
        super().__init__()
        self.turns = torch.view_as_real(self.turns)

    def turn(self, x):
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        turns = self.turns.view(1, TOKENS, 1, SIZE // 2, 2)
        turned = torch.stack(
            [
                pairs[..., 0] * turns[..., 0] - pairs[..., 1] * turns[..., 1],
                pairs[..., 1] * turns[..., 0] + pairs[..., 0] * turns[..., 1],
            ],
            -1,
        )
        return turned.flatten(3)


class Halves(Model):
    def __init__(self):
        super().__init__()
        angles = torch.outer(
            torch.arange(TOKENS).float(), invert_frequencies(SIZE)
        )
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, x):
        query, key = (self.turn(part.transpose(1, 2)) for part in self.split(x))
        return query @ key.transpose(2, 3)

    def turn(self, x):
        a, b = x.chunk(2, -1)
        return torch.cat(
            [a * self.cosine - b * self.sine, b * self.cosine + a * self.sine],
            -1,
        )


MODELS = {
    "llama": Llama,
    "llama_ids": Llama,
    "neox": NeoX,
    "gptj": GPTJ,
    "gptj_part": PartOfGPTJ,
    "complex": Complex,
    "pairs": Pairs,
    "halves": Halves,
}


def main():
    arrays = {}
    for name, make in MODELS.items():
        torch.manual_seed(0)
        module = make()
        inputs = {
            "x": np.random.RandomState(1)
            .standard_normal([BATCH, TOKENS, HEADS * SIZE])
            .astype(np.float32)
        }
        if name == "llama_ids":
            inputs["ids"] = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
        tensors = [torch.from_numpy(array) for array in inputs.values()]
        arrays.update({f"{name}.{key}": a for key, a in inputs.items()})
        arrays[f"{name}.scores"] = module(*tensors).detach().numpy()
        for exporter, opset in (("torchscript", 17), ("dynamo", 18)):
            if name == "complex" and exporter == "torchscript":
                continue  # the exporter has no complex numbers
            path = HERE / f"{name}-{exporter}-{opset}.onnx"
            export(copy.deepcopy(module), inputs, path, exporter, opset)
            strip(path)
            path = HERE / f"{name}-{exporter}-folded.onnx"
            options = {"dynamo": exporter == "dynamo"}
            if options["dynamo"]:
                options["external_data"] = False
            torch.onnx.export(
                copy.deepcopy(module).eval(),
                tuple(tensors),
                path,
                input_names=list(inputs),
                output_names=["scores"],
                **options,
            )
            strip(path)
    np.savez_compressed(HERE / "models.npz", **arrays)


if __name__ == "__main__":
    main()
