"""Damages files that mpc reads, and checks that every command ends as
documented.

    fuzz.py [KIND...] [--count N] [--first N] [--seconds S] [--keep FOLDER]

KIND is one of:

    artifact  copies of a .mpc file. Each damaged copy is invalid input.
    cache     entries of the kernel cache. mpc compiles a damaged entry again,
              and writes the artifact of an undamaged cache.
    flags     files of flags (--config)
    policy    files of precision rules (--policy)
    model     ONNX models
    data      arrays: npz, safetensors and CSV

The default is all kinds. A case depends on its kind and number alone: `fuzz.py
flags --first 120 --count 1` repeats one. Case 0 has the undamaged file, which
mpc must take. A case fails if mpc ends by a signal or
an undocumented code, with the code of an internal error, without a message that
names the file, or after more than S seconds of processor time (default: 20).
Failing cases are kept in FOLDER, and the exit code is 1. MPC_BUILD_DIR names the
build (default: build/ of this tree).

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
MPC = pathlib.Path(os.environ.get("MPC_BUILD_DIR", ROOT / "build")) / "bin" / "mpc"
MODEL = ROOT / "test" / "data" / "models" / "mlp.onnx"
DIGITS = ROOT / "test" / "data" / "digits" / "digits-test.npz"
STEP = [
    *("--loss", "softmax_cross_entropy", "--batch-size", "16"),
    *("--optimizer", "adamw", "--precision", "bf16-mixed"),
]
# Every exit code of README.md but 70, an internal error.
DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 7, 8}
# Wall time after which a command counts as hanging, in seconds.
TIMEOUT = 300


def run_mpc(folder, arguments):
    """Runs mpc in `folder`. Returns the process and its seconds of processor
    time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(
        [MPC, *map(str, arguments)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        timeout=TIMEOUT,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return process, seconds


def run_ok(folder, arguments):
    process, _ = run_mpc(folder, arguments)
    if process.returncode != 0:
        sys.exit(f"mpc {' '.join(map(str, arguments))}: {process.stderr.decode()}")


# ===--- Damage ---===


def keep_whole(content, rng):
    """Returns the undamaged file, for case 0."""
    del rng
    return content


def damage_bytes(content, rng):
    """Returns a copy with other bytes: cut, extended, or changed in places."""
    copy = bytearray(content)
    kind = rng.randrange(6)
    if kind == 0:
        return bytes(copy[: rng.randrange(len(copy))])
    if kind == 1:
        return bytes(copy) + rng.randbytes(rng.choice([1, 8, 64, 4096]))
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(copy))
        if kind == 2:
            copy[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            copy[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 4:
            length, source = rng.randrange(1, 64), rng.randrange(len(copy))
            copy[at : at + length] = copy[source : source + length]
        else:
            length = rng.choice([8, 64, 4096])
            copy[at : at + length] = bytes(len(copy[at : at + length]))
    return bytes(copy)


# Words that parsers of text stumble over.
WORDS = [
    *("[", "]", "{", "}", "[[", "]]", "=", ",", ".", '"', "'", '"""', "'''", "#"),
    *("\n", "\\", "\\u0000", "\\U0010ffff", "\0", "\x7f", "\x1b[2J", "\u202e", "é"),
    *("nan", "-inf", "1e999", "-0.0", "0x7fffffffffffffff", "9223372036854775807"),
    *("-9223372036854775808", "1979-05-27T07:32:00Z", "true", "0", "-1", "1" * 400),
    *("[" * 200, "{a=" * 200, "a." * 200, "(" * 200, "a" * 5000, "(a*)*" * 8),
]


def damage_text(content, rng):
    """Returns a copy with other lines and words, or now and then other bytes."""
    if rng.randrange(4) == 0:
        return damage_bytes(content, rng)
    lines = content.decode().splitlines()
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, kind = rng.randrange(len(lines)), rng.randrange(6)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(rng.randrange(len(lines)), lines[at])
        elif kind == 2:
            lines[at] += " " + rng.choice(WORDS)
        else:
            words = re.split(r"(\W)", lines[at])
            word = rng.randrange(len(words))
            other = re.split(r"(\W)", rng.choice(lines))
            words[word] = rng.choice([rng.choice(WORDS), rng.choice(other)])
            lines[at] = "".join(words)
        lines = lines or [""]
    return "\n".join(lines).encode(errors="surrogatepass")


# ===--- Kinds ---===


class Case:
    """A damaged file, the command that reads the file, and the expected exit
    codes."""

    def __init__(self, content, name, arguments, codes=DOCUMENTED):
        self.content, self.name = content, name
        self.arguments, self.codes = arguments, codes

    def check(self, process, folder):
        """Returns what is wrong; None if nothing is."""
        del folder
        errors = process.stderr.decode(errors="replace")
        code = process.returncode
        if code not in self.codes:
            return f"exit code {code}, expected {sorted(self.codes)}"
        if code >= 2 and "error" not in errors:
            return f"exit code {code} without an error"
        if code == 3 and self.name not in errors + process.stdout.decode(errors="replace"):
            return f"the error does not name {self.name}"
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", errors):
            return "the error has control characters"
        if len(errors) > 20000:
            return f"an error of {len(errors)} characters"
        return None


class Artifacts:
    def __init__(self, folder):
        run_ok(folder, ["compile", MODEL, *STEP, "-o", folder / "whole.mpc"])
        self.content = (folder / "whole.mpc").read_bytes()

    def make(self, rng, damage_bytes, damage_text):
        del damage_text
        content = damage_bytes(self.content, rng)
        command = rng.choice(
            [
                ["inspect", "damaged.mpc"],
                ["check", "damaged.mpc"],
                ["eval", "damaged.mpc", "--trust", "--data", DIGITS],
                [
                    *("train", "damaged.mpc", "--trust", "--data", DIGITS),
                    *("--max-steps", "1", "--output", "trained.npz"),
                ],
            ]
        )
        # `check` reports problems of a file by code 1.
        codes = {1, 3} if command[0] == "check" else {3}
        if content == self.content:
            codes = {0}
        return Case(content, "damaged.mpc", command, codes)


class CachedCompile(Case):
    def __init__(self, expected, content, name):
        command = ["compile", MODEL, *STEP, "--kernel-cache", "cache", "-o", "a.mpc"]
        super().__init__(content, name, command, {0})
        self.expected = expected

    def check(self, process, folder):
        if (folder / "a.mpc").exists():
            if (folder / "a.mpc").read_bytes() != self.expected:
                return "the artifact differs from that of an undamaged cache"
        return super().check(process, folder)


class CacheEntries:
    def __init__(self, folder):
        cache = ["--kernel-cache", folder / "whole"]
        run_ok(folder, ["compile", MODEL, *STEP, *cache, "-o", folder / "whole.mpc"])
        self.expected = (folder / "whole.mpc").read_bytes()
        entries = sorted((folder / "whole").glob("llvmcache-*"))
        self.entries = {entry.name: entry.read_bytes() for entry in entries}

    def make(self, rng, damage_bytes, damage_text):
        del damage_text
        name, other = rng.choices(list(self.entries), k=2)
        content = damage_bytes(self.entries[name], rng)
        if content != self.entries[name]:
            content = rng.choice([content, content, self.entries[other], b""])
        return CachedCompile(self.expected, content, f"cache/{name}")

    def prepare(self, folder):
        """Fills the cache of a case with undamaged entries."""
        (folder / "cache").mkdir(mode=0o700)
        for name, content in self.entries.items():
            (folder / "cache" / name).write_bytes(content)


FLAGS = """\
# Flags of every type, for all commands and for one.
precision = "bf16-mixed"
batch-size = 16
loss = ["softmax_cross_entropy"]
optimizer = 'adamw'
lr = 1e-3
weight-decay = 0.01
no-decay = "bias"
freeze = ["^fc1", "weight$"]
seed = 7
threads = 1

[train]
epochs = 2
val-split = 0.25
lr-scheduler = "cosine"
warmup-steps = 3
gradient-clip-val = 1.0
loss-scale = "dynamic"
no-shuffle = true
metrics = "m.jsonl"
checkpoint-dir = "checkpoints"
checkpoint-every = 5

[explain]
format = "jsonl"
keep-fp32 = "fc1"
shape = ["N=16"]
"""


class Texts:
    """Cases of files of text. `command(rng)` returns a command that reads the
    file `name`."""

    def __init__(self, name, content, command):
        self.name, self.content, self.command = name, content.encode(), command

    def make(self, rng, damage_bytes, damage_text):
        del damage_bytes
        content = damage_text(self.content, rng)
        # A file of flags names files to write. Keep these in the folder.
        while re.search(rb"[\"'/]/|\.\.", content):
            content = damage_text(self.content, rng)
        return Case(content, self.name, self.command(rng))


def flags_of(folder):
    del folder

    def command(rng):
        training = [
            *("train", MODEL, "--data", DIGITS, "--max-steps", "1"),
            *("--output", "trained.onnx", "--overwrite-metrics"),
        ]
        return [*rng.choice([training, ["explain", MODEL]]), "--config", "flags.toml"]

    return Texts("flags.toml", FLAGS, command)


POLICY = """\
{
  "preset": "torch",
  "table": [
    {"op": "Softmax", "fp16": "deny", "bf16": "deny", "reason": "diverged"}
  ],
  "rules": [
    {"op": "Gemm", "node": "^fc1", "class": "deny", "reason": "first layer"},
    {"node": "#dw$", "type": "bf16", "class": "infer", "unbounded": true}
  ]
}
"""


def policies_of(folder):
    del folder
    return Texts(
        "policy.json",
        POLICY,
        lambda rng: ["explain", MODEL, *STEP, "--policy", "policy.json"],
    )


class Models:
    def __init__(self, folder):
        del folder
        self.content = MODEL.read_bytes()

    def make(self, rng, damage_bytes, damage_text):
        del damage_text
        # Most bytes are weights, so damage the structure at either end.
        content = self.content
        if rng.randrange(2):
            head, tail = content[:400], content[-1200:]
            content = damage_bytes(head, rng) + content[400:-1200] + tail
        else:
            content = content[:-1200] + damage_bytes(content[-1200:], rng)
        command = [rng.choice(["check", "explain"]), "model.onnx", *STEP]
        return Case(content, "model.onnx", command)


class Data:
    def __init__(self, folder):
        del folder
        self.arrays = {
            "x.npz": DIGITS.read_bytes(),
            "x.safetensors": safetensors(),
            "x.csv": b"image,target\n0.5,1\n1e3,2\n-7,0\n",
        }

    def make(self, rng, damage_bytes, damage_text):
        name = rng.choice(list(self.arrays))
        content = self.arrays[name]
        damage = damage_text if name.endswith(".csv") else damage_bytes
        content = damage(content[: 1 << 14], rng) + content[1 << 14 :]
        evaluation = ["--loss", "softmax_cross_entropy", "--data", name]
        command = ["inspect", name]
        if not name.endswith(".csv") and rng.randrange(2):
            command = ["eval", MODEL, *evaluation]
        return Case(content, name, command)


def safetensors():
    """Returns a file of two arrays, as the format lays them out."""
    header = (
        '{"image":{"dtype":"F32","shape":[4,1,8,8],"data_offsets":[0,1024]},'
        '"target":{"dtype":"I64","shape":[4],"data_offsets":[1024,1056]}}'
    ).encode()
    return len(header).to_bytes(8, "little") + header + bytes(1056)


KINDS = {
    "artifact": Artifacts,
    "cache": CacheEntries,
    "flags": flags_of,
    "policy": policies_of,
    "model": Models,
    "data": Data,
}


# ===--- Cases ---===


def run_case(kind, maker, number, seconds, keep):
    """Runs one case. Returns what is wrong; None if nothing is."""
    rng = random.Random(f"{kind} {number}")
    if number == 0:
        case = maker.make(rng, keep_whole, keep_whole)
        case.codes = {0}
    else:
        case = maker.make(rng, damage_bytes, damage_text)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if hasattr(maker, "prepare"):
            maker.prepare(folder)
        path = folder / case.name
        path.write_bytes(case.content)
        try:
            process, spent = run_mpc(folder, case.arguments)
            wrong = case.check(process, folder)
            if not wrong and spent > seconds:
                wrong = f"took {spent:.1f} s of processor time"
        except subprocess.TimeoutExpired:
            wrong = f"did not end within {TIMEOUT} s"
        if wrong and keep:
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, keep / f"{kind}-{number}-{path.name}")
    if wrong:
        command = " ".join(map(str, case.arguments))
        return f"{kind} {number}: mpc {command}: {wrong}"
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    for kind in options.kinds:
        if kind not in KINDS:
            parser.error(f"expected some of {', '.join(KINDS)}, found '{kind}'")
    failures = total = 0
    for kind in options.kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            maker = KINDS[kind](pathlib.Path(folder))
        for number in range(options.first, options.first + options.count):
            wrong = run_case(kind, maker, number, options.seconds, options.keep)
            total += 1
            if wrong:
                failures += 1
                print(wrong, flush=True)
    print(f"{total} cases, {failures} failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
