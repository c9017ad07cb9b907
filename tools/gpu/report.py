"""Keeps the stages' results in one JSON file and one Markdown page.

SPDX-License-Identifier: Apache-2.0
"""

import json

# Who multiplies matrices: `mpc compile --contractions`.
CONTRACTIONS = ["table", "library", "bare", "generated"]


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
    if "runs" in results.get("bench", {}):
        yield "## Milliseconds of a training step"
        yield ""
        yield from table(
            [
                "model",
                "batch",
                "precision",
                *(f"mpc, {name}" for name in CONTRACTIONS),
                "PyTorch eager",
                "compiled",
            ],
            [
                [
                    r["model"],
                    r["batch"],
                    r["precision"],
                    *(number(r[f"mpc_{name}_ms"]) for name in CONTRACTIONS),
                    number(r["torch_eager_ms"]),
                    number(r["torch_compiled_ms"]),
                ]
                for r in results["bench"]["runs"]
            ],
        )


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
