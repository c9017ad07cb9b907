"""Runs training steps of an artifact on given batches. The same code makes the
reference on the CPU and the result on the GPU.

SPDX-License-Identifier: Apache-2.0
"""

import hashlib
import statistics
import time

import numpy as np

LEARNING_RATE = 1e-3
# Long enough for an idling GPU to reach its clock rate, and for the host's
# clock to be precise.
WARM_UP_SECONDS, ROUND_SECONDS = 0.4, 0.2
ROUNDS, FEWEST_STEPS = 3, 3


def bind(session, function, arrays, rate=LEARNING_RATE):
    """Sets the inputs in `arrays`, and the learning rate."""
    for info in session.inputs(function):
        if info.name in arrays:
            value = arrays[info.name].astype(info.dtype, copy=False)
        elif info.role == "scalar":
            value = np.full(info.shape, rate, info.dtype)
        else:
            raise KeyError(f"no array for input '{info.name}'")
        session.set_input(function, info.name, value)


def run_steps(session, batches, rate=LEARNING_RATE):
    """Runs one step on each batch. Returns lists by the outputs' roles ("loss",
    "finite", "loss_scale"), as floats."""
    outputs = session.outputs("step")
    results = {info.role: [] for info in outputs if info.shape == ()}
    for batch in batches:
        bind(session, "step", batch, rate)
        session.run("step")
        for info in outputs:
            if info.shape == ():
                value = session.output("step", info)
                results[info.role].append(float(value))
    return results


def moments(session):
    """Returns the optimizer's state: after one step, multiples of the gradients
    and of their squares."""
    return {
        info.name: session.state(info).astype(np.float64)
        for info in session.states()
        if info.role == "optimizer_state" and info.dtype.kind == "f"
    }


def digest(session):
    """Returns a hash of every bit of the session's state."""
    hashed = hashlib.sha256()
    for info in session.states():
        hashed.update(session.state(info).tobytes())
    return hashed.hexdigest()


def milliseconds(run):
    """Returns the milliseconds of a step: the median over rounds of the mean.
    `run(n)` does n steps and waits."""

    def seconds(count):
        begin = time.perf_counter()
        run(count)
        return time.perf_counter() - begin

    run(FEWEST_STEPS)
    warm = time.perf_counter() + WARM_UP_SECONDS
    taken = seconds(FEWEST_STEPS)
    while time.perf_counter() < warm:
        taken = seconds(FEWEST_STEPS)
    count = max(FEWEST_STEPS, round(FEWEST_STEPS * ROUND_SECONDS / taken))
    return statistics.median(seconds(count) for _ in range(ROUNDS)) * 1000 / count
