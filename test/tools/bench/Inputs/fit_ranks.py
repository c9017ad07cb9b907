"""Fits times that a model with known parameters has made.

SPDX-License-Identifier: Apache-2.0
"""

import scaling_model as model

truth = model.Reductions({2: 0.01, 4: 0.03}, 2e6, cpus=2)
times = [
    {"type": "f32", "ranks": ranks, "bytes": size, "ms": truth.predict(ranks, size)}
    for ranks in (2, 4)
    for size in (1 << 10, 1 << 16, 25 << 20)
]
found = model.fit_reductions(times, 2)
latency = " ".join(f"{ms:.4f}" for ms in found.latency.values())
print(f"latency {latency} bandwidth {found.bandwidth / 1e6:.2f} GB/s")

rows = []
for ranks in (2, 4):
    apart = model.sharing(ranks, 2) * 100 * 1.05
    together = apart + 0.6 * truth.predict(ranks, 25 << 20)
    rows.append(
        {"ranks": ranks, "cpus": 2, "alone_ms": 100, "apart_ms": apart}
        | {"together_ms": together, "reduced_bytes": 25 << 20}
    )
steps = model.fit_steps(rows, found)
print(f"slowdown {steps.slowdown:.3f} hidden {steps.hidden:.3f}")

job, network = model.JOBS[1], model.NETWORKS[1]
slow, fast = (model.predict_step(job, network, mib << 20) for mib in (1, 25))
print(f"buckets of 1 MiB are slower than of 25: {slow > fast > job.step}")
