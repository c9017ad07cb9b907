"""The fused ops of ONNX Runtime's optimizer compute the same as in ONNX
Runtime.

SPDX-License-Identifier: Apache-2.0
"""

import dataclasses

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import mpctest

MICROSOFT = "com.microsoft"
BATCH, TOKENS, SIZE, HEADS = 2, 5, 12, 3


@dataclasses.dataclass
class Case:
    op: str
    # By position; None is an absent input.
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    # The outputs to compare.
    outputs: tuple = (0,)


def normal(*shape):
    random = np.random.RandomState(sum(shape))
    return random.standard_normal(shape).astype(np.float32)


def ids(high, *shape):
    return np.random.RandomState(high).randint(0, high, shape).astype(np.int32)


def int32(*values):
    return np.array(values, np.int32)


X = normal(BATCH, TOKENS, SIZE)
SKIP = normal(BATCH, TOKENS, SIZE) * 0.5
SCALE, SHIFT, BIAS = normal(SIZE), normal(SIZE) - 1, normal(SIZE) + 1
KEYS = normal(BATCH, 7, SIZE)
WEIGHTS, BIASES = normal(SIZE, 3 * SIZE), normal(3 * SIZE)
SEEN = np.ones([BATCH, TOKENS], np.int32)
SEEN[0, 3:] = 0
PAIRS = np.tril(np.ones([BATCH, TOKENS, TOKENS], np.int32))
SCORES = normal(1, HEADS, TOKENS, TOKENS)
ANGLES = np.outer(np.arange(9), 0.5 ** np.arange(2)).astype(np.float32)
EMBEDDED = [
    ids(11, BATCH, TOKENS),
    ids(2, BATCH, TOKENS),
    normal(11, SIZE),
    normal(8, SIZE),
    normal(2, SIZE),
    SCALE,
    SHIFT,
]
NUM_HEADS = {"num_heads": HEADS}
PAST = 3
PAST_KEYS = normal(BATCH, HEADS, PAST, SIZE // HEADS)
PAST_VALUES = PAST_KEYS - 1
ALL_SEEN = np.ones([BATCH, PAST + TOKENS], np.int32)
ALL_SEEN[1, 2:4] = 0
IMAGE, FILTER = normal(2, 3, 6, 6), normal(4, 3, 3, 3)
CONV = [IMAGE, FILTER, normal(4)]
ADDED = normal(2, 4, 6, 6)
PADS = {"pads": [1, 1, 1, 1]}
# Four heads of 16 queries share two heads of keys and values.
GROUPS = {"num_heads": 4, "kv_num_heads": 2}
Q, K, V = normal(BATCH, TOKENS, 64), normal(BATCH, TOKENS, 32), normal(BATCH, TOKENS, 33)[..., 1:]
WHOLE = [np.full(BATCH, TOKENS - 1, np.int32), np.array(TOKENS, np.int32)]
GROUPED = [Q, K, V, None, None, *WHOLE]
TURNS = np.outer(np.arange(9), 0.5 ** np.arange(8)).astype(np.float32)
TURNED = [*GROUPED, np.cos(TURNS), np.sin(TURNS)]
GROUP_PAST = [normal(BATCH, 2, PAST, 16), normal(BATCH, 2, PAST, 16) + 1]
# Each sample has one new token behind its past.
DECODED = [
    *(Q[:, :1], K[:, :1], V[:, :1], *GROUP_PAST),
    *(np.full(BATCH, PAST, np.int32), np.array(PAST + 1, np.int32)),
    *(np.cos(TURNS), np.sin(TURNS)),
]
SKIP_NORM = {"epsilon": 1e-5}
CASES = {
    "skip_layer_norm": Case(
        "SkipLayerNormalization", [X, SKIP, SCALE, SHIFT], SKIP_NORM
    ),
    "skip_layer_norm_with_bias_and_sum": Case(
        "SkipLayerNormalization",
        [X, SKIP, SCALE, SHIFT, BIAS],
        SKIP_NORM,
        (0, 3),
    ),
    "skip_layer_norm_of_one_skip": Case(
        "SkipLayerNormalization", [X, SKIP[:1], SCALE, SHIFT], SKIP_NORM
    ),
    "skip_rms_norm": Case(
        "SkipSimplifiedLayerNormalization",
        [X, SKIP, SCALE, BIAS],
        SKIP_NORM,
        (0, 3),
    ),
    "embed_layer_norm": Case("EmbedLayerNormalization", EMBEDDED),
    "embed_layer_norm_with_mask": Case(
        "EmbedLayerNormalization",
        [*EMBEDDED, SEEN],
        {"epsilon": 1e-5},
        (0, 1),
    ),
    "embed_layer_norm_without_segments": Case(
        "EmbedLayerNormalization",
        [EMBEDDED[0], None, *EMBEDDED[2:4], None, *EMBEDDED[5:]],
    ),
    "attention": Case("Attention", [X, WEIGHTS, BIASES], NUM_HEADS),
    "attention_with_padding": Case(
        "Attention", [X, WEIGHTS, BIASES, SEEN], NUM_HEADS
    ),
    "attention_of_lengths": Case(
        "Attention", [X, WEIGHTS, BIASES, int32(3, 5)], NUM_HEADS
    ),
    "attention_with_mask_of_pairs": Case(
        "Attention", [X, WEIGHTS, BIASES, PAIRS], NUM_HEADS
    ),
    "attention_causal": Case(
        "Attention", [X, WEIGHTS, BIASES], {**NUM_HEADS, "unidirectional": 1}
    ),
    "attention_with_the_number_of_a_mask_that_is_not_there": Case(
        "Attention",
        [X, WEIGHTS, BIASES],
        {**NUM_HEADS, "mask_filter_value": -5.0},
    ),
    "attention_with_bias_of_scores": Case(
        "Attention",
        [X, WEIGHTS, BIASES, None, None, SCORES],
        {**NUM_HEADS, "scale": 0.3},
    ),
    "multi_head_attention": Case(
        "MultiHeadAttention", [X, KEYS, KEYS - 1], NUM_HEADS
    ),
    "multi_head_attention_with_bias": Case(
        "MultiHeadAttention", [X, SKIP, SKIP, BIASES], NUM_HEADS
    ),
    "multi_head_attention_with_padding": Case(
        "MultiHeadAttention", [X, SKIP, SKIP, None, SEEN], NUM_HEADS
    ),
    "multi_head_attention_causal": Case(
        "MultiHeadAttention",
        [X, SKIP, SKIP],
        {**NUM_HEADS, "unidirectional": 1},
    ),
    "attention_of_ends_and_starts": Case(
        "Attention", [X, WEIGHTS, BIASES, int32(3, 5, 1, 0)], NUM_HEADS
    ),
    "attention_behind_a_past": Case(
        "Attention",
        [X, WEIGHTS, BIASES, None, np.stack([PAST_KEYS, PAST_VALUES])],
        {**NUM_HEADS, "unidirectional": 1},
        (0, 1),
    ),
    "attention_with_padding_in_the_past": Case(
        "Attention",
        [X, WEIGHTS, BIASES, ALL_SEEN, np.stack([PAST_KEYS, PAST_VALUES])],
        NUM_HEADS,
        (0, 1),
    ),
    "multi_head_attention_behind_a_past": Case(
        "MultiHeadAttention",
        [X, SKIP, SKIP, BIASES, ALL_SEEN, None, PAST_KEYS, PAST_VALUES],
        NUM_HEADS,
        (0, 1, 2),
    ),
    "multi_head_attention_behind_a_past_causal": Case(
        "MultiHeadAttention",
        [X, SKIP, SKIP, None, None, None, PAST_KEYS, PAST_VALUES],
        {**NUM_HEADS, "unidirectional": 1},
        (0, 1, 2),
    ),
    "multi_head_attention_of_heads": Case(
        "MultiHeadAttention", [X, PAST_KEYS, PAST_VALUES, BIASES], NUM_HEADS
    ),
    "multi_head_attention_of_lengths_and_places": Case(
        "MultiHeadAttention",
        [X, SKIP, SKIP, None, int32(3, 5, 0, 5, 10, 0, 5, 10)],
        NUM_HEADS,
    ),
    "multi_head_attention_gives_its_keys": Case(
        "MultiHeadAttention", [X, SKIP, SKIP], NUM_HEADS, (0, 1, 2)
    ),
    "group_query_attention": Case(
        "GroupQueryAttention", GROUPED, GROUPS, (0, 1, 2)
    ),
    "group_query_attention_packed": Case(
        "GroupQueryAttention",
        [np.concatenate([Q, K, V], -1), None, None, None, None, *WHOLE],
        {**GROUPS, "scale": 0.3},
        (0, 1, 2),
    ),
    "group_query_attention_of_one_head_each": Case(
        "GroupQueryAttention",
        [Q, Q - 1, Q + 1, None, None, *WHOLE],
        {"num_heads": 4, "kv_num_heads": 4},
        (0, 1, 2),
    ),
    "group_query_attention_capped": Case(
        "GroupQueryAttention",
        [*GROUPED, None, None, None, normal(1, 4, TOKENS, TOKENS)],
        {**GROUPS, "softcap": 0.5},
        (0, 1, 2),
    ),
    "group_query_attention_in_a_window": Case(
        "GroupQueryAttention",
        GROUPED,
        {**GROUPS, "local_window_size": 2},
        (0, 1, 2),
    ),
    "group_query_attention_smooth": Case(
        "GroupQueryAttention", GROUPED, {**GROUPS, "smooth_softmax": 1}, (0, 1, 2)
    ),
    "group_query_attention_smooth_behind_a_past": Case(
        "GroupQueryAttention",
        DECODED[:7],
        {**GROUPS, "local_window_size": 2, "smooth_softmax": 1},
        (0, 1, 2),
    ),
    "group_query_attention_smooth_with_a_bias": Case(
        "GroupQueryAttention",
        [*GROUPED, None, None, None, normal(1, 4, TOKENS, TOKENS)],
        {**GROUPS, "smooth_softmax": 1},
        (0, 1, 2),
    ),
    "group_query_attention_turned": Case(
        "GroupQueryAttention",
        TURNED,
        {**GROUPS, "do_rotary": 1},
        (0, 1, 2),
    ),
    "group_query_attention_turned_interleaved": Case(
        "GroupQueryAttention",
        TURNED,
        {**GROUPS, "do_rotary": 1, "rotary_interleaved": 1},
        (0, 1, 2),
    ),
    "group_query_attention_from_a_position_on": Case(
        "GroupQueryAttention",
        [*TURNED, np.tile(np.arange(3, 3 + TOKENS), [BATCH, 1])],
        {**GROUPS, "do_rotary": 1},
        (0, 1, 2),
    ),
    "group_query_attention_behind_a_past": Case(
        "GroupQueryAttention",
        DECODED,
        {**GROUPS, "do_rotary": 1},
        (0, 1, 2),
    ),
    "group_query_attention_in_a_window_of_the_past": Case(
        "GroupQueryAttention",
        DECODED[:7],
        {**GROUPS, "local_window_size": 2},
        (0, 1, 2),
    ),
    "fused_conv": Case("FusedConv", [*CONV], {**PADS, "activation": "Relu"}),
    "fused_conv_with_a_sum": Case(
        "FusedConv",
        [*CONV, ADDED],
        {**PADS, "activation": "LeakyRelu", "activation_params": [0.3]},
    ),
    "fused_conv_clipped": Case(
        "FusedConv",
        [*CONV],
        {"strides": [2, 2], "activation": "Clip", "activation_params": [-0.5, 0.7]},
    ),
    "fused_conv_hard_sigmoid": Case(
        "FusedConv",
        [*CONV],
        {**PADS, "activation": "HardSigmoid", "activation_params": [0.1, 0.6]},
    ),
    "fused_conv_tanh": Case("FusedConv", [*CONV], {"activation": "Tanh"}),
    "rotary_embedding": Case(
        "RotaryEmbedding",
        [X, ids(9, BATCH, TOKENS).astype(np.int64), np.cos(ANGLES), np.sin(ANGLES)],
    ),
    "rotary_embedding_from_a_position_on": Case(
        "RotaryEmbedding",
        [X, np.array([3]), np.cos(ANGLES), np.sin(ANGLES)],
        {"interleaved": 1},
    ),
    "fused_gemm": Case(
        "FusedGemm",
        [normal(4, 6), normal(3, 6), normal(3)],
        {"activation": "Relu", "transB": 1, "alpha": 0.5, "beta": 2.0},
    ),
    "fused_gemm_leaky": Case(
        "FusedGemm",
        [normal(4, 6), normal(6, 3), normal(3)],
        {"activation": "LeakyRelu", "activation_alpha": 0.2},
    ),
}


def make(case):
    inputs, initializers, names = {}, {}, []
    for i, array in enumerate(case.inputs):
        names.append("" if array is None else f"i{i}")
        if array is not None and i == 0:
            inputs["i0"] = (array.dtype, array.shape)
        elif array is not None:
            initializers[f"i{i}"] = array
    count = max(case.outputs) + 1
    outputs = [f"o{i}" if i in case.outputs else "" for i in range(count)]
    node = helper.make_node(
        case.op, names, outputs, domain=MICROSOFT, **case.attributes
    )
    kinds = {f"o{i}": (np.float32, None) for i in case.outputs}
    if case.op == "EmbedLayerNormalization" and 1 in case.outputs:
        kinds["o1"] = (np.int32, None)
    elif case.op == "EmbedLayerNormalization":
        # ONNX Runtime requires the output.
        node.output.append("mask_index")
    return mpctest.make_model([node], inputs, kinds, initializers)


def run_reference(model, inputs):
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


@pytest.mark.parametrize("name", CASES)
def test_computes_what_onnx_runtime_does(name, tmp_path):
    case = CASES[name]
    model = make(case)
    inputs = {"i0": case.inputs[0]}
    found = mpctest.run(model, inputs, tmp_path)
    for output, expected in run_reference(model, inputs).items():
        np.testing.assert_allclose(
            found[output], expected, rtol=1e-4, atol=1e-5
        )


def attend(query, key, value):
    """Attends with heads of [batch, tokens, SIZE] in float64."""
    heads = [
        x.astype(np.float64).reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)
        for x in (query, key, value)
    ]
    scores = heads[0] @ heads[1].swapaxes(2, 3) / (SIZE / HEADS) ** 0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ heads[2]
    return mixed.swapaxes(1, 2).reshape(*query.shape[:2], -1)


@pytest.mark.parametrize("packed", ["all", "keys and values"])
def test_packed_heads_are_taken_apart(packed, tmp_path):
    """ONNX Runtime supports packed heads only on GPUs."""
    apart = [
        x.reshape(BATCH, TOKENS, HEADS, SIZE // HEADS)
        for x in (X, SKIP, SKIP - 1)
    ]
    inputs = (
        [np.stack(apart, 3), None, None, BIASES]
        if packed == "all"
        else [X, np.stack(apart[1:], 3), None, BIASES]
    )
    model = make(Case("MultiHeadAttention", inputs, NUM_HEADS))
    found = mpctest.run(model, {"i0": inputs[0]}, tmp_path)["o0"]
    expected = attend(*np.split(np.concatenate([X, SKIP, SKIP - 1], -1) + BIASES, 3, -1))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_bias_split_gelu_is_a_gate(tmp_path):
    """ONNX Runtime supports the op only on GPUs."""
    x, bias = normal(2, 3, 8), normal(8)
    model = make(Case("BiasSplitGelu", [x, bias]))
    found = mpctest.run(model, {"i0": x}, tmp_path)["o0"]
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    erf = np.vectorize(__import__("math").erf)
    expected = left * right * (1 + erf(right / np.sqrt(2))) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_fused_encoder_trains_as_its_parts(precision, tmp_path):
    """Compares fused attention and a fused norm of a sum with plain ONNX ops."""
    weights = {
        "w": WEIGHTS / 4,
        "b": BIASES / 4,
        "scale": np.ones(SIZE, np.float32),
        "shift": np.zeros(SIZE, np.float32),
    }
    fused = [
        helper.make_node(
            "Attention", ["x", "w", "b"], ["a"], domain=MICROSOFT, num_heads=1
        ),
        helper.make_node(
            "SkipLayerNormalization",
            ["a", "x", "scale", "shift"],
            ["y"],
            domain=MICROSOFT,
            epsilon=1e-5,
        ),
    ]
    parts = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["all"]),
        helper.make_node("Split", ["all"], ["q", "k", "v"], axis=2),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["qk"]),
        helper.make_node("Div", ["qk", "root"], ["s"]),
        helper.make_node("Softmax", ["s"], ["m"], axis=-1),
        helper.make_node("MatMul", ["m", "v"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["sum"]),
        helper.make_node(
            "LayerNormalization", ["sum", "scale", "shift"], ["y"], epsilon=1e-5
        ),
    ]
    data = {"x": X, "target": SKIP}
    trained = {}
    for name, nodes in (("fused", fused), ("parts", parts)):
        own = dict(weights)
        if name == "parts":
            own["root"] = np.float32(SIZE**0.5)
        shape = [BATCH, TOKENS, SIZE]
        model = mpctest.make_model(
            nodes, {"x": (np.float32, shape)}, {"y": (np.float32, shape)}, own
        )
        metrics, trained[name] = mpctest.train(
            model,
            data,
            tmp_path / name,
            *("--loss", "mse", "--optimizer", "sgd", "--lr", 0.5),
            *("--batch-size", BATCH, "--epochs", 4, "--precision", precision),
        )
        assert len(mpctest.losses(metrics)) == 4
    bound = 1e-5 if precision == "32-true" else 1e-2
    for name in weights:
        np.testing.assert_allclose(
            trained["fused"][name], trained["parts"][name], rtol=bound, atol=bound
        )
        assert not np.allclose(trained["fused"][name], weights[name])


@pytest.mark.parametrize(
    "case, message",
    [
        (
            Case("Attention", [X, WEIGHTS, BIASES, None, normal(2, 2, 3, 1, 5)], NUM_HEADS),
            "expected past keys and values of shape",
        ),
        (
            Case("Attention", [X, WEIGHTS, BIASES], {**NUM_HEADS, "do_rotary": 1}),
            "attribute 'do_rotary' is not supported; use RotaryEmbedding and",
        ),
        (
            Case("MultiHeadAttention", [X, SKIP, SKIP], NUM_HEADS, (0, 3)),
            "output 3, the scores, is not supported",
        ),
        (
            Case(
                "GroupQueryAttention", [*GROUPED, *[None] * 4, normal(3)], GROUPS
            ),
            "expected input 'head_sink' to hold one number for each of",
        ),
        (
            Case("GroupQueryAttention", GROUPED, {"num_heads": 4, "kv_num_heads": 3}),
            "expected attribute 'num_heads' to be a multiple of 'kv_num_heads'",
        ),
        (
            Case("GroupQueryAttention", GROUPED, {**GROUPS, "do_rotary": 1}),
            "expected inputs 7 and 8, cos_cache and sin_cache",
        ),
        (
            Case(
                "MultiHeadAttention",
                [X[:, :3], X, X],
                {**NUM_HEADS, "unidirectional": 1},
            ),
            "'unidirectional' is 1, found 5 keys and 3 queries",
        ),
        (
            Case("FusedConv", CONV, {"activation": "Elu"}),
            "activation 'Elu' is not known",
        ),
        (
            Case("Attention", [X, WEIGHTS, BIASES], {"num_heads": 5}),
            "5 heads do not divide the 12 elements of a token",
        ),
        (
            Case("MultiHeadAttention", [normal(2, 5, 3, 2, 4)], NUM_HEADS),
            "packed queries, keys and values of [batch, tokens, ",
        ),
        (
            Case("EmbedLayerNormalization", EMBEDDED[:1]),
            "expected input 3, the table of positions, found none",
        ),
        (
            Case(
                "RotaryEmbedding",
                [np.float32(1), *(np.zeros((1, 1), t) for t in (np.int64, "f4", "f4"))],
            ),
            "expected an input of rank 3 or 4",
        ),
        (
            Case("MultiHeadAttention", [X, SKIP, SKIP, normal(40)], NUM_HEADS),
            "expected a bias with an element for each column",
        ),
        (
            Case("FusedGemm", [normal(4, 6), normal(6, 3)], {"activation": "Other"}),
            "activation 'Other' is not known",
        ),
    ],
)
def test_what_is_not_supported_is_said(case, message, tmp_path):
    onnx.save(make(case), tmp_path / "model.onnx")
    process = mpctest.mpc("compile", tmp_path / "model.onnx", "--emit=import")
    assert process.returncode in (3, 4), process.stderr
    assert message in process.stderr
