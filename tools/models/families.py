"""The model families that mpc is made for, in PyTorch. Sizes: `tiny` for tests,
`small` to learn something in minutes, `full` as published, `gpu` as published
but without dropout, in batches that keep a GPU busy.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import importlib
import typing

import torch
from torch import nn
from torch.nn import functional

#
# Language
#


class GPT2Block(nn.Module):
    """One product makes queries, keys and values. Norms come before the layers,
    as in GPT-2."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.attention_norm = nn.LayerNorm(width)
        self.inputs = nn.Linear(width, 3 * width)
        self.outputs = nn.Linear(width, width)
        self.layer_norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def attend(self, x):
        batch, tokens, width = x.shape
        parts = self.inputs(x).split(width, dim=2)
        query, key, value = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in parts
        )
        mixed = functional.scaled_dot_product_attention(
            *(query, key, value),
            is_causal=True,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.outputs(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def drop(self, x):
        return functional.dropout(x, self.dropout, self.training)

    def forward(self, x):
        x = x + self.drop(self.attend(self.attention_norm(x)))
        wide = functional.gelu(
            self.widen(self.layer_norm(x)), approximate="tanh"
        )
        return x + self.drop(self.narrow(wide))


class GPT2(nn.Module):
    """Maps ids [batch, tokens] to scores [batch, tokens, vocabulary]. The last
    product uses the table of words too."""

    def __init__(self, vocabulary, width, heads, layers, context, dropout):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            GPT2Block(width, heads, dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for table in (self.words, self.positions):
            nn.init.normal_(table.weight, std=0.02)
        self.head.weight = self.words.weight

    def forward(self, ids):
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.words(ids) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class BERT(nn.Module):
    """Maps ids, segments and a mask [batch, tokens] to scores [batch, classes].
    The mask hides keys where it is 0."""

    def __init__(self, vocabulary, width, heads, layers, context, dropout):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            *(width, heads, 4 * width, dropout, "gelu"), batch_first=True
        )
        self.encoder = nn.TransformerEncoder(
            layer, layers, enable_nested_tensor=False
        )
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 2)

    def forward(self, ids, segments, mask):
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        x = self.words(ids) + self.positions(positions)
        x = self.dropout(self.norm(x + self.segments(segments)))
        x = self.encoder(x, src_key_padding_mask=mask == 0)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class LSTMLanguageModel(nn.Module):
    """Maps ids [batch, tokens] to scores [batch, tokens, vocabulary]."""

    def __init__(self, vocabulary, width, layers, dropout):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(
            *(width, width, layers), batch_first=True, dropout=dropout
        )
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x, _ = self.lstm(self.dropout(self.words(ids)))
        return self.head(self.dropout(x))


#
# Images
#


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
            *(nn.Flatten(), nn.Linear(400, 120), nn.Tanh()),
            *(nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
        )

    def forward(self, image):
        return self.layers(image)


class MLP(nn.Module):
    """Maps images of `inputs` pixels to scores [batch, 10]."""

    def __init__(self, inputs, width):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU()),
            *(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)),
        )

    def forward(self, image):
        return self.layers(image)


class ViT(nn.Module):
    """Maps images [batch, 3, size, size] to scores [batch, classes]."""

    def __init__(self, size, patch, width, heads, layers, classes, dropout):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        count = (size // patch) ** 2 + 1
        self.positions = nn.Parameter(torch.randn(1, count, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            *(width, heads, 4 * width, dropout, "gelu"),
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            layer, layers, nn.LayerNorm(width), enable_nested_tensor=False
        )
        self.head = nn.Linear(width, classes)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        token = self.token.expand(x.shape[0], -1, -1)
        x = torch.cat([token, x], 1) + self.positions
        return self.head(self.encoder(x)[:, 0])


def convolve_twice(inputs, outputs):
    layers = []
    for channels in (inputs, outputs):
        layers += [
            nn.Conv2d(channels, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Maps images [batch, 3, size, size] to scores [batch, 2, size, size]. The
    upward path begins with transposed convolutions and ends with bilinear
    upsampling."""

    def __init__(self, channels, depth):
        super().__init__()
        sizes = [channels * 2**level for level in range(depth + 1)]
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(
            convolve_twice(*pair) for pair in zip([3] + sizes[:-1], sizes)
        )
        self.up, self.join = nn.ModuleList(), nn.ModuleList()
        for level in reversed(range(depth)):
            small, large = sizes[level], sizes[level + 1]
            self.up.append(
                nn.ConvTranspose2d(large, small, 2, 2)
                if level > 0
                else nn.Sequential(
                    nn.Upsample(
                        scale_factor=2, mode="bilinear", align_corners=True
                    ),
                    nn.Conv2d(large, small, 1),
                )
            )
            self.join.append(convolve_twice(large, small))
        self.head = nn.Conv2d(channels, 2, 1)

    def forward(self, image):
        kept, x = [], image
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level > 0 else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


#
# Recommendation
#


class DLRM(nn.Module):
    """Maps numbers [batch, 13] and ids [table, batch, k] to a score [batch, 1]:
    sums of k rows of each table, and the products of all pairs of sums."""

    def __init__(self, tables, rows, width, layers):
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)
        )
        self.bottom = self.stack([13, *layers, width])
        count = tables + 1
        pairs = count * (count - 1) // 2
        self.top = self.stack([width + pairs, *reversed(layers)])
        self.head = nn.Linear(layers[0], 1)
        left, right = torch.tril_indices(count, count, -1)
        self.register_buffer("left", left)
        self.register_buffer("right", right)

    @staticmethod
    def stack(sizes):
        layers = []
        for inputs, outputs in zip(sizes, sizes[1:]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, numbers, ids):
        x = self.bottom(numbers)
        rows = [table(ids[i]) for i, table in enumerate(self.tables)]
        all = torch.stack([x, *rows], 1)
        products = (all @ all.transpose(1, 2))[:, self.left, self.right]
        return self.head(self.top(torch.cat([x, products], 1)))


#
# The table
#


@dataclasses.dataclass
class Array:
    """One sample of an input or of the labels: floats, or integers below
    `high`."""

    shape: tuple
    high: int | None = None
    # The position of the batch axis.
    axis: int = 0


@dataclasses.dataclass
class Family:
    make: typing.Callable
    inputs: dict
    labels: Array
    batch: int
    # mpc's name of the loss.
    loss: str = "softmax_cross_entropy"

    def compute_loss(self, scores, labels):
        if self.loss == "bce_with_logits":
            return functional.binary_cross_entropy_with_logits(
                scores, labels.to(scores.dtype)
            )
        if scores.ndim == 3:  # [batch, tokens, vocabulary]
            scores, labels = scores.flatten(0, 1), labels.flatten()
        return functional.cross_entropy(scores, labels)


def text(vocabulary, tokens):
    return {"ids": Array((tokens,), vocabulary)}, Array((tokens,), vocabulary)


def image(size, classes, channels=3):
    return {"image": Array((channels, size, size))}, Array((), classes)


def gpt2(batch, tokens, *sizes, dropout):
    return Family(
        lambda: GPT2(*sizes, tokens, dropout), *text(sizes[0], tokens), batch
    )


def bert(batch, tokens, *sizes, dropout):
    inputs = {
        "ids": Array((tokens,), sizes[0]),
        "segments": Array((tokens,), 2),
        "mask": Array((tokens,), 2),
    }
    return Family(
        lambda: BERT(*sizes, tokens, dropout), inputs, Array((), 2), batch
    )


def lstm(batch, tokens, vocabulary, *sizes, dropout):
    return Family(
        lambda: LSTMLanguageModel(vocabulary, *sizes, dropout),
        *text(vocabulary, tokens),
        batch,
    )


def vit(batch, size, *sizes, classes, dropout):
    return Family(
        lambda: ViT(size, *sizes, classes, dropout),
        *image(size, classes),
        batch,
    )


def unet(batch, size, *sizes):
    return Family(
        lambda: UNet(*sizes),
        {"image": Array((3, size, size))},
        Array((size, size), 2),
        batch,
    )


def dlrm(batch, tables, rows, *sizes, each):
    inputs = {
        "numbers": Array((13,)),
        "ids": Array((tables, each), rows, axis=1),
    }
    return Family(
        lambda: DLRM(tables, rows, *sizes),
        inputs,
        Array((1,), None),
        batch,
        loss="bce_with_logits",
    )


def vision_models():
    """Imports the vision models on demand: a machine that times transformers
    may have only PyTorch."""
    return importlib.import_module("torchvision").models


def vision(name, batch, size, classes):
    return Family(
        lambda: getattr(vision_models(), name)(num_classes=classes),
        *image(size, classes),
        batch,
    )


def narrow_resnet50(batch, size, classes):
    """Has all 50 layers, but 3 x 3 layers have a quarter of the channels: 8
    million parameters instead of 23."""
    def make():
        models = vision_models()
        return models.ResNet(
            *(models.resnet.Bottleneck, [3, 4, 6, 3]),
            num_classes=classes,
            width_per_group=16,
        )

    return Family(make, *image(size, classes), batch)


def narrow_alexnet(batch, size, classes, width):
    """AlexNet with `width` outputs instead of 4096 in the two large layers
    behind its convolutions."""

    def make():
        model = vision_models().alexnet(num_classes=classes)
        model.classifier[1] = nn.Linear(256 * 6 * 6, width)
        model.classifier[4] = nn.Linear(width, width)
        model.classifier[6] = nn.Linear(width, classes)
        return model

    return Family(make, *image(size, classes), batch)


def mlp(batch, size, width):
    return Family(
        lambda: MLP(size * size, width), *image(size, 10, channels=1), batch
    )


def lenet(batch):
    return Family(LeNet, *image(32, 10, channels=1), batch)


FAMILIES = {
    "alexnet": {
        "small": lambda: narrow_alexnet(32, 64, 10, 512),
        "full": lambda: vision("alexnet", 32, 224, 1000),
    },
    "bert": {
        "tiny": lambda: bert(4, 8, 29, 16, 2, 2, dropout=0.0),
        "small": lambda: bert(16, 64, 1000, 128, 4, 4, dropout=0.1),
        "full": lambda: bert(8, 128, 30522, 768, 12, 12, dropout=0.1),
        "gpu": lambda: bert(32, 512, 30522, 768, 12, 12, dropout=0.0),
    },
    "dlrm": {
        "tiny": lambda: dlrm(4, 3, 20, 8, [16], each=2),
        "small": lambda: dlrm(128, 8, 1000, 16, [64, 32], each=4),
        "full": lambda: dlrm(128, 26, 100_000, 64, [512, 256], each=1),
    },
    "gpt2": {
        "tiny": lambda: gpt2(4, 8, 29, 16, 2, 2, dropout=0.0),
        "small": lambda: gpt2(8, 64, 256, 128, 4, 4, dropout=0.1),
        "full": lambda: gpt2(4, 256, 50257, 768, 12, 12, dropout=0.1),
        "gpu": lambda: gpt2(16, 512, 50257, 768, 12, 12, dropout=0.0),
        "gpu_long": lambda: gpt2(32, 1024, 50257, 768, 12, 12, dropout=0.0),
    },
    "lenet": {"small": lambda: lenet(32), "full": lambda: lenet(32)},
    "lstm": {
        "tiny": lambda: lstm(4, 8, 29, 16, 2, dropout=0.0),
        "small": lambda: lstm(16, 35, 256, 128, 2, dropout=0.2),
        "full": lambda: lstm(20, 35, 10000, 650, 2, dropout=0.5),
    },
    "mlp": {
        "small": lambda: mlp(64, 8, 256),
        "full": lambda: mlp(256, 28, 2048),
        "gpu": lambda: mlp(4096, 28, 4096),
    },
    "mobilenet_v2": {
        "small": lambda: vision("mobilenet_v2", 32, 32, 10),
        "full": lambda: vision("mobilenet_v2", 32, 224, 1000),
    },
    "resnet50": {
        "small": lambda: narrow_resnet50(32, 32, 10),
        "full": lambda: vision("resnet50", 16, 224, 1000),
        "gpu": lambda: vision("resnet50", 64, 224, 1000),
        "gpu_256": lambda: vision("resnet50", 256, 224, 1000),
        "gpu_1280": lambda: vision("resnet50", 1280, 224, 1000),
    },
    "unet": {
        "tiny": lambda: unet(4, 16, 4, 2),
        "small": lambda: unet(8, 64, 16, 3),
        "full": lambda: unet(2, 256, 64, 4),
    },
    "vit": {
        "tiny": lambda: vit(4, 16, 4, 16, 2, 2, classes=10, dropout=0.0),
        "small": lambda: vit(32, 32, 8, 128, 4, 4, classes=10, dropout=0.1),
        "full": lambda: vit(
            8, 224, 16, 768, 12, 12, classes=1000, dropout=0.1
        ),
        "gpu": lambda: vit(
            64, 224, 16, 768, 12, 12, classes=1000, dropout=0.0
        ),
    },
}
