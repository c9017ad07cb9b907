"""Lists the convolutions that tools/bench/convs times: those of the model
families, of widely trained networks, and odd ones.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import pathlib
import sys

FAMILIES = "alexnet,lenet,mobilenet_v2,resnet50,unet,vit"
# Larger inputs are timed with a batch of one image.
MOST_ELEMENTS = 1 << 18


@dataclasses.dataclass(frozen=True)
class Conv:
    inputs: int
    outputs: int
    spatial: tuple
    kernel: tuple
    strides: tuple
    dilations: tuple
    pads: tuple
    groups: int = 1
    batch: int = 4

    def __str__(self):
        def join(values):
            return "x".join(map(str, values))

        text = f"{self.inputs} to {self.outputs}, {join(self.kernel)}"
        if self.groups > 1:
            text += f", {self.groups} groups"
        if set(self.strides) != {1}:
            text += f", stride {join(self.strides)}"
        if set(self.dilations) != {1}:
            text += f", dilation {join(self.dilations)}"
        images = "image" if self.batch == 1 else "images"
        return f"{text}; {self.batch} {images} of {join(self.spatial)}"

    @property
    def line(self):
        """The words that mpc-conv-times reads after the seconds."""
        numbers = [len(self.kernel), self.batch, self.groups]
        numbers += [self.inputs, self.outputs, *self.spatial, *self.kernel]
        numbers += [*self.strides, *self.dilations, *self.pads]
        return " ".join(map(str, numbers))


def conv(inputs, outputs, spatial, kernel, stride=1, pad=None, dilation=1, **rest):
    """A number applies to all axes. By default images keep their size."""
    axes = max(len(v) if isinstance(v, tuple) else 2 for v in (spatial, kernel))

    def spread(value):
        return value if isinstance(value, tuple) else (value,) * axes

    kernel, dilation = spread(kernel), spread(dilation)
    if pad is None:
        pad = tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation))
    return Conv(
        *(inputs, outputs, spread(spatial), kernel, spread(stride)),
        *(dilation, spread(pad)),
        **rest,
    )


def depthwise(channels, spatial, kernel, stride=1, **rest):
    return conv(
        *(channels, channels, spatial, kernel, stride), groups=channels, **rest
    )


def list_network_convs():
    """Yields shapes of torchvision, timm and others."""
    yield from [  # ResNeXt-50: 32 groups
        conv(128, 128, 56, 3, groups=32),
        conv(256, 256, 56, 3, 2, groups=32),
        conv(512, 512, 14, 3, groups=32),
        conv(1024, 1024, 7, 3, groups=32),
    ]
    yield from [  # RegNet, ShuffleNet: other group sizes
        conv(120, 120, 28, 3, groups=5),
        conv(208, 208, 28, 3, 2, groups=13),
        conv(440, 440, 14, 3, groups=55),
    ]
    yield from [  # MobileNetV3 and EfficientNet-B0
        depthwise(16, 112, 3),
        depthwise(64, 112, 3, 2),
        depthwise(72, 56, 5, 2),
        depthwise(120, 28, 5),
        depthwise(480, 14, 3),
        depthwise(672, 14, 5),
        depthwise(960, 7, 5),
        depthwise(144, 56, 3, 2),
        conv(3, 32, 224, 3, 2),
    ]
    yield from [  # ConvNeXt
        depthwise(96, 56, 7),
        depthwise(384, 14, 7),
        depthwise(768, 7, 7),
        conv(3, 96, 224, 4, 4, 0),
        conv(96, 192, 56, 2, 2, 0),
    ]
    yield from [  # RepLKNet
        depthwise(128, 56, 31, batch=1),
        depthwise(256, 28, 29, batch=1),
        depthwise(512, 14, 27, batch=1),
        depthwise(512, 14, 13, batch=1),
    ]
    yield from [  # DeepLab
        conv(256, 64, 33, 3, dilation=rate, batch=1) for rate in (2, 4, 6, 12, 18)
    ]
    yield conv(512, 512, 33, 3, dilation=2, batch=1)
    yield depthwise(256, 33, 3, dilation=6, batch=1)
    yield from [  # U-Net; the gradients stand for transposed convolutions
        conv(1, 64, 256, 3, batch=1),
        conv(64, 64, 256, 3, batch=1),
        conv(128, 64, 128, 3, batch=1),
        conv(256, 512, 32, 3, batch=1),
        conv(64, 128, 128, 2, 2, 0, batch=1),
        conv(256, 512, 32, 2, 2, 0, batch=1),
    ]
    yield from [  # Generators: DCGAN; the gradients stand for transposed convolutions
        conv(3, 64, 64, 4, 2, 1, batch=8),
        conv(64, 128, 32, 4, 2, 1, batch=8),
        conv(256, 512, 8, 4, 2, 1, batch=8),
        conv(512, 100, 4, 4, 1, 0, batch=8),
        conv(32, 64, 64, 8, 4, 2, batch=1),
    ]
    yield from [  # Inception, VGG, YOLO
        conv(128, 128, 17, (1, 7)),
        conv(128, 192, 17, (7, 1)),
        conv(64, 96, 35, 3),
        conv(128, 128, 112, 3, batch=1),
        conv(512, 512, 14, 3),
        conv(3, 48, 320, 6, 2, 2, batch=1),
        conv(3, 16, 448, 3, batch=1),
    ]
    yield from [  # Patches
        conv(3, 768, 224, 16, 16, 0, batch=1),
        conv(3, 768, 224, 16, 16, 0, batch=8),
        conv(3, 384, 224, 14, 14, 0),
        conv(3, 64, 224, 7, 4, 3),
        conv(64, 128, 56, 3, 2),
    ]
    yield from [  # Videos and volumes
        conv(3, 64, (8, 112, 112), (3, 7, 7), (1, 2, 2), batch=1),
        conv(64, 64, (8, 56, 56), (3, 3, 3), batch=1),
        conv(64, 128, (8, 28, 28), (3, 3, 3), 2, batch=1),
        conv(16, 32, (32, 32, 32), (3, 3, 3), batch=1),
        conv(32, 64, (32, 32, 32), (2, 2, 2), 2, 0, batch=1),
        depthwise(64, (8, 28, 28), (3, 3, 3), batch=1),
        conv(3, 768, (16, 64, 64), (2, 16, 16), (2, 16, 16), 0, batch=1),
    ]
    yield from [  # Speech and other sequences
        conv(1, 512, (16000,), (10,), (5,), (0,), batch=1),
        conv(512, 512, (3199,), (3,), (2,), (0,), batch=1),
        conv(512, 512, (400,), (2,), (2,), (0,), batch=1),
        conv(768, 768, (149,), (128,), pad=(64,), groups=16, batch=1),
        conv(80, 384, (1500,), (3,), batch=1),
        conv(384, 384, (1500,), (3,), (2,), batch=1),
        depthwise(256, (400,), (31,)),
        conv(64, 128, (512,), (2,), pad=(16,), dilation=(16,)),
        conv(512, 512, (512,), (16,), (8,), (4,), batch=1),
    ]


def list_odd_convs():
    yield from [
        conv(8, 8, (64, 128), (3, 39), batch=2),
        conv(8, 8, (64, 128), (1, 31), batch=2),
        conv(16, 16, 56, 31, batch=2),
        conv(8, 8, 64, 31, dilation=2, batch=1),
        conv(3, 8, 96, 63, batch=1),
        conv(8, 8, 64, 63, batch=1),
        conv(32, 32, 64, 17, batch=1),
        conv(64, 64, 28, 15, batch=1),
        depthwise(64, 32, 31, batch=2),
        depthwise(32, 64, 63, batch=1),
        depthwise(32, 56, 31, dilation=2, batch=1),
        depthwise(64, 56, 9, 2, batch=1),
        conv(16, 24, 56, 11, 4, 2),
        conv(32, 48, 57, 3, 2, dilation=2),
        conv(64, 64, 56, 3, 2, dilation=3),
        conv(16, 16, 56, 5, 3, dilation=2),
        conv(30, 42, 29, 3, groups=6),
        conv(33, 55, 29, 3, 2, groups=11),
        conv(36, 54, 29, 5, groups=3, dilation=2),
        conv(24, 48, 28, 3, groups=24),
        conv(24, 48, 29, 3, 2, groups=24, dilation=2),
        conv(17, 19, 31, 3),
        conv(5, 7, 63, 5, 2),
        conv(1, 1, 128, 3),
        conv(1, 16, 128, 9, batch=1),
        conv(2, 2, (4096,), (255,), batch=1),
        conv(16, 16, 32, 2),
    ]


def list_family_convs():
    """Returns the shapes of the model families at full size, each once. The
    models run without memory to find them."""
    import torch
    from torch import nn

    sys.path.append(str(pathlib.Path(__file__).parents[1] / "models"))
    import export
    import families
    import numpy as np

    found = {}

    def note(module, inputs):
        x = inputs[0]
        batch = 4 if x[0].numel() <= MOST_ELEMENTS else 1
        outputs, per_group = module.out_channels, module.in_channels
        spatial = tuple(x.shape[2:])
        if isinstance(module, nn.ConvTranspose2d):
            # A transposed convolution is the gradient of a convolution of its
            # outputs.
            outputs, per_group = per_group, outputs
            spatial = tuple(
                (n - 1) * s - 2 * p + k
                for n, s, p, k in zip(
                    *(spatial, module.stride, module.padding, module.kernel_size)
                )
            )
        found[
            Conv(
                *(per_group, outputs, spatial, module.kernel_size, module.stride),
                *(module.dilation, module.padding, module.groups),
                batch,
            )
        ] = None

    for name in FAMILIES.split(","):
        family = families.FAMILIES[name]["full"]()
        with torch.device("meta"), torch.no_grad():
            model = family.make().train()
            for module in model.modules():
                if isinstance(module, nn.modules.conv._ConvNd):
                    module.register_forward_pre_hook(note)
            arrays = export.make_inputs(family, 4, np.random.RandomState(0))
            model(*(torch.from_numpy(a).to("meta") for a in arrays.values()))
    return list(found)


def is_strided_product(conv):
    """True for one tap with strides: a product of copied pixels, which
    mpc-conv-times does not support."""
    return set(conv.kernel) == {1} and set(conv.strides) != {1}


def list_quick_convs():
    """Returns a few quick shapes of each kind, for a test."""
    yield conv(16, 16, 14, 3)
    yield conv(8, 16, 14, 3, 2, groups=2, batch=1)
    yield depthwise(16, 14, 5)
    yield conv(16, 32, 14, 1)
    yield conv(4, 4, (32,), (15,), batch=1)


LISTS = {
    "families": list_family_convs,
    "networks": list_network_convs,
    "odd": list_odd_convs,
    "quick": list_quick_convs,
}


def list_convs(names):
    """Returns the shapes of all lists with the given names, each once."""
    convs = dict.fromkeys(c for name in names for c in LISTS[name]())
    return [c for c in convs if not is_strided_product(c)]
