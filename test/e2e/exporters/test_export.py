"""The trained file is the input model with new weights, and other programs run
it.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import mpctest


@pytest.fixture(scope="module", params=["digits-cnn", "resnet", "mlp"])
def trained(request, tmp_path_factory):
    """Returns (input model's path, trained model's path, last evaluation)."""
    folder = tmp_path_factory.mktemp("export")
    model = mpctest.MODELS / f"{request.param}.onnx"
    output, metrics = folder / "trained.onnx", folder / "metrics.jsonl"
    mpctest.mpc_ok(
        *("train", model, "--data", mpctest.DIGITS / "digits-train.npz"),
        *("--val-data", mpctest.DIGITS / "digits-test.npz"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--batch-size", "32", "--epochs", "4", "--seed", "3"),
        *("--precision", "bf16-mixed"),
        *("--output", output, "--metrics", metrics),
    )
    events = mpctest.read_metrics(metrics)
    return model, output, [e for e in events if e["event"] == "eval"][-1]


def without_weights(path):
    """Loads a model, without the elements of its weights and without the record
    of its training."""
    model = onnx.load(path)
    mpctest.drop_record(model)
    for initializer in model.graph.initializer:
        shape, dtype = initializer.dims, initializer.data_type
        name = initializer.name
        initializer.Clear()
        initializer.name, initializer.data_type = name, dtype
        initializer.dims.extend(shape)
    return model


def test_passes_the_checker(trained):
    onnx.checker.check_model(onnx.load(trained[1]), full_check=True)


def test_differs_from_the_input_in_weights_only(trained):
    assert without_weights(trained[1]) == without_weights(trained[0])
    before = mpctest.read_weights(trained[0])
    after = mpctest.read_weights(trained[1])
    for name, values in before.items():
        changed = np.any(after[name] != values)
        assert changed == (name != "pixel_max"), name
        assert np.isfinite(after[name]).all()


def test_runs_in_onnxruntime_with_the_same_accuracy(trained):
    digits = np.load(mpctest.DIGITS / "digits-test.npz")
    session = onnxruntime.InferenceSession(trained[1])
    (logits,) = session.run(None, {"image": digits["image"].astype(np.float32)})
    right = np.count_nonzero(logits.argmax(1) == digits["target"])
    evaluation = trained[2]
    # mpc evaluated in bfloat16: one image may be classified differently.
    mpc_right = evaluation["eval_accuracy"] * len(logits)
    assert abs(right - mpc_right) <= 2
    assert right / len(logits) > 0.9


def test_has_the_weights_that_were_given(tmp_path):
    """Frozen weights are exported with the values from --weights."""
    model = mpctest.MODELS / "mlp.onnx"
    before = mpctest.read_weights(model)
    given = {"fc1.weight": before["fc1.weight"] + np.float32(0.5)}
    np.savez(tmp_path / "weights.npz", **given)
    _, after = mpctest.train(
        model,
        mpctest.DIGITS / "digits-train.npz",
        tmp_path / "run",
        *("--weights", tmp_path / "weights.npz", "--freeze", "^fc1"),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--batch-size", "32", "--max-steps", "2"),
    )
    np.testing.assert_array_equal(after["fc1.weight"], given["fc1.weight"])
    np.testing.assert_array_equal(after["fc1.bias"], before["fc1.bias"])
    assert np.any(after["fc2.weight"] != before["fc2.weight"])


def test_has_the_numbers_that_were_given(tmp_path):
    """A scalar that only scales, and integers, are constants of the step.
    Values from --weights replace them in the computation and in the written
    file."""
    values = {
        "scale": np.float32(2.0),
        "columns": np.array([0, 1], np.int64),
        "w": np.eye(2, dtype=np.float32),
    }
    model = mpctest.make_model(
        [
            helper.make_node("Gather", ["x", "columns"], ["chosen"], axis=1),
            helper.make_node("Mul", ["chosen", "scale"], ["scaled"]),
            helper.make_node("MatMul", ["scaled", "w"], ["y"]),
        ],
        {"x": (np.float32, [4, 3])},
        {"y": (np.float32, [4, 2])},
        values,
    )
    rng = np.random.default_rng(0)
    data = {key: rng.standard_normal((4, n)) for key, n in {"x": 3, "target": 2}.items()}
    data = {key: value.astype(np.float32) for key, value in data.items()}
    given = {"scale": np.float32(-3.5), "columns": np.array([2, 0], np.int64)}
    np.savez(tmp_path / "weights.npz", **given)
    metrics, after = mpctest.train(
        model,
        data,
        tmp_path / "run",
        *("--weights", tmp_path / "weights.npz", "--loss", "mse"),
        *("--precision", "32-true", "--batch-size", "4", "--max-steps", "1"),
    )
    expected = data["x"][:, given["columns"]] * given["scale"] - data["target"]
    assert np.isclose(mpctest.losses(metrics)[0], np.mean(expected**2), rtol=1e-5)
    for name, value in given.items():
        np.testing.assert_array_equal(after[name], value)
    # A file of arrays can hold the scalar and the integers too.
    mpctest.mpc_ok(
        *("train", tmp_path / "run" / "model.onnx", "--loss", "mse"),
        *("--data", tmp_path / "run" / "data.npz", "--batch-size", "4"),
        *("--weights", tmp_path / "weights.npz", "--max-steps", "1"),
        *("--output", tmp_path / "trained.npz"),
    )
    assert np.load(tmp_path / "trained.npz")["scale"] == given["scale"]
