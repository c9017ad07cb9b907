"""Times training steps of the model families in mpc and PyTorch, by AdamW: in
fp32 and in bf16, PyTorch eager and compiled.

    families_bench.py [--families NAME,...] [--size SIZE] [--device DEVICE]
                      [--rounds N] [--steps N] [--cpus LIST] [--only NAME]

--device cuda runs on a GPU, for which --size gpu has sizes.

Prints a table after each family, and one of all at the end, as Markdown. One
contender runs at a time. A family's files, which are as large as its model, are
deleted when the family is done.

SPDX-License-Identifier: Apache-2.0
"""

import functools
import itertools
import json
import statistics
import sys

import rounds

WARM_UP = 2
FAMILIES = "alexnet,bert,dlrm,gpt2,lenet,lstm,mlp,mobilenet_v2,resnet50,unet,vit"
SCRIPT = rounds.HERE / "families_torch.py"
# The name of a precision in mpc and in PyTorch.
PRECISIONS = {"32-true": "fp32", "bf16-mixed": "bf16"}
WAYS = ("eager", "compiled")


def run_torch(options, name, how, precision):
    command = [sys.executable, SCRIPT, how, precision, options.warm_up]
    command += [options.steps, len(options.cpus), name, options.size]
    command.append(options.device)
    return json.loads(rounds.execute(command, options.cpus))


def prepare(options, name):
    """Writes the model and one batch of data as files. Returns mpc's
    contenders."""
    rounds.FOLDER.mkdir(parents=True, exist_ok=True)
    model = rounds.FOLDER / f"{name}.onnx"
    data = rounds.FOLDER / f"{name}.npz"
    command = [sys.executable, SCRIPT, "export", name, options.size, model, data]
    said = rounds.execute(command, options.cpus).splitlines()[-1]
    family = json.loads(said)
    flags = ["--optimizer", "adamw", "--lr", "1e-4", "--device", options.device]
    for axis in family["axes"]:
        flags += ["--batch-axis", axis]
    return lambda precision: rounds.train(
        *(options, model, data, family["batch"], precision, *flags),
        loss=family["loss"],
    )


def clean(name):
    """Removes the files of `prepare` and the runs."""
    for file in (f"{name}.onnx", f"{name}.npz", "trained.onnx"):
        (rounds.FOLDER / file).unlink(missing_ok=True)


def list_contenders(options, name):
    mpc = prepare(options, name)
    contenders = {
        f"mpc {precision}": functools.partial(mpc, precision)
        for precision in PRECISIONS
    }
    for precision, how in itertools.product(PRECISIONS.values(), WAYS):
        contenders[f"PyTorch {precision} {how}"] = functools.partial(
            run_torch, options, name, how, precision
        )
    return contenders


def best(medians, *names):
    """Returns the least time of the contenders that have one."""
    return min((medians[n] for n in names if n in medians), default=None)


def against(theirs, ours):
    """Returns the ratio of both times; None if one is unknown."""
    return theirs / ours if theirs and ours else None


def list_ratios(medians):
    """Returns PyTorch's best time in each precision relative to mpc's in that
    precision, then its best of all relative to mpc's."""
    ratios = []
    for ours, theirs in PRECISIONS.items():
        names = [f"PyTorch {theirs} {how}" for how in WAYS]
        ratios.append(
            against(best(medians, *names), medians.get(f"mpc {ours}"))
        )
    torch = [name for name in medians if name.startswith("PyTorch")]
    mpc = [name for name in medians if name.startswith("mpc")]
    return [*ratios, against(best(medians, *torch), best(medians, *mpc))]


def print_rows(rows):
    for row in rows:
        print("| " + " | ".join(row) + " |")


def print_all(table):
    """Prints a row for each family in `table`, and the geometric means."""
    head, ends = ["model"], []
    for ours, theirs in PRECISIONS.items():
        head += [f"mpc {ours}"]
        head += [f"PyTorch {theirs} {how}" for how in WAYS]
        ends.append(f"{theirs}: its best against mpc")
    ends.append("best against best")
    rows = [head + ends, ["---"] * (len(head) + len(ends))]
    columns = [[] for _ in ends]
    for name, medians in table.items():
        row = [f"{medians[n]:.1f}" if n in medians else "" for n in head[1:]]
        for column, ratio in zip(columns, list_ratios(medians)):
            row.append(f"{ratio:.2f} x" if ratio else "")
            column += [ratio] if ratio else []
        rows.append([name, *row])
    means = [
        f"{statistics.geometric_mean(column):.2f} x" if column else ""
        for column in columns
    ]
    rows.append(["geometric mean", *[""] * (len(head) - 1), *means])
    print("\nMilliseconds a step\n")
    print_rows(rows)


def main():
    parser = rounds.make_parser(__doc__, WARM_UP)
    parser.add_argument("--families", default=FAMILIES)
    parser.add_argument("--size", default="small")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = rounds.finish_options(parser)
    table = {}
    for name in options.families.split(","):
        contenders = list_contenders(options, name)
        title = f"{name}, {options.size}, AdamW, {options.device}"
        table[name] = rounds.compare(title, options, contenders, "mpc bf16-mixed")
        clean(name)
    print_all(table)


if __name__ == "__main__":
    main()
