"""Updates that a model writes in primitive ops (training_info) train with a
scaled loss as without scaling. A skipped step changes none of their state.

SPDX-License-Identifier: Apache-2.0
"""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

BATCH, WIDTH, CLASSES = 32, 16, 4
TRAINING = "ai.onnx.preview.training"
PARAMETERS = ("w1", "w2")


def each(build):
    """Returns the nodes that `build` makes for both parameters' names."""
    return [node for name in PARAMETERS for node in build(name)]


def sgd(w, rate="rate"):
    """Follows the specification's example: w - rate * gradient."""
    return [
        helper.make_node("Mul", [rate, w + ".grad"], [w + ".move"], w + ".mul"),
        helper.make_node("Sub", [w, w + ".move"], [w + ".new"], w + ".sub"),
    ]


def exponentiated_gradient(w):
    """w * exp(-rate * gradient): no sum shows that w has no loss scale."""
    return [
        helper.make_node("Mul", ["rate", w + ".grad"], [w + ".d"], w + ".mul"),
        helper.make_node("Neg", [w + ".d"], [w + ".n"], w + ".neg"),
        helper.make_node("Exp", [w + ".n"], [w + ".e"], w + ".exp"),
        helper.make_node("Mul", [w, w + ".e"], [w + ".new"], w + ".scale"),
    ]


def rms(w):
    """Divides the gradient by the root of a running mean of squares."""
    return [
        helper.make_node("Mul", [w + ".grad"] * 2, [w + ".gg"], w + ".square"),
        helper.make_node("Mul", [w + ".gg", "tenth"], [w + ".g1"], w + ".new1"),
        helper.make_node("Mul", [w + ".v", "rest"], [w + ".v1"], w + ".old"),
        helper.make_node(
            "Add", [w + ".g1", w + ".v1"], [w + ".v.new"], w + ".average"
        ),
        helper.make_node("Sqrt", [w + ".v.new"], [w + ".root"], w + ".sqrt"),
        helper.make_node("Add", [w + ".root", "eps"], [w + ".den"], w + ".eps"),
        helper.make_node(
            "Div", [w + ".grad", w + ".den"], [w + ".step"], w + ".div"
        ),
        helper.make_node("Mul", ["rate", w + ".step"], [w + ".d"], w + ".rate"),
        helper.make_node("Sub", [w, w + ".d"], [w + ".new"], w + ".sub"),
    ]


def momentum():
    return helper.make_node(
        "Momentum",
        ["lr", "t", "w1", "w1.grad", "w1.v"],
        ["w1.new", "w1.v.new"],
        "momentum",
        domain=TRAINING,
        alpha=0.9,
        beta=1.0,
        norm_coefficient=0.0,
        mode="standard",
    )


def schedule_and_average():
    """Keeps a decaying learning rate, a count and an average of w1 as state."""
    return [
        helper.make_node("Add", ["t", "one"], ["t.new"], "count"),
        helper.make_node("Mul", ["lr", "decay"], ["lr.new"], "decay"),
        helper.make_node("Mul", ["w1.ema", "rest"], ["ema.old"], "ema.old"),
        helper.make_node("Mul", ["w1.new", "tenth"], ["ema.add"], "ema.add"),
        helper.make_node("Add", ["ema.old", "ema.add"], ["w1.ema.new"], "ema"),
    ]


ZEROS = {
    "w1.v": np.zeros((WIDTH, WIDTH), np.float32),
    "w2.v": np.zeros((WIDTH, CLASSES), np.float32),
}
MIX_STATE = {
    "w1.v": ZEROS["w1.v"],
    "lr": np.float32(0.00125),
    "t": np.int64(0),
    "w1.ema": np.full((WIDTH, WIDTH), 0.25, np.float32),
}
# The nodes of each update, its state besides the parameters, and its rate.
UPDATES = {
    "sgd": (each(sgd), {}, 0.0025),
    "exponentiated_gradient": (each(exponentiated_gradient), {}, 0.002),
    "rms": (each(rms), ZEROS, 0.002),
    "mix": (
        [momentum()] + sgd("w2", "lr") + schedule_and_average(),
        MIX_STATE,
        0.0,
    ),
}


def initial_values(name):
    random = np.random.RandomState(3)
    values = {
        "w1": random.standard_normal((WIDTH, WIDTH)) / 4,
        "w2": random.standard_normal((WIDTH, CLASSES)) / 4,
    }
    values = {k: v.astype(np.float32) for k, v in values.items()}
    return {**values, **UPDATES[name][1]}


def infos(values, suffix=""):
    return [
        helper.make_tensor_value_info(
            name + suffix,
            helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype),
            np.shape(value),
        )
        for name, value in values.items()
    ]


def make_model(name):
    """Returns a two-layer classifier whose loss is 8 times a sum over the
    batch. The scaled gradients overflow float16 at 2^16 and at some lower
    scales."""
    nodes, _, rate = UPDATES[name]
    state = initial_values(name)
    inference = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"], "fc1"),
            helper.make_node("Relu", ["h"], ["a"], "relu"),
            helper.make_node("MatMul", ["a", "w2"], ["logits"], "fc2"),
        ],
        "inference",
        [
            helper.make_tensor_value_info(
                "x", TensorProto.FLOAT, [BATCH, WIDTH]
            )
        ],
        [
            helper.make_tensor_value_info(
                "logits", TensorProto.FLOAT, [BATCH, CLASSES]
            )
        ],
        [numpy_helper.from_array(state[k], k) for k in PARAMETERS],
    )
    loss = [
        helper.make_node(
            "SoftmaxCrossEntropyLoss",
            ["logits", "labels"],
            ["sum"],
            "sum",
            reduction="sum",
        ),
        helper.make_node("Mul", ["sum", "eight"], ["loss"], "loss"),
        helper.make_node(
            "Gradient",
            ["w1", "w2", "x", "labels"],
            ["w1.grad", "w2.grad"],
            "gradient",
            domain=TRAINING,
            xs=PARAMETERS,
            zs=["x", "labels"],
            y="loss",
        ),
    ]
    constants = {
        "eight": np.float32(8),
        "rate": np.float32(rate),
        "tenth": np.float32(0.1),
        "rest": np.float32(0.9),
        "decay": np.float32(0.99),
        "eps": np.float32(1e-3),
        "one": np.int64(1),
    }
    constants.update({k: v for k, v in state.items() if k not in PARAMETERS})
    algorithm = helper.make_graph(
        loss + nodes,
        "step",
        [helper.make_tensor_value_info("labels", TensorProto.INT64, [BATCH])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
        + infos(state, ".new"),
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(
        inference,
        ir_version=8,
        opset_imports=[
            helper.make_opsetid("", 17),
            helper.make_opsetid(TRAINING, 1),
        ],
    )
    model.training_info.append(
        helper.make_training_info(
            algorithm, [(k, k + ".new") for k in state], None, None
        )
    )
    return model


def read_checkpoint(folder, step):
    """Returns the state of a checkpoint, raw bytes by name."""
    blob = (folder / f"step-{step}" / "state.safetensors").read_bytes()
    start = 8 + int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:start])
    header.pop("__metadata__", None)
    return {
        name: blob[start + entry["data_offsets"][0] :][
            : entry["data_offsets"][1] - entry["data_offsets"][0]
        ]
        for name, entry in header.items()
    }


def train(name, folder, precision, steps, *flags):
    random = np.random.RandomState(4)
    x = random.standard_normal((BATCH, WIDTH)).astype(np.float32)
    labels = (x @ random.standard_normal((WIDTH, CLASSES))).argmax(1)
    metrics, _ = mpctest.train(
        make_model(name),
        {"x": x, "labels": labels.astype(np.int64)},
        folder,
        *("--batch-size", BATCH, "--max-steps", steps, "--epochs", steps),
        *("--precision", precision, "--checkpoint-dir", folder / "states"),
        *("--checkpoint-every", "1", "--keep-checkpoints", steps),
        *flags,
    )
    return [m for m in metrics if m["event"] == "train"]


@pytest.fixture(name="run", scope="module", params=UPDATES)
def fixture_run(request, tmp_path_factory):
    """Returns the name of an update, the folder of a run with it, and its
    steps."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, folder, train(request.param, folder, "16-mixed", 32)


def test_own_update_trains_in_16_mixed_as_in_32_true(run, tmp_path):
    name, _, steps = run
    expected = train(name, tmp_path, "32-true", 20)
    losses = [s["loss"] for s in steps if not s["skipped"]][:20]
    assert len(losses) == 20 and steps[0]["loss_scale"] == 2.0**16
    np.testing.assert_allclose(
        losses, [s["loss"] for s in expected], rtol=2e-2
    )
    assert losses[-1] < 0.95 * losses[0]


def test_skipped_step_keeps_the_bits_of_all_state(run):
    name, folder, steps = run
    skipped = [s["skipped"] for s in steps]
    assert skipped[0] and not skipped[-1], "the test needs both kinds of step"
    model = initial_values(name)
    before = {k: np.asarray(v).tobytes() for k, v in model.items()}
    for number, step in enumerate(steps, 1):
        state = read_checkpoint(folder / "states", number)
        for variable in model:
            same = state[variable] == before[variable]
            assert same == step["skipped"], f"{variable}, step {number}"
        before = {variable: state[variable] for variable in model}
        assert np.frombuffer(state["mpc.micro_step"], np.int64) == number


def test_a_fixed_scale_is_taken_off_too(tmp_path):
    """A scale that was not removed would move w1 2^10 times as far in the first
    step."""
    train("sgd", tmp_path / "none", "32-true", 1)
    train("sgd", tmp_path / "fixed", "32-true", 1, "--loss-scale", "1024")
    plain = mpctest.read_weights(tmp_path / "none" / "trained.onnx")
    scaled = mpctest.read_weights(tmp_path / "fixed" / "trained.onnx")
    for name in PARAMETERS:
        np.testing.assert_allclose(scaled[name], plain[name], rtol=1e-5)
        assert np.abs(plain[name] - initial_values("sgd")[name]).max() > 1e-3
