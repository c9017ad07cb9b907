"""Trainers, evaluations and files of weights of python/runtime/mpc_runtime do
what the command does.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.numpy

import mpc_runtime as mpc
from conftest import MODEL, RECIPE, load_digits


def cut(digits, count):
    """Returns `count` batches of 32 in order."""
    return [
        {name: array[i : i + 32] for name, array in digits.items()}
        for i in range(0, 32 * count, 32)
    ]


@pytest.fixture(name="batches")
def six_batches(digits):
    return cut(digits, 6)


def new_session(artifact):
    return mpc.Session(artifact, threads=1)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "step:2:0.5", "one-cycle"])
def test_schedules_are_those_of_the_command(artifact, digits, batches, schedule):
    data = {name: array[: 6 * 32] for name, array in digits.items()}
    options = {"lr_scheduler": schedule}
    if schedule != "one-cycle":
        options |= {"min_lr": 1e-4, "warmup_steps": 2}
    flags = {**RECIPE, **options, "lr": 0.01, "precision": "bf16-mixed"}
    with pytest.warns(mpc.CommandWarning):
        events = mpc.train(MODEL, data, no_shuffle=True, threads=1, **flags).wait()
    expected = [(e["lr"], e["loss"]) for e in events if e["event"] == "train"]
    with new_session(artifact) as session:
        with mpc.Trainer(
            session, learning_rate=0.01, total_steps=6, **options
        ) as trainer:
            results = [trainer.step(batch) for batch in batches]
    found = [(result.learning_rate, float(result)) for result in results]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert all(result.is_step and not result.skipped for result in results)


def test_a_resumed_run_has_the_same_bits(artifact, batches, tmp_path):
    options = {"lr_scheduler": "cosine", "total_steps": 6, "data": "digits"}
    options["checkpoint_dir"] = tmp_path / "checkpoints"
    with new_session(artifact) as whole:
        with mpc.Trainer(whole, lr_scheduler="cosine", total_steps=6) as trainer:
            expected = [trainer.step(batch).loss for batch in batches]
        losses = []
        with new_session(artifact) as session:
            with mpc.Trainer(session, resume="auto", **options) as trainer:
                losses += [trainer.step(batch).loss for batch in batches[:3]]
                trainer.save()
        assert (tmp_path / "checkpoints" / "step-3").is_dir()
        with new_session(artifact) as session:
            with pytest.raises(mpc.UsageError):
                mpc.Trainer(session, **options)
            with mpc.Trainer(session, resume="auto", **options) as trainer:
                progress = trainer.progress
                assert (progress.step, progress.batches) == (3, 3)
                losses += [trainer.step(batch).loss for batch in batches[3:]]
            for name, value in whole.state.items():
                np.testing.assert_array_equal(session.state[name], value)
    assert losses == expected


def test_checkpoints_are_those_of_the_command(artifact, batches, tmp_path):
    folder = tmp_path / "checkpoints"
    with new_session(artifact) as session:
        with mpc.Trainer(session, checkpoint_dir=folder) as trainer:
            for batch in batches:
                trainer.step(batch)
            trainer.save()
        with new_session(artifact) as other:
            other.load(folder)
            weights = session.state.parameters()
            for name, weight in other.state.parameters().items():
                np.testing.assert_array_equal(weight, weights[name])
        figures = session.evaluate(load_digits("test"))
    found = mpc.evaluate(
        MODEL,
        load_digits("test"),
        checkpoint=folder / "step-6",
        loss=RECIPE["loss"],
        precision="bf16-mixed",
        batch_size=32,
    )
    assert figures["samples"] == found["eval_samples"] == 359
    assert figures["loss"] == pytest.approx(found["eval_loss"], rel=1e-6)
    assert figures["accuracy"] == pytest.approx(found["eval_accuracy"], rel=1e-6)


def test_other_runs_do_not_resume(artifact, batches, tmp_path):
    options = {"checkpoint_dir": tmp_path, "resume": "auto"}
    with new_session(artifact) as session:
        with mpc.Trainer(session, data="a", **options) as trainer:
            trainer.step(batches[0])
            trainer.save()
            with new_session(artifact) as other, pytest.raises(mpc.FileError):
                mpc.Trainer(other, data="a", **options)
        with pytest.raises(mpc.CheckpointError):
            mpc.Trainer(session, data="b", **options)
        with mpc.Trainer(session, data="a", learning_rate=0.5, **options) as trainer:
            assert any("learning rate" in note for note in trainer.notes)


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.npz"])
def test_weights_move_through_files(artifact, batches, tmp_path, name):
    with new_session(artifact) as session, new_session(artifact) as other:
        with mpc.Trainer(session) as trainer:
            trainer.step(batches[0])
        session.save(tmp_path / name)
        other.load(tmp_path / name)
        np.testing.assert_array_equal(
            other.state["fc2.weight.low"], session.state["fc2.weight.low"]
        )
        if name.endswith("safetensors"):
            arrays = safetensors.numpy.load_file(tmp_path / name)
            np.testing.assert_array_equal(
                arrays["bn1.running_mean"], session.state["bn1.running_mean"]
            )
        with pytest.raises(mpc.UsageError):
            session.save(tmp_path / "weights.txt")
        with pytest.raises(mpc.FileError):
            session.save(tmp_path / "nowhere" / name)
        with pytest.raises(mpc.FileError):
            session.load(tmp_path / "nowhere.npz")


def test_a_trained_model_becomes_onnx(artifact, batches, tmp_path):
    path = tmp_path / "trained.onnx"
    with new_session(artifact) as session:
        with mpc.Trainer(session) as trainer:
            for batch in batches:
                trainer.step(batch)
        session.save(path)
        values = {i.name: i for i in onnx.load(path).graph.initializer}
        for name, weight in session.state.parameters().items():
            found = onnx.numpy_helper.to_array(values[name])
            np.testing.assert_array_equal(found, weight)
        served = onnxruntime.InferenceSession(path)
        image = batches[0]["image"].astype(np.float32)
        (scores,) = served.run(["logits"], {"image": image})
        expected = session.eval(batches[0])["prediction"]
    # The session computes in bf16.
    np.testing.assert_allclose(scores, expected, atol=0.1)


def test_evaluations_do_not_depend_on_the_division(artifact):
    data = load_digits("test")
    parts = [
        {name: array[i:end] for name, array in data.items()}
        for i, end in ((0, 7), (7, 100), (100, 359))
    ]
    with new_session(artifact) as session:
        whole = session.evaluate(data, ["top3", "f1"])
        assert session.evaluate(parts, ["top3", "f1"]) == whole
        assert session.evaluate([list(data.values())], ["top3", "f1"]) == whole
        assert whole["top3"] >= whole["accuracy"]
        for wrong, error in [
            ({"image": data["image"]}, mpc.UsageError),
            ({"image": data["image"], "target": data["target"][:9]}, mpc.Error),
            ({**data, "target": data["target"] + 10}, mpc.InvalidInputError),
            ([], mpc.UsageError),
        ]:
            with pytest.raises(error):
                session.evaluate(wrong)
        with pytest.raises(mpc.UsageError):
            session.evaluate(data, "nope")
        with pytest.raises(TypeError):
            session.evaluate([3])
        assert session.evaluate(data, ["top3", "f1"]) == whole


def test_evaluations_decide(artifact, batches, tmp_path):
    """Best weights, early stopping and a plateau follow evaluations."""
    data = load_digits("test")
    options = {"best": "accuracy", "early_stopping": "loss:1"}
    with new_session(artifact) as session:
        with mpc.Trainer(session, checkpoint_dir=tmp_path, **options) as trainer:
            for batch in batches:
                trainer.step(batch)
            first = trainer.evaluate(data)
            assert first["is_best"] and not first["should_stop"]
            assert (tmp_path / "best").resolve().name == "step-6"
            weights = session.state.parameters()
            trainer.set_learning_rate(10.0)
            for batch in batches[:2]:
                trainer.step(batch)
                figures = trainer.evaluate(data)
            assert figures["should_stop"] and not figures["is_best"]
            assert trainer.restore_best() == 6
            with pytest.raises(mpc.UsageError):
                trainer.step(batches[0])
        for name, weight in session.state.parameters().items():
            np.testing.assert_array_equal(weight, weights[name])
    with new_session(artifact) as session:
        schedule = "plateau:0.5:0:min:loss"
        with mpc.Trainer(session, lr_scheduler=schedule) as trainer:
            trainer.step(batches[0])
            trainer.evaluate(data)
            trainer.set_learning_rate(10)
            trainer.step(batches[0])
            figures = trainer.evaluate(data)
            assert trainer.progress.learning_rate == 5
            assert not figures["is_best"]
            with pytest.raises(mpc.UsageError):
                trainer.restore_best()
        with mpc.Trainer(session, best="f1") as trainer:
            with pytest.raises(mpc.UsageError):
                trainer.evaluate(data)
            assert trainer.evaluate(data, ["f1"])["is_best"]
        with mpc.Trainer(session) as trainer:
            assert not trainer.evaluate(data)["is_best"]


def test_micro_batches_make_a_step(batches):
    artifact = mpc.compile(MODEL, accumulate_grad_batches=2, **RECIPE)
    with new_session(artifact) as session, mpc.Trainer(session) as trainer:
        results = [trainer.step(batch) for batch in batches[:4]]
        assert [result.is_step for result in results] == [False, True, False, True]
        assert trainer.progress.step == 2 and trainer.progress.batches == 4


def test_state_set_before_a_step_counts(artifact, batches):
    with new_session(artifact) as session, new_session(artifact) as other:
        for one in (session, other):
            one.state["fc2.weight"] = np.zeros((10, 64), np.float32)
        with mpc.Trainer(session) as trainer:
            loss = trainer.step(batches[0]).loss
        assert loss == other.step(batches[0], learning_rate=1e-3)


@pytest.mark.parametrize(
    "options, error",
    [
        ({"lr_scheduler": "nope"}, mpc.UsageError),
        ({"lr_scheduler": 3}, TypeError),
        ({"lr_scheduler": "cosine"}, mpc.UsageError),
        ({"best": "nope"}, mpc.UsageError),
        ({"best": 3}, TypeError),
        ({"early_stopping": "loss"}, mpc.UsageError),
        ({"learning_rate": "fast"}, TypeError),
        ({"learning_rate": -1}, mpc.UsageError),
        ({"learning_rate": float("nan")}, mpc.UsageError),
        ({"warmup_steps": -1}, mpc.UsageError),
        ({"warmup_steps": 1.5}, TypeError),
        ({"total_steps": 2**70}, mpc.UsageError),
        ({"keep_checkpoints": 0}, mpc.UsageError),
        ({"checkpoint_dir": 3}, TypeError),
        ({"resume": "/nowhere"}, mpc.Error),
    ],
)
def test_wrong_options_are_refused(session, options, error):
    with pytest.raises(error):
        mpc.Trainer(session, **options)


def test_wrong_uses_are_refused(artifact, batches):
    with pytest.raises(TypeError):
        mpc.Trainer(artifact)
    session = new_session(artifact)
    trainer = mpc.Trainer(session)
    with pytest.raises(mpc.InvalidInputError):
        trainer.step({**batches[0], "image": np.full((32, 1, 8, 8), np.nan)})
    with pytest.raises(mpc.InvalidInputError):
        trainer.step({name: array[:31] for name, array in batches[0].items()})
    with pytest.raises(mpc.UsageError):
        trainer.save()
    assert trainer.step(batches[0]).loss > 0
    trainer.set_learning_rate(0.25)
    assert trainer.step(batches[1]).learning_rate == 0.25
    trainer.close()
    trainer.close()
    with pytest.raises(mpc.UsageError, match="the trainer is closed"):
        trainer.step(batches[0])
    trainer = mpc.Trainer(session)
    session.close()
    for use in (lambda: trainer.step(batches[0]), lambda: trainer.progress):
        with pytest.raises(mpc.UsageError, match="the session is closed"):
            use()
