"""Graphs that are a training step, with the new parameters as outputs, reach
the losses of the forward model with mpc's own gradients and updates.

SPDX-License-Identifier: Apache-2.0
"""

import copy

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import mpctest
from step_graphs import (
    BACKWARD,
    BATCH,
    CLASSES,
    HIDDEN,
    PARAMETERS,
    RATE,
    SPELT_LOSS_GRAD,
    STEPS,
    STEP_GRAPHS,
    each,
    fixture_digits,  # noqa: F401: pytest finds it here
    initial_parameters,
    make_forward_model,
    make_step_graph,
    microsoft_sgd,
    node,
    plain_sgd,
    spelt_adam,
    spelt_momentum,
    spelt_sgd,
    train,
    train_forward,
    value,
    zeros,
)


# Numbers in the other step graphs are float32.
@pytest.mark.parametrize(
    "name, precision, bound",
    [(name, "32-true", 2e-6) for name in STEP_GRAPHS]
    + [("spelt_sgd", "64-true", 1e-12)],
)
def test_step_graph_trains_as_the_forward_model(
    name, precision, bound, digits, tmp_path
):
    backward, update, state, optimizer = STEP_GRAPHS[name]
    how = {"precision": precision, "rate": 0.01 if "adam" in name else RATE}
    losses, weights = train(
        make_step_graph(backward, update, state),
        digits,
        tmp_path / "step",
        **how,
    )
    expected, trained = train_forward(
        digits, tmp_path / "forward", *optimizer, **how
    )
    np.testing.assert_allclose(losses, expected, rtol=bound)
    assert losses[-1] < losses[0] - 0.2
    for parameter in PARAMETERS:
        np.testing.assert_allclose(
            weights[parameter], trained[parameter], rtol=1e-4, atol=1e-6
        )


def test_spelt_adam_trains_as_its_equations(digits, tmp_path):
    losses, _ = train(
        make_step_graph(BACKWARD, each(spelt_adam), zeros("_m", "_v")),
        digits,
        tmp_path,
        rate=0.002,
    )
    p = {k: v.astype(np.float64) for k, v in initial_parameters().items()}
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(v) for k, v in p.items()}
    expected = []
    for rows in range(0, BATCH * STEPS, BATCH):
        x = digits["x"][rows : rows + BATCH].astype(np.float64)
        labels = digits["labels"][rows : rows + BATCH]
        a = np.maximum(x @ p["w1"] + p["b1"], 0)
        logits = a @ p["w2"] + p["b2"]
        log_prob = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        expected.append(-log_prob[np.arange(BATCH), labels].mean())
        d = (np.exp(log_prob) - np.eye(CLASSES)[labels]) / BATCH
        d_h = d @ p["w2"].T * (a > 0)
        gradients = {
            "w1": x.T @ d_h,
            "b1": d_h.sum(0),
            "w2": a.T @ d,
            "b2": d.sum(0),
        }
        for k, g in gradients.items():
            m[k] = 0.9 * m[k] + 0.1 * g
            v[k] = 0.999 * v[k] + 0.001 * g * g
            p[k] = p[k] - 0.002 * m[k] / (np.sqrt(v[k]) + 1e-8)
    np.testing.assert_allclose(losses, expected, rtol=2e-4)


def test_what_updates_what_is_found_without_names(digits, tmp_path):
    """Each new value is an output `out_...`, a name without meaning."""
    backward, update, state, optimizer = STEP_GRAPHS["spelt_momentum"]
    names = {}

    def rename(name):
        if not name.endswith("_new"):
            return name
        return names.setdefault(name, f"out_{len(names)}")

    losses, _ = train(
        make_step_graph(backward, update, state, rename),
        digits,
        tmp_path / "step",
    )
    expected, _ = train_forward(digits, tmp_path / "forward", *optimizer)
    np.testing.assert_allclose(losses, expected, rtol=2e-6)


def test_a_scaled_loss_trains_as_an_unscaled_one(digits, tmp_path):
    backward, update, state, _ = STEP_GRAPHS["spelt_sgd"]
    model = make_step_graph(backward, update, state)
    losses, _ = train(model, digits, tmp_path / "mixed", precision="16-mixed")
    expected, _ = train(model, digits, tmp_path / "full")
    np.testing.assert_allclose(losses, expected, rtol=1e-2)


# Gradients that underflow float16 need a loss scale at the start of the
# backward pass. One start has a name that mpc knows. Only the values computed
# from the other start show it.
SMALL = 2.0**20
NAMED_START = copy.deepcopy(BACKWARD)
NAMED_START[0].output[0] = "unscaled_grad"
NAMED_START.insert(1, node("Div", ["unscaled_grad", "batch"], ["logits_grad"]))
STARTS = {"named": NAMED_START, "found": SPELT_LOSS_GRAD}


def make_small(backward, update):
    """Returns the model with its loss gradient's divisor multiplied by SMALL."""
    model = make_step_graph(backward, update, {})
    for tensor in model.graph.initializer:
        if tensor.name == "batch":
            divisor = numpy_helper.to_array(tensor) * np.float32(SMALL)
            tensor.CopyFrom(numpy_helper.from_array(divisor, "batch"))
    return model


@pytest.mark.parametrize("start", STARTS)
def test_gradients_too_small_for_float16_train_by_the_loss_scale(
    start, digits, tmp_path
):
    model = make_small(STARTS[start], each(spelt_sgd))
    rate = SMALL * RATE * (BATCH if start == "named" else 1)
    expected, weights = train(model, digits, tmp_path / "full", rate=rate)
    how = {"precision": "16-mixed", "rate": rate}
    losses, scaled = train(model, digits, tmp_path / "mixed", **how)
    np.testing.assert_allclose(losses, expected, rtol=1e-2)
    for parameter in PARAMETERS:
        error = np.abs(scaled[parameter] - weights[parameter]).max()
        assert error < 2e-3, parameter
    # Without a loss scale the gradients are zero in float16, and no weight
    # moves.
    losses, lost = train(
        model, digits, tmp_path / "none", "--loss-scale", "none", **how
    )
    np.testing.assert_array_equal(lost["w1"], initial_parameters()["w1"])


def clipped_sgd(p):
    """Divides gradients by their norm, which is taken after unscaling."""
    return [
        node("ReduceL2", [p + "_grad"], [p + "_norm"], keepdims=0),
        node("Max", [p + "_norm", "least"], [p + "_bound"]),
        node("Div", [p + "_grad", p + "_bound"], [p + "_clipped"]),
        node("Mul", ["lr", p + "_clipped"], [p + "_move"]),
        node("Sub", [p, p + "_move"], [p + "_new"]),
    ]


@pytest.mark.parametrize("name", ["spelt_sgd", "spelt_loss_grad"])
def test_norms_of_gradients_are_of_the_update(name, digits, tmp_path):
    backward = STEP_GRAPHS[name][0]
    model = make_step_graph(backward, each(clipped_sgd), {})
    expected, weights = train(model, digits, tmp_path / "full")
    losses, scaled = train(
        model, digits, tmp_path / "mixed", precision="16-mixed"
    )
    np.testing.assert_allclose(losses, expected, rtol=1e-2)
    for parameter in PARAMETERS:
        error = np.abs(scaled[parameter] - weights[parameter]).max()
        assert error < 5e-3, parameter


def test_an_overflow_changes_no_state_where_the_start_was_found(digits, tmp_path):
    """The second of three batches overflows. The third step is the same as
    without the second batch."""
    backward = STEP_GRAPHS["spelt_loss_grad"][0]
    model = make_step_graph(backward, each(spelt_momentum), zeros("_v"))

    def fit(folder, batches):
        rows = np.concatenate([np.arange(BATCH) + BATCH * i for i in batches])
        data = {name: array[rows] for name, array in digits.items()}
        data["x"] = np.where((rows // BATCH == 1)[:, None], 1e6, data["x"])
        metrics, weights = mpctest.train(
            model,
            {**data, "x": data["x"].astype(np.float32)},
            tmp_path / folder,
            *("--batch-size", BATCH, "--epochs", 1, "--lr", RATE),
            *("--precision", "16-mixed"),
        )
        steps = [m["skipped"] for m in metrics if m["event"] == "train"]
        return steps, weights

    skipped, weights = fit("overflow", [0, 1, 2])
    assert skipped == [False, True, False]
    _, expected = fit("without", [0, 2])
    for parameter in PARAMETERS:
        error = np.abs(weights[parameter] - expected[parameter]).max()
        assert error < 1e-4, parameter


def test_gradients_that_meet_nowhere_take_no_loss_scale(digits, tmp_path):
    """The last layer's gradients come from one loss, and the first layer's from
    another."""
    backward = copy.deepcopy(SPELT_LOSS_GRAD)
    for n in backward:
        if n.output[0] == "a_grad":
            n.input[0] = "smooth_grad"
    backward[4:4] = [
        node("OneHot", ["labels", "depth", "smooth"], ["smooth_hot"]),
        node("Sub", ["prob", "smooth_hot"], ["smooth_difference"]),
        node("Div", ["smooth_difference", "batch"], ["smooth_grad"]),
    ]
    np.savez(tmp_path / "data.npz", **digits)
    model = make_step_graph(backward, each(spelt_sgd), {})
    onnx.save(model, tmp_path / "model.onnx")
    found = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *("--precision", "16-mixed"),
    )
    assert found.returncode == 4
    assert "node '" in found.stderr
    assert (
        "cannot apply a loss scale to the model's own backward pass: found no "
        "value to scale, because all gradients must be proportional to one "
        "value that depends on all parameters" in found.stderr
    )
    assert "use --precision bf16-mixed, or --loss-scale none" in found.stderr


def test_parameters_may_be_inputs_with_values(digits, tmp_path):
    backward, update, state, _ = STEP_GRAPHS["microsoft_sgd"]
    model = make_step_graph(backward, update, state)
    expected, _ = train(model, digits, tmp_path / "initializers")
    np.savez(tmp_path / "weights.npz", **initial_parameters())
    for parameter, shape in PARAMETERS.items():
        model.graph.input.append(value(parameter, TensorProto.FLOAT, shape))
    kept = [t for t in model.graph.initializer if t.name not in PARAMETERS]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    forward = tmp_path / "forward.onnx"
    onnx.save(make_forward_model(), forward)
    losses, _ = train(
        model,
        digits,
        tmp_path / "inputs",
        *("--weights", tmp_path / "weights.npz", "--export-model", forward),
    )
    np.testing.assert_array_equal(losses, expected)


def test_an_update_that_may_be_of_two_states_is_refused(tmp_path):
    """Both sums read both states, and no name tells which sum updates which
    state."""
    update = each(spelt_sgd) + [
        node("Add", ["ema_a", "ema_b"], ["sum"]),
        node("Mul", ["sum", "mu"], ["out_0"]),
        node("Mul", ["sum", "rest1"], ["out_1"]),
    ]
    state = {n: np.ones((HIDDEN,), np.float32) for n in ("ema_a", "ema_b")}
    names = {"ema_a_new": "out_0", "ema_b_new": "out_1"}
    model = make_step_graph(
        BACKWARD, update, state, lambda name: names.get(name, name)
    )
    onnx.save(model, tmp_path / "model.onnx")
    found = mpctest.mpc("compile", tmp_path / "model.onnx", "-o", tmp_path / "a")
    assert found.returncode == 4
    assert (
        "output 'out_0' may be the next value of 'ema_a' or 'ema_b'; call it "
        "'ema_a_new' where it is that of 'ema_a'" in found.stderr
    )


def test_what_was_recognised_is_said_and_can_be_declined(digits, tmp_path):
    backward, update, state, _ = STEP_GRAPHS["microsoft_sgd"]
    model = make_step_graph(backward, update, state)
    onnx.save(model, tmp_path / "model.onnx")
    found = mpctest.mpc_ok(
        "compile", tmp_path / "model.onnx", "-o", tmp_path / "artifact"
    )
    assert (
        "note: " + str(tmp_path / "model.onnx") + ": taken as a training step "
        "with an optimizer of its own (by its optimizer nodes); it trains w1 <- w1_new, b1 <- b1_new, "
        "w2 <- w2_new, b2 <- b2_new; --as-exported takes the graph as it is"
        in found.stderr
    )
    batch = {k: v[:BATCH] for k, v in digits.items()}
    outputs = mpctest.run(
        model, {**batch, "lr": np.float32(RATE)}, tmp_path, "--as-exported"
    )
    assert set(outputs) == {"loss"} | {p + "_new" for p in PARAMETERS}
    assert not np.array_equal(outputs["w1_new"], initial_parameters()["w1"])


@pytest.mark.parametrize(
    "flags",
    [
        ("--freeze", "w1"),
        ("--gradient-clip-val", "1"),
        ("--accumulate-grad-batches", "2"),
    ],
    ids=lambda flags: flags[0],
)
def test_flags_that_say_nothing_to_the_graphs_optimizer_are_refused(
    flags, digits, tmp_path
):
    backward, update, state, _ = STEP_GRAPHS["microsoft_sgd"]
    onnx.save(make_step_graph(backward, update, state), tmp_path / "model.onnx")
    np.savez(tmp_path / "data.npz", **digits)
    found = mpctest.mpc(
        *("train", tmp_path / "model.onnx", "--data", tmp_path / "data.npz"),
        *flags,
    )
    assert found.returncode == 2
    assert (
        f"{flags[0]} has no effect: the model is a training graph with an optimizer of its own"
        in found.stderr
    )


@pytest.mark.parametrize(
    "flag",
    [("--lr", "0.5"), ("--lr-scheduler", "cosine"), ("--warmup-steps", "3")],
)
def test_flags_of_a_rate_that_is_the_graphs_are_refused(flag, digits, tmp_path):
    model = make_step_graph(BACKWARD, each(plain_sgd), {})
    onnx.save(model, tmp_path / "step.onnx")
    np.savez(tmp_path / "data.npz", **digits)
    process = mpctest.mpc(
        *("train", tmp_path / "step.onnx", "--data", tmp_path / "data.npz"),
        *("--output", tmp_path / "trained.onnx", *flag),
    )
    assert process.returncode == 2, process.stderr
    assert f"error: {flag[0]} has no effect: " in process.stderr
    assert "has its own optimizer with a fixed learning rate" in (
        process.stderr
    )
    assert not (tmp_path / "trained.onnx").exists()


def test_no_rate_is_reported_that_is_not_known(digits, tmp_path):
    model = make_step_graph(BACKWARD, each(plain_sgd), {})
    metrics, _ = mpctest.train(model, digits, tmp_path, "--max-steps", 2)
    assert metrics[0]["event"] == "start"
    assert metrics[0]["learning_rate"] is None
    rates = [m["lr"] for m in metrics if m["event"] == "train"]
    assert rates == [None, None]
