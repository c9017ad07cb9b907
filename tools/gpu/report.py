"""Keeps the stages' results in one JSON file and one Markdown page.

SPDX-License-Identifier: Apache-2.0
"""

import json

# A line of JSON for each case: what a run that is cut short leaves.
LINES = "cases.jsonl"


def append(path, stage, result):
    """One write, so that several processes may do it."""
    line = json.dumps({"stage": stage, **result}) + "\n"
    with open(path, "ab", buffering=0) as file:
        file.write(line.encode())


def read_lines(path):
    """Without a last line that was cut."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def read(path, stage):
    return [line for line in read_lines(path) if line["stage"] == stage]


def forget(path, stages):
    """Drops the lines of stages that run anew."""
    kept = [line for line in read_lines(path) if line["stage"] not in stages]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))


def add(out, manifest, stage, result):
    """Writes a stage's result beside those that are there already."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "report.json"
    header = {k: manifest[k] for k in ("target", "commit", "changed")}
    results = {}
    if path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))["stages"]
    results[stage] = result
    text = json.dumps({**header, "stages": results}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
    page = "\n".join(markdown(header, results)) + "\n"
    (out / "report.md").write_text(page, encoding="utf-8")


def markdown(header, results):
    machine = results.get("machine", {})
    changed = ", with changes" if header["changed"] else ""
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
            [name, outcome(r), r["seconds"]]
            for name, r in results.items()
        ],
    )
    if "ops" in results:
        r = results["ops"]
        yield f"Operators: {r.get('run')} runs, {len(r.get('failed', []))} failed."
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
    if results.get("choices", {}).get("runs"):
        yield from list_choices(results["choices"]["runs"])
    for run in results.get("kernels", {}).get("runs", []):
        if "rows" in run:
            yield from list_kernels(run)


def compare(runs, torch):
    """Steps of mpc and of PyTorch, model by model."""
    times = {(t["model"], t["how"]): t.get("ms", t.get("error")) for t in torch}
    ways = ("eager", "compiled", "graphs")
    yield "## Milliseconds of a training step"
    yield ""
    names = ["model", "precision", "start, s", "fed", "alone", "GB", "same bits"]
    yield from table(
        names + [f"PyTorch {way}" for way in ways] + ["its best / mpc"],
        [
            [
                *(run["model"], run["precision"], number(run.get("start_seconds"))),
                *(number(run.get("ms", run.get("error"))),),
                *(number(run.get("alone_ms")), gigabytes(run.get("bytes"))),
                run.get("same_bits"),
                *(number(times.get((run["model"], way))) for way in ways),
                best_ratio(run, [times.get((run["model"], way)) for way in ways]),
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


def best_ratio(run, times):
    times = [time for time in times if isinstance(time, float)]
    return number(min(times) / run["ms"]) if times and "ms" in run else ""


# The rows of each model that lose most against the roof.
MOST_KERNELS = 25


def list_kernels(run):
    yield f"## Kernels of {run['model']}, {run['precision']}"
    yield ""
    yield f"{run['steps']} steps, {run['us']:.0f} us."
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
