"""Tasks for the small models of families.py: samples drawn from a seed, some
from the digits of test/data. `load(name)` returns two sets of arrays, for
training and held back, named like the inputs of the model and `target`.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib

import numpy as np

DIGITS = pathlib.Path(__file__).parents[2] / "test" / "data" / "digits"


def split(arrays, kept, axes=()):
    """Returns the first samples, and the last `kept`."""

    def cut(name, array):
        axis = dict(axes).get(name, 0)
        return np.split(array, [array.shape[axis] - kept], axis=axis)

    parts = {name: cut(name, array) for name, array in arrays.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(2)]


def digits(count, size, channels, kept):
    """Handwritten digits, each shifted by some pixels, in coloured noise. One
    label in ten is random: the least possible loss is 0.50."""
    random = np.random.RandomState(0)

    def draw(part, count):
        data = np.load(DIGITS / f"digits-{part}.npz")
        chosen = random.randint(0, len(data["target"]), count)
        image = data["image"][chosen].astype(np.float32) / 8 - 1
        for sample, places in zip(image, random.randint(-1, 2, (count, 2))):
            sample[:] = np.roll(sample, places, (1, 2))
        image = image.repeat(channels, 1)
        image += random.standard_normal(image.shape).astype(np.float32) * 0.3
        target = data["target"][chosen].astype(np.int64)
        is_drawn = random.uniform(size=count) < 0.1
        return {
            "image": image.repeat(size // 8, 2).repeat(size // 8, 3),
            "target": np.where(is_drawn, random.randint(0, 10, count), target),
        }

    return draw("train", count), draw("test", kept)


def text(tokens, count, kept):
    """Letters, each with the next one, in an invented language: each of 64
    words is followed by one of eight others, most often by the first."""
    random = np.random.RandomState(0)
    words = [
        bytes(random.randint(97, 123, random.randint(2, 8))) + b" "
        for _ in range(64)
    ]
    followers = [random.permutation(64)[:8] for _ in words]
    likely = 1 / np.arange(1, 9)
    choices = random.choice(8, (count + 1) * tokens, p=likely / likely.sum())
    parts, word, length = [], 0, 0
    for choice in choices:
        word = followers[word][choice]
        parts.append(words[word])
        length += len(words[word])
        if length > count * tokens:
            break
    letters = np.frombuffer(b"".join(parts), np.uint8).astype(np.int64)
    pairs = {
        "ids": letters[: count * tokens].reshape(count, tokens),
        "target": letters[1 : count * tokens + 1].reshape(count, tokens),
    }
    return split(pairs, kept)


def sentences(count, tokens, vocabulary, kept):
    """Tells if the first of two segments has more good words than the second. A
    mask hides the end. One answer in ten is random: the least possible loss is
    0.20."""
    random = np.random.RandomState(0)
    often = 1 / (np.arange(vocabulary // 2) + 2)
    rank = random.choice(vocabulary // 2, (count, tokens), p=often / often.sum())
    place = np.arange(tokens)
    length = random.randint(tokens // 2, tokens + 1, (count, 1))
    segments = (place >= length // 2).astype(np.int64)
    target = random.randint(0, 2, count)
    # Words with odd ids are good: three of four in one segment, one in the
    # other.
    more = segments != target[:, None]
    good = random.uniform(size=rank.shape) < np.where(more, 0.75, 0.25)
    is_drawn = random.uniform(size=count) < 0.1
    arrays = {
        "ids": 2 * rank + good,
        "segments": segments,
        "mask": (place < length).astype(np.int64),
        "target": np.where(is_drawn, random.randint(0, 2, count), target),
    }
    return split(arrays, kept)


def shapes(count, size, kept):
    """Discs and squares in noise. The labels are the pixels of discs."""
    random = np.random.RandomState(0)
    image = random.standard_normal((count, 3, size, size)) * 0.3
    target = np.zeros((count, size, size), np.int64)
    y, x = np.mgrid[:size, :size]
    for sample in range(count):
        for is_disc in (True, False, True):
            middle = random.uniform(8, size - 8, 2)
            radius = random.uniform(4, 10)
            far = np.hypot if is_disc else np.maximum
            inside = far(abs(y - middle[0]), abs(x - middle[1])) < radius
            colour = random.uniform(0.5, 1.5, (3, 1))
            image[sample][:, inside] += colour
            target[sample][inside] = is_disc
    return split({"image": image.astype(np.float32), "target": target}, kept)


def clicks(count, tables, rows, each, kept):
    """Tells if a user clicks. The probability depends on the sum of one
    number's and all rows' weights, and on the match of the first two tables'
    rows."""
    random = np.random.RandomState(0)
    numbers = random.standard_normal((count, 13))
    ids = random.randint(0, rows, (tables, count, each))
    taste = random.standard_normal((tables, rows)) * 0.4
    score = numbers @ (random.standard_normal(13) * 0.4)
    for table in range(tables):
        score += taste[table][ids[table]].sum(1)
    kinds = random.standard_normal((2, rows, 4)) * 0.5
    both = [kinds[i][ids[i]].sum(1) for i in range(2)]
    score += (both[0] * both[1]).sum(1)
    clicked = random.uniform(size=count) < 1 / (1 + np.exp(-score))
    arrays = {
        "numbers": numbers.astype(np.float32),
        "ids": ids,
        "target": clicked.astype(np.float32)[:, None],
    }
    return split(arrays, kept, {"ids": 1})


TASKS = {
    "alexnet": lambda: digits(6400, 64, 3, 1024),
    "bert": lambda: sentences(17024, 64, 1000, 1024),
    "dlrm": lambda: clicks(66560, 8, 1000, 4, 4096),
    "gpt2": lambda: text(64, 8512, 512),
    "lenet": lambda: digits(16000, 32, 1, 4096),
    "lstm": lambda: text(35, 17024, 1024),
    "mlp": lambda: digits(32000, 8, 1, 4096),
    "mobilenet_v2": lambda: digits(16000, 32, 3, 2048),
    "resnet50": lambda: digits(16000, 32, 3, 2048),
    "unet": lambda: shapes(1064, 64, 104),
    "vit": lambda: digits(16000, 32, 3, 2048),
}


def load(name):
    return TASKS[name]()
