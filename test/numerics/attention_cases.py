"""Cases of attention, rotary embeddings, and the norms of transformer models.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

from case import add, normal, positive


# Norms.
def unit(x, axes, epsilon):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)


def layer_norm(x, scale, bias=0.0, axis=-1, epsilon=1e-5):
    axes = tuple(range(axis % x.ndim, x.ndim))
    return unit(x, axes, epsilon) * scale + bias


def rms_norm(x, scale, axis=-1, epsilon=1e-5):
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + epsilon) * scale


def per_channel(values, rank):
    return values.reshape(-1, *[1] * (rank - 2))


def instance_norm(x, scale, bias, epsilon=1e-5):
    y = unit(x, tuple(range(2, x.ndim)), epsilon)
    return y * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


def group_norm(x, scale, bias, num_groups, epsilon=1e-5):
    apart = x.reshape(x.shape[0], num_groups, -1)
    y = unit(apart, (2,), epsilon).reshape(x.shape)
    count = x.shape[1] // len(scale)
    scale, bias = np.repeat(scale, count), np.repeat(bias, count)
    return y * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


for name, shape, scaled, attributes in (
    ("rows", (5, 37), (37,), {}),
    ("last_two", (3, 4, 19), (4, 19), {"axis": -2, "epsilon": 2.0**-10}),
    ("all", (2, 3, 4), (2, 3, 4), {"axis": 0}),
    # The scale covers the last axis only, and the mean covers two axes.
    ("spread", (3, 4, 19), (19,), {"axis": 1}),
):
    terms = int(np.prod(shape[attributes.get("axis", -1) % len(shape) :]))
    arguments = {"x": normal(*shape), "scale": positive(*scaled)}
    add(
        *(f"layer_norm_{name}", "LayerNormalization"),
        {**arguments, "bias": normal(*scaled)},
        layer_norm,
        attributes=attributes,
        terms=8 * terms,
        magnitude=8,
    )
    add(
        *(f"rms_norm_{name}", "RMSNormalization", arguments, rms_norm),
        attributes=attributes,
        opset=23,
        terms=8 * terms,
        magnitude=8,
    )
add(
    *("layer_norm_without_bias", "LayerNormalization"),
    {"x": normal(5, 37), "scale": positive(37)},
    layer_norm,
    terms=8 * 37,
    magnitude=8,
)
add(
    *("instance_norm", "InstanceNormalization"),
    {"x": normal(2, 3, 5, 6), "scale": positive(3), "bias": normal(3)},
    instance_norm,
    terms=8 * 30,
    magnitude=8,
)
for opset, count in ((18, 3), (21, 6)):
    add(
        *(f"group_norm_opset{opset}", "GroupNormalization"),
        {
            "x": normal(2, 6, 5, 3),
            "scale": positive(count),
            "bias": normal(count),
        },
        group_norm,
        attributes={"num_groups": 3},
        opset=opset,
        terms=8 * 30,
        magnitude=8,
    )


# Attention.
def split(x, heads):
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attention(
    q,
    k,
    v,
    mask=None,
    past_key=None,
    past_value=None,
    q_num_heads=None,
    kv_num_heads=None,
    scale=None,
    is_causal=0,
    softcap=0.0,
):
    rank, q = q.ndim, split(q, q_num_heads)
    k, v = split(k, kv_num_heads), split(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past:
        k = np.concatenate((past_key, k), 2)
        v = np.concatenate((past_value, v), 2)
    shared = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, shared, 1), np.repeat(v, shared, 1)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * q @ k.swapaxes(2, 3)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    seen = np.ones(scores.shape, bool)
    if mask is not None:
        hidden = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask
        missing = scores.shape[-1] - hidden.shape[-1]
        widths = [(0, 0)] * (hidden.ndim - 1) + [(0, missing)]
        hidden = np.pad(hidden, widths, constant_values=-np.inf)
        seen &= hidden != -np.inf
        scores = scores + np.where(hidden == -np.inf, 0, hidden)
    if is_causal:
        seen &= np.tril(np.ones(scores.shape[2:], bool), past)
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ v
    return y if rank == 4 else y.swapaxes(1, 2).reshape(len(y), y.shape[2], -1)


# Every query sees at least one key.
SEEN = normal(5, 7) > -0.5
SEEN[:, 0] = True
QKV = {"q": normal(2, 4, 5, 8), "k": normal(2, 4, 7, 8), "v": normal(2, 4, 7, 6)}
GROUPED = {**QKV, "k": normal(2, 2, 7, 8), "v": normal(2, 2, 7, 6)}
HIDDEN = {"q": normal(2, 5, 32), "k": normal(2, 7, 16), "v": normal(2, 7, 12)}
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}
for name, arguments, attributes in (
    ("plain", QKV, {}),
    ("scaled", QKV, {"scale": 0.75}),
    ("turned", QKV, {"scale": -0.25}),
    ("causal", QKV, {"is_causal": 1}),
    ("capped", QKV, {"softcap": 1.5}),
    ("capped_and_causal", QKV, {"softcap": 1.5, "is_causal": 1}),
    ("capped_and_masked", {**QKV, "mask": SEEN}, {"softcap": 1.5}),
    ("capped_bias", {**QKV, "mask": normal(4, 5, 7)}, {"softcap": 1.5}),
    (
        "capped_short_bias",
        {**QKV, "mask": normal(2, 1, 5, 6)},
        {"softcap": 1.5, "is_causal": 1},
    ),
    ("masked", {**QKV, "mask": SEEN}, {}),
    ("masked_heads", {**QKV, "mask": normal(4, 5, 7)}, {}),
    ("short_mask", {**QKV, "mask": normal(2, 1, 5, 6)}, {}),
    ("masked_and_causal", {**QKV, "mask": SEEN}, {"is_causal": 1}),
    ("grouped", GROUPED, {}),
    ("grouped_masked", {**GROUPED, "mask": normal(2, 4, 5, 7)}, {}),
    ("grouped_causal", GROUPED, {"is_causal": 1}),
    ("hidden", HIDDEN, HEADS),
    (
        "past",
        {
            **HIDDEN,
            "mask": normal(5, 10),
            "past_key": normal(2, 2, 3, 8),
            "past_value": normal(2, 2, 3, 6),
        },
        {**HEADS, "is_causal": 1},
    ),
):
    add(
        *(f"attention_{name}", "Attention", arguments, attention),
        attributes=attributes,
        opset=23,
        terms=64,
        contraction=2,
        magnitude=32,
    )


# Rotary embeddings.
def rotate(
    x, cosine, sine, ids=None, interleaved=0, rotary_embedding_dim=0, num_heads=0
):
    rank, x = x.ndim, split(x, num_heads)
    turned = rotary_embedding_dim or x.shape[-1]
    if ids is not None:
        cosine, sine = cosine[ids], sine[ids]
    cosine, sine = cosine[:, None], sine[:, None]
    y = x.copy()
    first = slice(0, turned, 2) if interleaved else slice(0, turned // 2)
    second = (
        slice(1, turned, 2) if interleaved else slice(turned // 2, turned)
    )
    y[..., first] = cosine * x[..., first] - sine * x[..., second]
    y[..., second] = sine * x[..., first] + cosine * x[..., second]
    return y if rank == 4 else y.swapaxes(1, 2).reshape(len(y), y.shape[2], -1)


ANGLES = {"cosine": normal(9, 4), "sine": normal(9, 4)}
IDS = {"ids": np.array([[3, 0, 8, 1, 1], [7, 5, 2, 0, 6]], np.int64)}
for name, arguments, attributes in (
    ("table", {"x": normal(2, 3, 5, 8), **ANGLES, **IDS}, {}),
    ("pairs", {"x": normal(2, 3, 5, 8), **ANGLES, **IDS}, {"interleaved": 1}),
    (
        "part",
        {"x": normal(2, 3, 5, 11), **ANGLES, **IDS},
        {"rotary_embedding_dim": 8},
    ),
    (
        "part_of_pairs",
        {"x": normal(2, 5, 33), **ANGLES, **IDS},
        {"rotary_embedding_dim": 8, "interleaved": 1, "num_heads": 3},
    ),
    (
        "own_angles",
        {"x": normal(2, 3, 5, 8), "cosine": normal(2, 5, 4), "sine": normal(2, 5, 4)},
        {},
    ),
):
    add(
        *(f"rotary_{name}", "RotaryEmbedding", arguments, rotate),
        attributes=attributes,
        opset=23,
        terms=4,
        magnitude=16,
    )
