"""Times training steps of the model families in mpc and PyTorch, by AdamW.

    families_bench.py [--families NAME,...] [--size SIZE] [--rounds N]
                      [--steps N] [--cpus LIST] [--only NAME]

SPDX-License-Identifier: Apache-2.0
"""

import functools
import itertools
import json
import statistics
import sys

import rounds

WARM_UP = 2
FAMILIES = "bert,dlrm,gpt2,lstm,unet,vit"
SCRIPT = rounds.HERE / "families_torch.py"


def run_torch(options, name, how, precision):
    command = [sys.executable, SCRIPT, how, precision, options.warm_up]
    command += [options.steps, len(options.cpus), name, options.size]
    return json.loads(rounds.execute(command, options.cpus))


def prepare(options, name):
    """The model and one batch of data as files, and mpc on them."""
    rounds.FOLDER.mkdir(parents=True, exist_ok=True)
    model = rounds.FOLDER / f"{name}.onnx"
    data = rounds.FOLDER / f"{name}.npz"
    command = [sys.executable, SCRIPT, "export", name, options.size, model, data]
    said = rounds.execute(command, options.cpus).splitlines()[-1]
    family = json.loads(said)
    flags = ["--optimizer", "adamw", "--lr", "1e-4"]
    for axis in family["axes"]:
        flags += ["--batch-axis", axis]
    return lambda precision: rounds.train(
        *(options, model, data, family["batch"], precision, *flags),
        loss=family["loss"],
    )


def list_contenders(options, name):
    mpc = prepare(options, name)
    contenders = {
        f"mpc {precision}": functools.partial(mpc, precision)
        for precision in ("32-true", "bf16-mixed")
    }
    for precision, how in itertools.product(
        ("fp32", "bf16"), ("eager", "compiled")
    ):
        contenders[f"PyTorch {precision} {how}"] = functools.partial(
            run_torch, options, name, how, precision
        )
    return contenders


def best(medians, what):
    return min(value for name, value in medians.items() if what in name)


def main():
    parser = rounds.make_parser(__doc__, WARM_UP)
    parser.add_argument("--families", default=FAMILIES)
    parser.add_argument("--size", default="small")
    options = rounds.finish_options(parser)
    ratios = []
    for name in options.families.split(","):
        contenders = list_contenders(options, name)
        title = f"{name}, {options.size}, AdamW"
        medians = rounds.compare(title, options, contenders, "mpc bf16-mixed")
        if any("PyTorch" in n for n in medians) and any("mpc" in n for n in medians):
            ratios.append(best(medians, "PyTorch") / best(medians, "mpc"))
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"\nPyTorch's best against mpc's: {mean:.2f} x on geometric mean")


if __name__ == "__main__":
    main()
