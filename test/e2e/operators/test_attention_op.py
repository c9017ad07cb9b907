"""Attention in primitive ops is recognised as one op with the same results,
forward and backward, in every precision. Covers masks, caps, guards and
dropout.

SPDX-License-Identifier: Apache-2.0
"""

import re

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

BATCH, HEADS, QUERIES, SIZE = 2, 3, 6, 8
SCORES = (BATCH, HEADS, QUERIES, QUERIES)
SEEN = np.random.RandomState(2).uniform(size=(BATCH, 1, QUERIES, QUERIES)) > 0.4
SEEN[..., 0] = True


class Spelling:
    """Sums attentions of one query, key and value. The method with an
    attention's name transforms its scores."""

    def __init__(self, *kinds, magnitude=1.0):
        random = np.random.RandomState(0)
        self.nodes = []
        self.weights = {
            f"w{part}": random.normal(scale=magnitude, size=(SIZE, SIZE)).astype(
                np.float32
            )
            for part in "qkv"
        }
        factors = [self.add("MatMul", "x", f"w{p}") for p in "qkv"]
        self.add("Sum", *(self.attend(kind, *factors) for kind in kinds))
        self.nodes[-1].output[0] = "y"

    def attend(self, kind, query, key, value):
        turned = self.add("Transpose", key, perm=[0, 1, 3, 2])
        scores = self.add("MatMul", query, turned)
        scores = self.add("Div", scores, self.number("size", SIZE**0.5))
        scores = getattr(self, kind)(scores)
        weights = self.add("Softmax", scores, axis=-1)
        if kind == "guarded":
            empty = self.add("IsNaN", weights)
            weights = self.add("Where", empty, self.number("zero", 0), weights)
        if kind == "dropped":
            self.weights["ratio"] = np.float32(0.25)
            self.weights["training"] = np.array(True)
            weights = self.add("Dropout", weights, "ratio", "training")
        return self.add("MatMul", weights, value)

    def add(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def number(self, name, value):
        name += str(len(self.nodes))
        self.weights[name] = np.array(value, np.float32)
        return name

    def model(self):
        shape = [BATCH, HEADS, QUERIES, SIZE]
        return mpctest.make_model(
            self.nodes,
            {"x": (np.float32, shape)},
            {"y": (np.float32, shape)},
            self.weights,
        )

    # Transformations of scores, by name.
    def plain(self, scores):
        return scores

    dropped = plain

    def chosen(self, scores):
        self.weights["chosen"] = SEEN
        return self.add("Where", "chosen", scores, self.number("low", -np.inf))

    def hidden_by_a_number(self, scores):
        self.weights["hidden"] = ~SEEN
        return self.add("Where", "hidden", self.number("low", -2.0), scores)

    def guarded(self, scores):
        self.weights["seen"] = SEEN & (np.arange(QUERIES) != 3)[:, None]
        return self.add("Where", "seen", scores, self.number("low", -np.inf))

    def biased(self, scores):
        """Adds a parameter, which has a gradient."""
        random = np.random.RandomState(3)
        bias = random.normal(size=(HEADS, QUERIES, QUERIES))
        self.weights["bias"] = bias.astype(np.float32)
        return self.add("Add", scores, "bias")

    def biased_and_masked(self, scores):
        """Adds the sum of two biases, as with relative positions and padding."""
        random = np.random.RandomState(3)
        bias = random.normal(size=(1, HEADS, QUERIES, QUERIES))
        self.weights["bias"] = bias.astype(np.float32)
        low = np.finfo(np.float32).min
        self.weights["padding"] = np.where(SEEN[:, :, :1], 0, low).astype(np.float32)
        scores = self.add("Cast", scores, to=onnx.TensorProto.FLOAT)
        return self.add("Add", scores, self.add("Add", "bias", "padding"))

    def biased_twice(self, scores):
        return self.add("Add", self.number("offset", 0.5), self.biased(scores))

    def causal(self, scores):
        self.weights["past"] = np.tril(np.ones((QUERIES, QUERIES), bool))
        low = self.number("low", np.finfo(np.float32).min)
        return self.add("Where", "past", scores, low)

    def capped(self, scores):
        cap = self.number("cap", 1.5)
        return self.add("Mul", self.add("Tanh", self.add("Div", scores, cap)), cap)


KINDS = (
    *("plain", "chosen", "hidden_by_a_number", "guarded", "biased"),
    *("biased_and_masked", "biased_twice", "causal", "capped", "dropped"),
)


def make_data():
    random = np.random.RandomState(1)
    shape = (4 * BATCH, HEADS, QUERIES, SIZE)
    x, target = random.normal(size=(2, *shape)).astype(np.float32)
    return {"x": x, "target": target}


def train(kinds, folder, *flags):
    kinds = [kinds] if isinstance(kinds, str) else kinds
    metrics, weights = mpctest.train(
        Spelling(*kinds).model(),
        make_data(),
        folder,
        *("--loss", "mse", "--optimizer", "sgd", "--lr", "0.1"),
        *("--train", "^(w|bias)", "--max-steps", "6", *flags),
    )
    return np.array(mpctest.losses(metrics)), weights


@pytest.mark.parametrize("kind", KINDS)
def test_is_one_op(kind, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(Spelling(kind).model(), path)
    text = mpctest.mpc_ok(
        "compile", path, "--as-exported", "--emit=recognize", "-o", "-"
    ).stdout
    assert text.count("mpc.attention ") == 1
    assert not re.search(r"mpc\.(softmax|dropout|tanh|is_nan)\b", text)
    assert ("causal_offset = 0" in text) == (kind == "causal")


@pytest.mark.parametrize("kind", KINDS)
def test_trains_as_what_it_stands_for(kind, tmp_path):
    flags = ["--precision", "64-true"]
    one, weights = train(kind, tmp_path / "one", *flags)
    spelled, expected = train(
        *(kind, tmp_path / "spelled", *flags, "--no-recognize", "attention")
    )
    assert one[4] < one[0]  # the same samples
    np.testing.assert_allclose(one, spelled, rtol=1e-9)
    for name, value in expected.items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-5, atol=1e-7)
    assert not np.array_equal(weights["wq"], Spelling(kind).weights["wq"])


@pytest.mark.parametrize("kind", ["capped", "causal", "dropped"])
def test_two_attentions_of_the_same_tensors(kind, tmp_path):
    """Each attention has its own gradient of scores."""
    kinds, flags = ["plain", kind], ["--precision", "64-true"]
    _, weights = train(kinds, tmp_path / "one", *flags)
    _, expected = train(
        kinds, tmp_path / "spelled", *flags, "--no-recognize", "attention"
    )
    for name in ("wq", "wk", "wv"):
        np.testing.assert_allclose(weights[name], expected[name], rtol=1e-5, atol=1e-7)


def test_evaluation_drops_nothing(tmp_path):
    data = tmp_path / "held.npz"
    np.savez(data, **make_data())
    losses = []
    for flags in ([], ["--no-recognize", "attention"]):
        metrics, _ = mpctest.train(
            Spelling("dropped").model(),
            make_data(),
            tmp_path,
            *("--loss", "mse", "--optimizer", "sgd", "--lr", "0"),
            *("--max-steps", "1", "--val-data", data, *flags),
        )
        losses.append([m["eval_loss"] for m in metrics if m["event"] == "eval"][-1])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision_stays_close(kind, precision, tmp_path):
    exact, _ = train(kind, tmp_path / "exact")
    mixed, _ = train(kind, tmp_path / "mixed", "--precision", precision)
    np.testing.assert_allclose(mixed, exact, rtol=0.02)


def test_scores_beyond_float16(tmp_path):
    """Scores are 10^5 and more. Between the low-precision products they are in
    fp32."""
    model = Spelling("capped", magnitude=400.0).model()
    x = make_data()["x"][:BATCH]
    (tmp_path / "low").mkdir()
    found = mpctest.run(model, {"x": x}, tmp_path / "low", "--precision", "16-mixed")
    expected = mpctest.run(model, {"x": x}, tmp_path)
    assert np.isfinite(found["y"]).all()
    scale = np.abs(expected["y"]).max()
    np.testing.assert_allclose(found["y"] / scale, expected["y"] / scale, atol=0.02)


def test_one_decision(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(Spelling("causal").model(), path)
    text = mpctest.mpc_ok(
        *("explain", path, "--loss", "mse", "--precision", "bf16-mixed")
    ).stdout
    ops = {line.split()[0] for line in text.splitlines() if line.strip()}
    assert {"attention", "attention_grad"} <= ops
    assert not {"softmax", "softmax_grad", "select", "tanh"} & ops
