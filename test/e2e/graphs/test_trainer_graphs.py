"""Steps of ONNX Runtime's trainer follow the equations in float64. Their
optimizers take a loss scale, a finiteness flag and the gradient norm as inputs.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mpctest
from step_graphs import (
    BACKWARD,
    BATCH,
    CLASSES,
    CONSTANTS,
    FORWARD,
    LOSS,
    MICROSOFT,
    PARAMETERS,
    STEPS,
    fixture_digits,  # noqa: F401: pytest finds it here
    initial_parameters,
    make_model,
    node,
    value,
    zeros,
)

RATE, MAX_NORM = 0.01, 0.5
BOUND = {"32-true": 1e-4, "bf16-mixed": 3e-2, "16-mixed": 1e-2}
# The condition number of the loss, which bounds its error.
CONDITION = {"adam": 2.0, "lamb": 2.3}


def microsoft(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, MICROSOFT, **attributes)


GRADIENTS = [p + "_grad" for p in PARAMETERS]
SCALED = [p + "_scaled" for p in PARAMETERS]
# Nodes that scale the loss, unscale the gradients, and compute their norm.
AROUND = [
    node("Mul", ["loss", "loss_scale"], ["scaled"]),
    node("Mul", ["scaled_grad", "loss_scale"], ["loss_grad"]),
    *BACKWARD,
    microsoft("MixedPrecisionScale", ["whole", *GRADIENTS], SCALED, to=1),
    microsoft("ReduceAllL2", SCALED, ["norm"]),
]
FINITE = microsoft("IsAllFinite", SCALED, ["signal"])
OF_NORM = [
    microsoft("IsFinite", ["norm"], ["is_finite"]),
    microsoft("All", ["is_finite"], ["signal"]),
]
HIGH = [node("Greater", ["loss", "bound"], ["signal"])]


def adam(signal):
    nodes = list(signal)
    for p in PARAMETERS:
        state = [p, p + "_scaled", p + "_m", p + "_v"]
        rest = ["", "loss_scale", "norm", "signal"]
        nodes.append(
            microsoft(
                "AdamOptimizer",
                ["lr", p + "_t", *state, *rest],
                [p + s for s in ("_t_new", "_m_new", "_v_new", "_new")],
                max_norm_clip=MAX_NORM,
                **{"lambda": 0.01},
            )
        )
    done = [p + "_new" for p in PARAMETERS]
    return [*nodes, microsoft("Group", done, ["done"])]


def lamb(signal):
    groups, outputs = [], []
    for p in PARAMETERS:
        groups += [p, p + "_scaled", p + "_m", p + "_v", ""]
        outputs += [p + "_new", "", p + "_m_new", p + "_v_new", ""]
    count = len(PARAMETERS)
    update = microsoft(
        "LambOptimizer",
        ["signal", "loss_scale", "norm", "lr", "t", *groups],
        ["t_new", *outputs],
        alpha=[0.9] * count,
        beta=[0.999] * count,
        epsilon=[1e-6] * count,
        max_norm_clip=[MAX_NORM] * count,
        ratio_max=8.0,
        **{"lambda": [0.01] * count},
    )
    return [*signal, update, microsoft("Group", ["t_new"], ["done"])]


UPDATES = {"adam": adam, "lamb": lamb}
ONE = np.array([1], np.int64)
STATE = {
    "adam": {p + "_t": ONE for p in PARAMETERS} | zeros("_m", "_v"),
    "lamb": {"t": ONE} | zeros("_m", "_v"),
}


def make(name, signal, outputs=()):
    tensors = {
        **initial_parameters(),
        **CONSTANTS,
        **STATE[name],
        "scaled_grad": np.float32(1),
        "whole": np.float32(1),
        "bound": np.float32(CONDITION[name]),
    }
    del tensors["loss_grad"]
    return make_model(
        [*FORWARD, LOSS, *AROUND, *UPDATES[name](signal)],
        [
            value("labels", TensorProto.INT64, [BATCH]),
            value("lr", TensorProto.FLOAT, [1]),
            value("loss_scale", TensorProto.FLOAT, []),
        ],
        [
            value("loss", TensorProto.FLOAT, []),
            *outputs,
            value("done", TensorProto.BOOL, []),
        ],
        tensors,
    )


def differentiate(p, x, labels):
    """Returns the loss of a batch and its gradients."""
    a = np.maximum(x @ p["w1"] + p["b1"], 0)
    logits = a @ p["w2"] + p["b2"]
    log_prob = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    d = (np.exp(log_prob) - np.eye(CLASSES)[labels]) / BATCH
    d_h = d @ p["w2"].T * (a > 0)
    gradients = {"w1": x.T @ d_h, "b1": d_h.sum(0), "w2": a.T @ d}
    gradients["b2"] = d.sum(0)
    return -log_prob[np.arange(BATCH), labels].mean(), gradients


def expect(name, digits, condition=0):
    p = {k: v.astype(np.float64) for k, v in initial_parameters().items()}
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(v) for k, v in p.items()}
    losses, t, clipped = [], 1, 0
    for rows in range(0, BATCH * STEPS, BATCH):
        x = digits["x"][rows : rows + BATCH].astype(np.float64)
        loss, gradients = differentiate(
            p, x, digits["labels"][rows : rows + BATCH]
        )
        losses.append(loss)
        if loss <= condition:
            continue
        norm = np.sqrt(sum((g * g).sum() for g in gradients.values()))
        clipped += norm > MAX_NORM
        for k, g in gradients.items():
            g = g / max(1, norm / MAX_NORM)
            m[k] = 0.9 * m[k] + 0.1 * g
            v[k] = 0.999 * v[k] + 0.001 * g * g
            m_hat, v_hat = m[k] / (1 - 0.9**t), v[k] / (1 - 0.999**t)
            epsilon = 1e-8 if name == "adam" else 1e-6
            d = m_hat / (np.sqrt(v_hat) + epsilon) + 0.01 * p[k]
            ratio = 1
            if name == "lamb" and p[k].any():
                ratio = min(8, np.linalg.norm(p[k]) / np.linalg.norm(d))
            p[k] = p[k] - RATE * ratio * d
        t += 1
    return np.array(losses), p, t, clipped


def train(model, data, folder, precision, *flags):
    metrics, weights = mpctest.train(
        model,
        data,
        folder,
        *("--batch-size", BATCH, "--max-steps", STEPS, "--lr", RATE),
        *("--precision", precision, *flags),
    )
    return np.array(mpctest.losses(metrics)), weights


@pytest.mark.parametrize("precision", BOUND)
@pytest.mark.parametrize("signal", [[FINITE], OF_NORM], ids=["all", "norm"])
@pytest.mark.parametrize("name", UPDATES)
def test_trains_as_its_equations(name, signal, precision, digits, tmp_path):
    losses, weights = train(make(name, signal), digits, tmp_path, precision)
    expected, p, _, clipped = expect(name, digits)
    assert 0 < clipped < STEPS
    np.testing.assert_allclose(losses, expected, rtol=BOUND[precision])
    if precision == "32-true":
        for k in PARAMETERS:
            np.testing.assert_allclose(weights[k], p[k], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
@pytest.mark.parametrize("name", UPDATES)
def test_a_false_signal_changes_no_state(name, precision, digits, tmp_path):
    losses, weights = train(make(name, HIGH), digits, tmp_path, precision)
    expected, p, t, _ = expect(name, digits, CONDITION[name])
    assert 1 < t - 1 < STEPS
    bound = BOUND[precision]
    np.testing.assert_allclose(losses, expected, rtol=bound)
    for k in PARAMETERS:
        np.testing.assert_allclose(weights[k], p[k], rtol=bound, atol=bound)


def test_the_test_of_gradients_may_be_an_output(digits, tmp_path):
    model = make("adam", [FINITE], [value("signal", TensorProto.BOOL, [])])
    losses, _ = train(model, digits, tmp_path, "32-true")
    np.testing.assert_allclose(losses, expect("adam", digits)[0], rtol=1e-4)


def test_outputs_in_one_buffer_are_refused(tmp_path):
    model = make("adam", [FINITE])
    for n in model.graph.node:
        if n.op_type == "MixedPrecisionScale":
            n.attribute.append(helper.make_attribute("fuse_outputs", 1))
    onnx.save(model, tmp_path / "model.onnx")
    process = mpctest.mpc("compile", tmp_path / "model.onnx", "--emit=import")
    assert process.returncode == 4, process.stderr
    assert (
        "attribute 'fuse_outputs' makes one tensor of all outputs; export the "
        "graph without it" in process.stderr
    )
