"""On an emulated GPU, training takes only cuDNN engines that compute in the
requested precision.

SPDX-License-Identifier: Apache-2.0
"""

import mpctest
from test_gpu import DATA, emulated, train


def losses(events):
    return [e["loss"] for e in events]


def test_an_engine_that_rounds_without_a_note_is_passed_over(
    tmp_path, monkeypatch
):
    log = tmp_path / "choices.log"
    monkeypatch.setenv("MPC_CUDA_LOG", str(log))
    exact, exact_weights = train("digits-cnn", "32-true", "cuda", tmp_path)
    assert "rounds its operands" not in log.read_text()
    # The fastest emulated engine computes in tf32 without declaring that.
    monkeypatch.setenv("MPC_EMULATOR_ROUNDING", "1")
    log.unlink()
    guarded, weights = train("digits-cnn", "32-true", "cuda", tmp_path)
    chosen = log.read_text()
    for kind in ("the forward convolution", "weight gradient"):
        lines = [line for line in chosen.splitlines() if kind in line]
        passed = [l for l in lines if "cuDNN engine 1 rounds its operands" in l]
        taken = [l for l in lines if l.startswith("cuDNN engine 0, notes none")]
        assert passed and taken, chosen
    assert losses(guarded) == losses(exact)
    for name, weight in exact_weights.items():
        assert weights[name].tobytes() == weight.tobytes(), name
    # Negative control: the engine does round if tf32 is allowed.
    log.unlink()
    rounded, _ = train("digits-cnn", "32-true", "cuda", tmp_path, "--tf32")
    assert "rounds its operands" not in log.read_text()
    assert losses(rounded) != losses(exact)


def test_without_an_engine_in_float32_there_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("MPC_EMULATOR_ROUNDING", "0,1")
    result = mpctest.mpc(
        *("train", mpctest.MODELS / "digits-cnn.onnx", "--data", DATA),
        *("--loss", "softmax_cross_entropy", "--optimizer", "adamw"),
        *("--batch-size", "8", "--max-steps", "1"),
        *("--device", "cuda", "--target", "sm_80"),
        env=emulated("sm_80", tmp_path),
    )
    assert result.returncode == 6, result.stderr
    assert "that computes in float32" in result.stderr
    assert "--tf32" in result.stderr
