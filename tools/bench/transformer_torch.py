"""A small language model in PyTorch: writes it as ONNX, or prints the
milliseconds of each training step.

    transformer_torch.py export FILE.onnx [LAYERS]
    transformer_torch.py {eager|compiled} {fp32|bf16} WARM_UP STEPS THREADS

SPDX-License-Identifier: Apache-2.0
"""

import torch
import torch_steps

LAYERS, WIDTH, HEADS, VOCABULARY, BATCH, TOKENS = 4, 768, 12, 8192, 8, 128
# The last opset without LayerNormalization: norms and GELU are primitive ops.
OPSET = 16


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (
            torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)
        )

    def split_heads(self, x):
        return x.view(BATCH, TOKENS, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        parts = (self.query(x), self.key(x), self.value(x))
        mixed = torch.nn.functional.scaled_dot_product_attention(
            *map(self.split_heads, parts)
        )
        return self.output(mixed.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.norms = torch.nn.ModuleList(
            torch.nn.LayerNorm(WIDTH) for _ in range(2)
        )
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH),
            torch.nn.GELU(),
            torch.nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.layers(self.norms[1](x))


class Model(torch.nn.Module):
    """Maps ids to scores of every word: [BATCH * TOKENS, VOCABULARY]."""

    def __init__(self, layers=LAYERS):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(layers)))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.norm(self.blocks(self.words(ids)))
        return self.head(x).flatten(0, 1)


def export(path, layers=LAYERS):
    torch.manual_seed(0)
    torch_steps.export(
        Model(int(layers)),
        torch.randint(VOCABULARY, (BATCH, TOKENS)),
        path,
        ["ids", "scores"],
        training=torch.onnx.TrainingMode.TRAINING,
        opset_version=OPSET,
    )


def time_steps():
    arguments = torch_steps.parse_arguments()
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(VOCABULARY, (BATCH, TOKENS))
    target = torch.randint(VOCABULARY, (BATCH * TOKENS,))
    torch_steps.print_times(*arguments, model, optimizer, ids, target)


if __name__ == "__main__":
    torch_steps.main(export, time_steps)
