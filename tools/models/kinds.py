"""Small models for tests only, in PyTorch, with parts that no model of
families.py has: scattered gates, unrolled scans, relative positions,
straight-through estimators, contrastive losses and others.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses
import typing

from families import Array
from kind_modules import (
    BatchStatistics,
    Capsules,
    Decays,
    Experts,
    Flow,
    Fourier,
    GraphAttention,
    Pairs,
    PointCloud,
    Quantizer,
    RadianceField,
    Rotations,
    Scales,
    Siamese,
    SparseFeatures,
    Splines,
    StateSpace,
    Styles,
    Tagger,
    WaveNet,
    Windows,
)
from torch.nn import functional


@dataclasses.dataclass
class Kind:
    make: typing.Callable
    inputs: dict
    labels: Array | None
    # mpc's name of the loss. A loss that the model computes has no labels.
    loss: str = "softmax_cross_entropy"
    batch: int = 4
    # True if only the current exporter keeps the stops of gradients.
    stops: bool = False

    def compute_loss(self, scores, labels):
        if labels is None:
            return scores
        if self.loss == "mse":
            return functional.mse_loss(scores, labels.to(scores.dtype))
        # Classes are along axis 1 of sequences, along the last axis of nodes.
        return functional.cross_entropy(scores, labels)


KINDS = {
    "experts": Kind(Experts, {"x": Array((6,))}, Array((), 3)),
    "statespace": Kind(StateSpace, {"x": Array((7, 4))}, Array((), 3)),
    "wavenet": Kind(WaveNet, {"x": Array((2, 20))}, Array((20,), 5)),
    "capsules": Kind(Capsules, {"x": Array((5, 4))}, Array((), 3)),
    "radiancefield": Kind(
        RadianceField,
        {"place": Array((3,)), "direction": Array((3,))},
        *(Array((4,)), "mse"),
    ),
    "pointcloud": Kind(PointCloud, {"points": Array((3, 12))}, Array((), 4), batch=8),
    "siamese": Kind(
        Siamese,
        {"first": Array((6,)), "second": Array((6,)), "alike": Array((), 2)},
        *(None, "output:loss"),
    ),
    "quantizer": Kind(
        *(Quantizer, {"image": Array((1, 8, 8))}, None, "output:loss"), stops=True
    ),
    "windows": Kind(Windows, {"image": Array((8, 8, 6))}, Array((), 4)),
    "graphattention": Kind(
        GraphAttention,
        {"nodes": Array((6, 4)), "edges": Array((6, 6), 2)},
        *(Array((6, 3)), "mse"),
    ),
    "sparsefeatures": Kind(SparseFeatures, {"x": Array((6,))}, Array((), 3)),
    "flow": Kind(Flow, {"x": Array((4,))}, None, "output:loss"),
    "tagger": Kind(
        Tagger,
        {"words": Array((6, 5)), "tags": Array((6,), 3)},
        *(None, "output:loss"),
        stops=True,
    ),
    "splines": Kind(Splines, {"x": Array((4,))}, Array((2,)), "mse"),
    "styles": Kind(
        Styles, {"code": Array((5,))}, Array((3, 4, 4)), "mse", stops=True
    ),
    "fourier": Kind(Fourier, {"x": Array((6, 8))}, Array((), 3), stops=True),
    "pairs": Kind(
        Pairs,
        {"image": Array((2, 4, 4)), "words": Array((5,), 9)},
        *(None, "output:loss"),
    ),
    "rotations": Kind(Rotations, {"ids": Array((7,), 9)}, Array((), 4)),
    "decays": Kind(Decays, {"x": Array((8, 6))}, Array((8, 6)), "mse", stops=True),
    "batchstatistics": Kind(
        BatchStatistics, {"image": Array((2, 6, 6))}, Array((), 3), batch=8
    ),
    "scales": Kind(Scales, {"x": Array((5, 4))}, Array((3,)), "mse"),
}
