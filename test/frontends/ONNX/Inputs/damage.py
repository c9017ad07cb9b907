"""Imports damaged copies of a model. Fails on a signal or an undocumented exit
code.

    damage.py MODEL SCRATCH_FILE [COPIES]

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import random
import subprocess
import sys

DOCUMENTED = {0, 2, 3, 4, 5}


def without_weights(data):
    """Returns the model without large tensors' bytes, so that damage hits
    structure."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    for info in [model.graph] + [t.algorithm for t in model.training_info]:
        for tensor in info.initializer:
            if len(tensor.raw_data) > 64:
                del tensor.dims[:]
                tensor.raw_data = tensor.raw_data[:4]
    return model.SerializeToString()


def damaged(data, rng):
    copy = bytearray(data)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(copy[: rng.randrange(len(copy))])
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(copy))
        if kind == 1:
            copy[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            copy[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        else:
            length = rng.randrange(1, 16)
            source = rng.randrange(len(copy))
            copy[at : at + length] = copy[source : source + length]
    return bytes(copy)


def main():
    data = pathlib.Path(sys.argv[1]).read_bytes()
    scratch = pathlib.Path(sys.argv[2])
    copies = int(sys.argv[3]) if len(sys.argv) > 3 else 120
    rng = random.Random(1)
    models = [data, without_weights(data)]
    failures = 0
    for i in range(copies):
        scratch.write_bytes(damaged(models[i % 2], rng))
        command = ["mpc-translate", "--import-onnx", "--batch-size=4"]
        result = subprocess.run(
            command + [str(scratch), "-o", "/dev/null"],
            capture_output=True,
            timeout=60,
            check=False,
        )
        if result.returncode in DOCUMENTED:
            continue
        failures += 1
        kept = scratch.with_suffix(f".{i}.onnx")
        kept.write_bytes(scratch.read_bytes())
        print(f"{kept}: exit {result.returncode}: {result.stderr.decode()}")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
