"""Makes one JSON file and one Markdown page from the stages' lines.

    report.py DIR

repeats this for DIR/cases.jsonl, for example after a run that was cut off.

SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import sys

# A line of JSON for each case, and one for each finished stage. A run that is
# cut short leaves these lines.
LINES = "cases.jsonl"
# The keys that identify a case within a stage. Later lines of a case add to
# earlier ones.
KEYS = ("name", "model", "precision", "contractions", "how", "step")


def append(path, stage, result):
    """Appends a line in one write, so that several processes may do it."""
    line = json.dumps({"stage": stage, **result}) + "\n"
    with open(path, "ab", buffering=0) as file:
        file.write(line.encode())


def read_lines(path):
    """Reads the lines without an incomplete last one."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def merge(lines):
    """Returns the cases of a stage, with the values of their last lines."""
    cases = {}
    for line in lines:
        key = tuple(line.get(name) for name in KEYS)
        before = cases.setdefault(key, {})
        if "provisional" not in line:
            before.pop("provisional", None)
        before.update(line)
    return [
        {name: value for name, value in case.items() if name != "stage"}
        for case in cases.values()
    ]


def read(path, stage):
    return collect(read_lines(path)).get(stage, {}).get("runs", [])


def forget(path, stages):
    """Drops the lines of stages that run again."""
    kept = [line for line in read_lines(path) if line["stage"] not in stages]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))


def end(path, stage, result):
    """Writes the line of a finished stage. Its cases have their own lines."""
    result = {k: v for k, v in result.items() if k != "runs"}
    append(path, stage, {"ended": result})


def collect(lines):
    """Returns the stages' results, in the order of their first lines."""
    results = {}
    for stage in dict.fromkeys(line["stage"] for line in lines):
        own = [line for line in lines if line["stage"] == stage]
        cases = [line for line in own if "ended" not in line]
        ended = [line["ended"] for line in own if "ended" in line]
        results[stage] = ended[-1] if ended else {"ok": False, "error": "cut off"}
        if cases:
            results[stage] = {**results[stage], "runs": merge(cases)}
    return results


PACK = "pack"


def write(out):
    """Writes the reports of all lines in DIR/cases.jsonl so far."""
    results = collect(read_lines(out / LINES))
    header = results.pop(PACK, {}).get("runs", [{}])[0]
    header.setdefault("target", "an unknown GPU")
    header.setdefault("commit", "an unknown commit")
    text = json.dumps({**header, "stages": results}, indent=1)
    (out / "report.json").write_text(text + "\n", encoding="utf-8")
    page = "\n".join(markdown(header, results)) + "\n"
    (out / "report.md").write_text(page, encoding="utf-8")


def markdown(header, results):
    machine = results.get("machine", {})
    changed = ", with changes" if header.get("changed") else ""
    yield f"# Measured on {machine.get('gpu') or 'no GPU'}"
    yield ""
    yield (
        f"Made by `tools/gpu/check` from {header['commit']}{changed}, for"
        f" {header['target']}; PyTorch {machine.get('torch')}."
    )
    yield ""
    yield from table(
        ["stage", "result", "seconds"],
        [
            [name, outcome(r), r.get("seconds", "")]
            for name, r in results.items()
        ],
    )
    if "ops" in results:
        runs = results["ops"].get("runs", [])
        failed = [run for run in runs if not run["ok"]]
        yield f"Operators: {len(runs)} runs, {len(failed)} failed."
        yield ""
    if "runs" in results.get("curves", {}):
        yield "## Losses against the CPU's"
        yield ""
        yield from table(
            [
                "model",
                "precision",
                "contractions",
                "error / bound",
                "gradients",
                "last loss",
                "same bits",
            ],
            [
                [
                    r["model"],
                    r["precision"],
                    r["contractions"],
                    number(r.get("times_bound", r.get("error"))),
                    number(r.get("gradients_times_bound")),
                    number(r.get("last_loss")),
                    r.get("same_bits"),
                ]
                for r in results["curves"]["runs"]
            ],
        )
    if "runs" in results.get("steps", {}):
        yield from compare(
            results["steps"]["runs"], results.get("torch", {}).get("runs", [])
        )
    for name, result in results.items():
        if why := result.get("skipped"):
            yield f"Stage {name} was skipped: {why}"
            yield ""
    if results.get("ranks", {}).get("runs"):
        yield from list_ranks(results["ranks"]["runs"])
    if results.get("attention", {}).get("runs"):
        yield from list_attention(results["attention"]["runs"])
    if results.get("choices", {}).get("runs"):
        yield from list_choices(results["choices"]["runs"])
        yield from list_epilogues(results["choices"]["runs"])
    for run in results.get("kernels", {}).get("runs", []):
        if "rows" in run:
            yield from list_kernels(run)


def compare(runs, torch):
    """Compares steps of mpc and of PyTorch, model by model."""
    times = {(t["model"], t["how"]): t.get("ms", t.get("error")) for t in torch}
    beside = {(t["model"], t["how"]) for t in torch if t.get("provisional")}
    ways = ("eager", "compiled", "graphs", "tuned")
    yield "## Milliseconds of a training step"
    yield ""
    yield (
        "Of mpc: its scalars read after every step; no scalars read; and a batch"
        " copied by the host before each, which nothing hides. In brackets: taken"
        " while other models were being compiled. PyTorch's batches are copied"
        " while a step runs."
    )
    yield ""
    names = ["model", "precision", "start, s", "read", "alone", "copied", "GB"]
    names += ["same bits"]

    def cell(key):
        return f"({number(times[key])})" if key in beside else number(times.get(key))

    yield from table(
        names + [f"PyTorch {way}" for way in ways] + ["its best / mpc"],
        [
            [
                *(run["model"], run["precision"], number(run.get("start_seconds"))),
                *(number(run.get("ms", run.get("error"))),),
                *(number(run.get("alone_ms")), number(run.get("fed_ms"))),
                *(gigabytes(run.get("bytes")), run.get("same_bits")),
                *(cell((run["model"], way)) for way in ways),
                best_ratio(run, [times.get((run["model"], way)) for way in ways]),
            ]
            for run in runs
        ],
    )


def list_ranks(runs):
    yield "## One rank through NCCL"
    yield ""
    yield (
        "Milliseconds of a step without reductions, and of a step that reduces its"
        " gradients by NCCL in the graph. A cost within the spread of the step"
        " without reductions is none that the clock shows."
    )
    yield ""
    names = ["model", "reductions", "MB", "alone", "by NCCL", "cost, %", "spread, %"]
    yield from table(
        [*names, "same bits", "library"],
        [
            [
                *(run["model"], run.get("reductions")),
                number(run.get("reduced_bytes", 0) / 1e6),
                number(run.get("alone_ms", run.get("error"))),
                *(number(run.get("ranks_ms")), number(run.get("cost_percent"))),
                *(number(run.get("spread_percent")), run.get("same_bits")),
                run.get("library"),
            ]
            for run in runs
        ],
    )


def list_attention(runs):
    yield "## cuDNN's attention, microseconds of a layer"
    yield ""
    ways = ("forward", "deterministic", "accumulating")
    yield from table(
        ["model", "shape", *ways, "same bits", "error", "plans, s", "scratch, MB"],
        [
            [
                run["model"],
                " x ".join(
                    str(run.get(name))
                    for name in ("batch", "heads", "tokens", "width", "mask")
                ),
                *(
                    number(run.get(f"{way}_us", run.get(f"{way}_error")))
                    for way in ways
                ),
                *(
                    ", ".join(
                        str(number(run.get(f"{way}_{what}"))) for way in ways
                    )
                    for what in ("same_bits", "relative_error", "build_s")
                ),
                number(run.get("deterministic_scratch", 0) / 1e6),
            ]
            for run in runs
        ],
    )


# The products that gain most by another proposal than the first.
MOST_PRODUCTS = 15


def list_choices(runs):
    rows = []
    for run in runs:
        times = [time for time in run.get("proposals_us", []) if time]
        if times:
            rows.append((times[0] - min(times), run, times))
    rows.sort(key=lambda row: -row[0])
    yield "## Proposals of cuBLASLt"
    yield ""
    yield from table(
        ["model", "product", "types", "first, us", "fastest", "which"],
        [
            [
                run["model"],
                "x".join(str(run[name]) for name in ("batch", "m", "n", "k")),
                " ".join(run[name] for name in "abc"),
                *(number(times[0]), number(min(times))),
                times.index(min(times)),
            ]
            for _, run, times in rows[:MOST_PRODUCTS]
        ],
    )


EPILOGUES = ("residual", "bias", "gelu_aux_bias", "dgelu", "dgelu_bgrad")
EPILOGUES += ("bgrad_a", "bgrad_b")


def list_epilogues(runs):
    """Lists the microseconds of the slowest products, alone and with possible
    epilogues. An entry that is not a number is the library's answer."""
    rows = [
        (run["proposals_us"][0], run)
        for run in runs
        if run.get("proposals_us") and run["proposals_us"][0]
    ]
    rows.sort(key=lambda row: -row[0])
    yield "## Epilogues of cuBLASLt"
    yield ""
    yield from table(
        ["model", "product", "types", "alone, us", *EPILOGUES],
        [
            [
                run["model"],
                "x".join(str(run[name]) for name in ("batch", "m", "n", "k")),
                " ".join(run[name] for name in "abc"),
                number(alone),
                *(
                    time if isinstance(time, str) else number(time)
                    for time in (run.get(f"{name}_us") for name in EPILOGUES)
                ),
            ]
            for alone, run in rows[:MOST_PRODUCTS]
        ],
    )


def best_ratio(run, times):
    times = [time for time in times if isinstance(time, float)]
    return number(min(times) / run["ms"]) if times and "ms" in run else ""


# The rows of each model with the largest loss against the roof.
MOST_KERNELS = 25


def list_kernels(run):
    yield f"## Kernels of {run['model']}, {run['precision']}"
    yield ""
    total = f"{run['steps']} steps, {run['us']:.0f} us"
    if "roof_us" in run:
        total += (
            f"; roof {run['roof_us']:.0f} us, predicted"
            f" {run['predicted_us']:.0f} us"
        )
    yield total + "."
    yield ""
    rows = sorted(
        run["rows"], key=lambda r: r.get("roof_us", 0) - r["us"]
    )[:MOST_KERNELS]
    yield from table(
        ["step", "op", "us", "roof", "MB", "GFLOP"],
        [
            [
                *(row["step"], row["op"], number(row["us"])),
                number(row.get("roof_us")),
                *(number(row["bytes"] / 1e6), number(row["operations"] / 1e9)),
            ]
            for row in rows
        ],
    )


def gigabytes(count):
    return None if count is None else number(count / 1e9)


def outcome(result):
    if "skipped" in result:
        return "skipped"
    return "ok" if result["ok"] else "failed"


def number(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    return "failed" if isinstance(value, str) else value


def table(names, rows):
    yield "| " + " | ".join(names) + " |"
    yield "|" + " --- |" * len(names)
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"
    yield ""


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
