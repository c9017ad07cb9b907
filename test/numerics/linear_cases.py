"""Cases of linear attention, which carries a state from step to step, and of
the causal convolution before it.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

import reference
from case import add, normal, positive

BATCH, STEPS, KEY_HEADS, KEY_SIZE, VALUE_SIZE = 2, 6, 2, 4, 3


def heads(x, count):
    """Returns [batch, steps, count * size] as [batch, count, steps, size]."""
    return np.moveaxis(x.reshape(*x.shape[:2], count, -1), 2, 1)


def linear_attention(
    query,
    key,
    value,
    past_state=None,
    decay=None,
    beta=None,
    q_num_heads=1,
    kv_num_heads=1,
    update_rule="gated_delta",
    scale=0.0,
):
    """Follows the specification's recurrence step by step."""
    group = q_num_heads // kv_num_heads
    q = heads(query, q_num_heads)
    k, v = heads(key, kv_num_heads), heads(value, kv_num_heads)
    scale = scale or 1 / np.sqrt(q.shape[-1])
    state = np.zeros((len(q), kv_num_heads, k.shape[-1], v.shape[-1]))
    if past_state is not None:
        state = past_state
    outputs = []
    for i in range(query.shape[1]):
        if update_rule.startswith("gated"):
            gate = heads(decay, kv_num_heads)[:, :, i, :, None]
            state = state * np.exp(gate)
        written = v[:, :, i]
        if update_rule.endswith("delta"):
            known = np.einsum("bhkv,bhk->bhv", state, k[:, :, i])
            rate = heads(beta, beta.shape[-1])[:, :, i]
            written = rate * (written - known)
        state = state + k[:, :, i, :, None] * written[:, :, None, :]
        read = np.repeat(state, group, axis=1)
        outputs.append(scale * np.einsum("bhk,bhkv->bhv", q[:, :, i], read))
    return np.stack(outputs, 1).reshape(*query.shape[:2], -1)


def unit(x, count):
    """Normalises keys to length 1, as the delta rules require."""
    each = x.reshape(*x.shape[:2], count, -1)
    return (each / np.linalg.norm(each, axis=-1, keepdims=True)).reshape(x.shape)


def gates(last):
    return normal(BATCH, STEPS, last)


# Inputs follow the node's order: a rule without a gate omits that gate and all
# inputs behind it.
for name, rule, queries, decays, betas, attributes in (
    ("linear", "linear", 2, 0, 0, {}),
    ("gated_heads", "gated", 2, KEY_HEADS, 0, {"scale": 0.5}),
    ("gated_keys", "gated", 4, KEY_HEADS * KEY_SIZE, 0, {}),
    ("gated_delta", "gated_delta", 4, KEY_HEADS, KEY_HEADS, {"chunk_size": 2}),
    ("gated_delta_one_rate", "gated_delta", 2, KEY_HEADS * KEY_SIZE, 1, {}),
):
    arguments = {
        "query": normal(BATCH, STEPS, queries * KEY_SIZE),
        "key": unit(normal(BATCH, STEPS, KEY_HEADS * KEY_SIZE), KEY_HEADS),
        "value": normal(BATCH, STEPS, KEY_HEADS * VALUE_SIZE),
    }
    if decays:
        arguments["past"] = normal(BATCH, KEY_HEADS, KEY_SIZE, VALUE_SIZE)
        arguments["decay"] = -np.abs(gates(decays))
    if betas:
        arguments["beta"] = 1 / (1 + np.exp(-gates(betas)))

    def reference_of(*inputs, chunk_size=64, **options):
        return linear_attention(*inputs, **options)

    add(
        f"linear_attention_{name}",
        "LinearAttention",
        arguments,
        reference_of,
        attributes={
            "update_rule": rule,
            "q_num_heads": queries,
            "kv_num_heads": KEY_HEADS,
            **attributes,
        },
        opset=27,
        terms=STEPS * KEY_SIZE,
        # Products with the state, and with queries.
        contraction=2,
        magnitude=16,
    )


def swish(x, alpha=1.0):
    return x / (1 + np.exp(-alpha * x))


def causal_conv(x, weight, bias=None, past=None, activation="none"):
    """Convolves depthwise, over positions up to each one."""
    size = weight.shape[2] - 1
    before = np.zeros((*x.shape[:2], size)) if past is None else past
    y = reference.conv(
        np.concatenate([before, x], 2), weight, bias, group=x.shape[1]
    )
    return y if activation == "none" else swish(y)


for name, length, size, extra, attributes in (
    ("zeros", 7, 3, (), {}),
    ("bias", 7, 4, ("bias",), {"activation": "silu"}),
    ("past", 7, 4, ("bias", "past"), {"activation": "swish"}),
    # There are fewer positions than the past has.
    ("short", 2, 4, ("bias", "past"), {}),
    ("point", 5, 1, ("bias",), {}),
):
    arguments = {"x": normal(2, 5, length), "weight": normal(5, 1, size)}
    if "bias" in extra:
        arguments["bias"] = normal(5)
    if "past" in extra:
        arguments["past"] = normal(2, 5, size - 1)
    add(
        f"causal_conv_{name}",
        "CausalConvWithState",
        arguments,
        causal_conv,
        attributes=attributes,
        opset=27,
        terms=size + 1,
        contraction=1,
        magnitude=16,
    )

for name, attributes in (("", {}), ("_steep", {"alpha": 1.75})):
    add(
        f"swiglu{name}",
        "SwiGLU",
        {"a": normal(4, 9), "b": positive(4, 9)},
        lambda a, b, alpha=1.0: swish(a, alpha) * b,
        attributes=attributes,
        opset=28,
        magnitude=8,
    )
