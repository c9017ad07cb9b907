"""A training step of standard ops only is recognised. It writes the gradients
of convolutions as a transposed convolution and as a product with gathered
windows.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
from onnx import TensorProto

import mpctest
from step_graphs import (
    BATCH,
    CLASSES,
    CONSTANTS,
    LOSS,
    RATE,
    SGD,
    SPELT_LOSS_GRAD,
    STEPS,
    node,
    train,
)


FILTERS = {"c1": (6, 1, 3, 3), "c2": (8, 6, 3, 3), "fc": (8, CLASSES)}
SPELT_CONVOLUTIONS = [
    node("Conv", ["image", "c1"], ["h1"], pads=[1, 1, 1, 1]),
    node("Relu", ["h1"], ["a1"]),
    node("Conv", ["a1", "c2"], ["h2"], pads=[1, 1, 1, 1]),
    node("Relu", ["h2"], ["a2"]),
    node("GlobalAveragePool", ["a2"], ["pooled"]),
    node("Flatten", ["pooled"], ["flat"]),
    node("MatMul", ["flat", "fc"], ["logits"]),
]


def relu_mask(a, gradient, result):
    return [
        node("Greater", [a, "zero"], [a + "_positive"]),
        node("Cast", [a + "_positive"], [a + "_mask"], to=TensorProto.FLOAT),
        node("Mul", [gradient, a + "_mask"], [result]),
    ]


def filter_gradient(x, dy, w):
    """Returns a product with the windows of x, which two Gathers read."""
    return [
        node("Pad", [x, "pads"], [w + "_padded"]),
        node("Gather", [w + "_padded", "taps"], [w + "_rows"], axis=2),
        node("Gather", [w + "_rows", "taps"], [w + "_all"], axis=4),
        node(
            "Transpose", [w + "_all"], [w + "_turned"], perm=[1, 2, 4, 0, 3, 5]
        ),
        node("Reshape", [w + "_turned", w + "_windows"], [w + "_columns"]),
        node("Transpose", [dy], [w + "_last"], perm=[0, 2, 3, 1]),
        node("Reshape", [w + "_last", w + "_outputs"], [w + "_dy"]),
        node("MatMul", [w + "_columns", w + "_dy"], [w + "_product"]),
        node("Transpose", [w + "_product"], [w + "_first"], perm=[1, 0]),
        node("Reshape", [w + "_first", w + "_shape"], [w + "_grad"]),
    ]


SPELT_CONVOLUTION_GRADIENTS = (
    SPELT_LOSS_GRAD[:4]
    + [
        node("Transpose", ["flat"], ["flat_t"], perm=[1, 0]),
        node("MatMul", ["flat_t", "logits_grad"], ["fc_grad"]),
        node("Transpose", ["fc"], ["fc_t"], perm=[1, 0]),
        node("MatMul", ["logits_grad", "fc_t"], ["flat_grad"]),
        node("Div", ["flat_grad", "pixels"], ["pixel_grad"]),
        node("Unsqueeze", ["pixel_grad", "spatial"], ["pooled_grad"]),
        node("Expand", ["pooled_grad", "image_shape"], ["a2_grad"]),
    ]
    + relu_mask("a2", "a2_grad", "h2_grad")
    + filter_gradient("a1", "h2_grad", "c2")
    + [node("ConvTranspose", ["h2_grad", "c2"], ["a1_grad"], pads=[1, 1, 1, 1])]
    + relu_mask("a1", "a1_grad", "h1_grad")
    + filter_gradient("image", "h1_grad", "c1")
)


def spelt_optimizer_end(p):
    return [
        node("Mul", ["rate", p + "_grad"], [p + "_optimizer_move"]),
        node("Sub", [p, p + "_optimizer_move"], [p + "_optimizer_end"]),
    ]


def test_convolutions_of_standard_ops_train_as_the_forward_model(tmp_path):
    arrays = np.load(mpctest.DIGITS / "digits-train.npz")
    count = BATCH * STEPS
    image = arrays["image"][:count].astype(np.float32) / 16
    labels = arrays["target"][:count].astype(np.int64)
    random = np.random.RandomState(13)
    filters = {
        k: (random.standard_normal(shape) / 3).astype(np.float32)
        for k, shape in FILTERS.items()
    }
    integers = {
        "pads": [0, 0, 1, 1, 0, 0, 1, 1],
        "taps": np.arange(3)[:, None] + np.arange(8),
        "spatial": [2, 3],
        "image_shape": [BATCH, 8, 8, 8],
    }
    for name, (outputs, inputs, *window) in list(FILTERS.items())[:2]:
        integers[name + "_windows"] = [inputs * 9, BATCH * 64]
        integers[name + "_outputs"] = [BATCH * 64, outputs]
        integers[name + "_shape"] = [outputs, inputs, *window]
    tensors = {
        **{k: np.array(v, np.int64) for k, v in integers.items()},
        **{k: CONSTANTS[k] for k in ("depth", "on_off", "batch")},
        **{"zero": np.float32(0), "pixels": np.float32(64)},
        **{"rate": np.float32(RATE)},
        **filters,
    }
    update = [n for p in FILTERS for n in spelt_optimizer_end(p)]
    inputs = {"image": (np.float32, [BATCH, 1, 8, 8])}
    model = mpctest.make_model(
        SPELT_CONVOLUTIONS + [LOSS] + SPELT_CONVOLUTION_GRADIENTS + update,
        {**inputs, "labels": (np.int64, [BATCH])},
        {
            "loss": (np.float32, []),
            **{p + "_optimizer_end": (np.float32, FILTERS[p]) for p in FILTERS},
        },
        tensors,
    )
    forward = mpctest.make_model(
        SPELT_CONVOLUTIONS,
        inputs,
        {"logits": (np.float32, [BATCH, CLASSES])},
        filters,
    )
    data = {"image": image, "labels": labels}
    losses, weights = train(model, data, tmp_path / "step", rate=None)
    expected, trained = train(
        forward,
        {"image": image, "target": labels},
        tmp_path / "forward",
        *("--loss", "softmax_cross_entropy", *SGD),
    )
    np.testing.assert_allclose(losses, expected, rtol=5e-6)
    for name, start in filters.items():
        assert np.abs(weights[name] - start).max() > 1e-3
        np.testing.assert_allclose(
            weights[name], trained[name], rtol=1e-4, atol=1e-6
        )


