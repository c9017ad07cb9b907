"""A user classifies reviews as good or bad. Words are numbers, padded to one
length with a mask, and labels have Hugging Face's name.

SPDX-License-Identifier: Apache-2.0
"""

import csv

import numpy as np
from onnx import helper

import mpctest
from journey import INVALID, accuracy, linear, parameters, refused, save

LENGTH, WIDTH = 12, 16
GOOD, BAD = "great lovely superb fine".split(), "awful dull broken poor".split()
OTHER = "the film and a plot of was this very".split()
VOCABULARY = {word: i + 1 for i, word in enumerate(GOOD + BAD + OTHER)}


def read_reviews(count, seed):
    """Returns texts, each with a good or a bad word, and labels."""
    random = np.random.default_rng(seed)
    texts, labels = [], random.integers(0, 2, count)
    for label in labels:
        words = list(random.choice(OTHER, random.integers(3, LENGTH)))
        place = random.integers(0, len(words) + 1)
        words.insert(place, random.choice(GOOD if label else BAD))
        texts.append(" ".join(words))
    return texts, labels


def tokenize(texts):
    ids = np.zeros((len(texts), LENGTH), np.int64)
    for row, text in zip(ids, texts):
        words = [VOCABULARY[word] for word in text.split()]
        row[: len(words)] = words
    return {"input_ids": ids, "attention_mask": (ids > 0).astype(np.int64)}


def classifier():
    """Returns a model: the mean of the embeddings of unpadded words -> fc ->
    logits."""
    nodes = [
        helper.make_node("Gather", ["embedding.weight", "input_ids"], ["e"]),
        helper.make_node("Cast", ["attention_mask"], ["m"], to=1),
        helper.make_node("Unsqueeze", ["m", "last"], ["mask"]),
        helper.make_node("Mul", ["e", "mask"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "words"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["mask", "words"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        linear("fc", "mean", "logits"),
    ]
    random = np.random.default_rng(0)
    values = parameters(random, fc=(2, WIDTH))
    table = random.normal(0, 0.1, (len(VOCABULARY) + 1, WIDTH))
    values["embedding.weight"] = table.astype(np.float32)
    values |= {"last": np.array([2]), "words": np.array([1])}
    shape = ["batch", LENGTH]
    return mpctest.make_model(
        nodes,
        {name: (np.int64, shape) for name in ("input_ids", "attention_mask")},
        {"logits": (np.float32, ["batch", 2])},
        values,
    )


def test_journey(tmp_path):
    model = save(classifier(), tmp_path / "reviews.onnx")
    for name, count, seed in (("train", 800, 1), ("test", 100, 2)):
        texts, labels = read_reviews(count, seed)
        np.savez(tmp_path / name, labels=labels, **tokenize(texts))
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            rows = [("text", "label"), *zip(texts, labels)]
            csv.writer(file).writerows(rows)
    loss = ["--loss", "cross_entropy"]
    # Checking a model with an open batch needs no batch size.
    said = mpctest.mpc_ok("check", model, *loss)
    assert "a batch of 32 is assumed" in said.stderr
    assert said.stdout.endswith("no problems found\n")
    # The model takes no text. The user must name the array of labels.
    said = refused(INVALID, "train", model, "--data", tmp_path / "train.csv", *loss)
    assert "for its input 'input_ids'" in said or "'input_ids'" in said
    assert "is dynamic" not in said
    data = ["--data", tmp_path / "train.npz"]
    said = refused(INVALID, "train", model, *data, *loss)
    assert "help: name the labels with --target-array" in said
    loss += ["--target-array", "labels"]
    trained = tmp_path / "trained.onnx"
    process = mpctest.mpc_ok(
        *("train", model, *data, *loss, "--optimizer", "adamw", "--lr", 0.05),
        *("--epochs", 25, "--val-split", 0.1, "--best", "loss", "-o", trained),
    )
    assert "note: batches of 32 samples, as the model leaves it open" in process.stderr
    # The same flags evaluate and predict.
    test = ["--data", tmp_path / "test.npz", "--target-array", "labels"]
    process = mpctest.mpc_ok("eval", trained, *test, *loss[:2], "--metric", "f1")
    assert "accuracy 100.00%, f1 1," in process.stdout
    table = tmp_path / "predictions.csv"
    mpctest.mpc_ok("run", trained, *test, "-o", table)
    scores = np.loadtxt(table, delimiter=",", skiprows=1)
    with np.load(tmp_path / "test.npz") as arrays:
        assert accuracy(scores, arrays["labels"]) == 1


def test_a_word_that_is_in_no_vocabulary(tmp_path):
    """The error locates the word before compilation."""
    model = save(classifier(), tmp_path / "reviews.onnx")
    texts, labels = read_reviews(40, 3)
    arrays = tokenize(texts)
    arrays["input_ids"][7, 2] = len(VOCABULARY) + 1
    np.savez(tmp_path / "data.npz", target=labels, **arrays)
    flags = ["--data", tmp_path / "data.npz", "--loss", "cross_entropy"]
    said = refused(INVALID, "train", model, *flags)
    assert "input_ids[7,2]" in said and str(len(VOCABULARY) + 1) in said
