"""Runs training steps of an artifact on given batches: the same code makes the
reference on the CPU and the result on the GPU.

SPDX-License-Identifier: Apache-2.0
"""

import hashlib

import numpy as np

LEARNING_RATE = 1e-3


def bind(session, function, arrays):
    """Sets the inputs that `arrays` has, and the learning rate."""
    for info in session.inputs(function):
        if info.name in arrays:
            value = arrays[info.name].astype(info.dtype)
        elif info.role == "scalar":
            value = np.full(info.shape, LEARNING_RATE, info.dtype)
        else:
            raise KeyError(f"no array for input '{info.name}'")
        session.set_input(function, info.name, value)


def run_steps(session, batches):
    """One step on each batch. Returns lists by the outputs' roles ("loss",
    "finite", "loss_scale"), as floats."""
    outputs = session.outputs("step")
    results = {info.role: [] for info in outputs if info.shape == ()}
    for batch in batches:
        bind(session, "step", batch)
        session.run("step")
        for info in outputs:
            if info.shape == ():
                value = session.output("step", info)
                results[info.role].append(float(value))
    return results


def digest(session):
    """A hash of every bit of the session's state."""
    hashed = hashlib.sha256()
    for info in session.states():
        hashed.update(session.state(info).tobytes())
    return hashed.hexdigest()
