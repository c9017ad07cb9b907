"""Artifacts and sessions: infos, steps, state. Wrong arguments are exceptions,
and leave a session usable.

Tests python/runtime/mpc_runtime/artifact.py, session.py,
python/runtime/mpc_runtime/tensors.py, python/runtime/mpc_runtime/labels.py,
python/runtime/mpc_runtime/dlpack.py and python/runtime/mpc_runtime/library.py.

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import mpc_runtime as mpc
import mpctest
from conftest import MODEL, RECIPE
from mpc_runtime.tensors import as_array


def train_epochs(session, digits, epochs):
    count = len(digits["target"]) // 32 * 32
    for _ in range(epochs):
        for i in range(0, count, 32):
            loss = session.step({k: v[i : i + 32] for k, v in digits.items()})
    return loss


def test_functions_are_described(artifact):
    assert set(artifact.functions) == {"derive", "eval", "step"}
    image, target, rate = artifact.inputs("step")
    assert (image.name, image.role, image.type) == ("image", "data", "f32")
    assert image.shape == (32, 1, 8, 8)
    assert (target.dtype, target.nbytes) == (np.int64, 256)
    assert str(rate) == "learning_rate: f32[] (scalar)"
    assert [info.name for info in artifact.outputs("step")] == ["loss"]
    weight = next(info for info in artifact.state if info.name == "fc1.weight")
    assert (weight.role, weight.shape) == ("parameter", (64, 256))
    assert artifact.precision == "bf16-mixed"
    assert artifact.recipe["loss"] == "softmax_cross_entropy"


def test_a_model_learns(session, digits):
    assert train_epochs(session, digits, 3) < 0.2
    results = session.eval([digits["image"][:32], digits["target"][:32]])
    assert results["prediction"].shape == (32, 10)
    assert results["correct"].mean() > 0.9
    assert session.state["mpc.step"] == 3 * (1438 // 32)


def test_steps_are_those_of_the_command(digits, tmp_path):
    """The session and `mpc train` compute the same bits."""
    data = {name: array[:96] for name, array in digits.items()}
    flags = {"lr": 0.01, "no_shuffle": True, "precision": "bf16-mixed", "threads": 1}
    events = mpc.train(MODEL, data, output=tmp_path / "o.npz", **flags, **RECIPE)
    expected = [event["loss"] for event in events if event["event"] == "train"]
    artifact = mpc.compile(MODEL, precision="bf16-mixed", **RECIPE)
    with mpc.Session(artifact, learning_rate=0.01, threads=1) as session:
        found = [
            session.step({name: array[i : i + 32] for name, array in data.items()})
            for i in (0, 32, 64)
        ]
        assert np.float32(found).tolist() == np.float32(expected).tolist()
        with np.load(tmp_path / "o.npz") as weights:
            for name, weight in weights.items():
                np.testing.assert_array_equal(session.state[name], weight)


def test_micro_batches_accumulate(digits):
    artifact = mpc.compile(MODEL, accumulate_grad_batches=2, **RECIPE)
    batches = [
        {name: array[i : i + 32] for name, array in digits.items()} for i in (0, 32)
    ]
    with mpc.Session(artifact, learning_rate=1e-3) as session:
        with pytest.raises(mpc.UsageError, match="accumulate"):
            session.step(batches[0])
        before = session.state["fc1.weight"]
        assert all(session.accumulate(batch) > 0 for batch in batches)
        np.testing.assert_array_equal(session.state["fc1.weight"], before)
        session.update()
        assert (session.state["fc1.weight"] != before).any()


#===------------------------------------------------------------------------===#
# State
#===------------------------------------------------------------------------===#


def test_state_is_copied_out(session, batch):
    before = session.state["fc1.weight"]
    kept = before.copy()
    session.step(batch)
    np.testing.assert_array_equal(before, kept)
    assert (session.state["fc1.weight"] != kept).any()


def test_state_moves_between_sessions(session, artifact, batch):
    session.step(batch)
    with mpc.Session(artifact, learning_rate=1e-3, threads=1) as other:
        derived = {i.name for i in artifact.state if i.role == "derived"}
        other.state.update({k: v for k, v in session.state.items() if k not in derived})
        assert other.step(batch) == session.step(batch)


def test_derived_state_follows(session):
    weight = np.full((10, 64), 1.5, np.float32)
    session.state["fc2.weight"] = weight
    assert session.state["fc2.weight.low"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(session.state["fc2.weight.low"], weight)


def test_state_is_exported_by_dlpack(session):
    weight = session.state.dlpack("fc1.weight")
    np.testing.assert_array_equal(np.from_dlpack(weight), session.state["fc1.weight"])
    assert weight.__dlpack_device__() == (1, 0)


def read_dlpack(capsule, name, offset):
    """Reads (code, bits, lanes, first element's bits) of a capsule."""
    # pylint: disable=import-outside-toplevel
    import ctypes

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = get(capsule, name) + offset
    code, bits = (ctypes.c_uint8 * 2).from_address(tensor + 20)
    lanes = ctypes.c_uint16.from_address(tensor + 22).value
    data = ctypes.c_void_p.from_address(tensor).value
    return code, bits, lanes, ctypes.c_uint16.from_address(data).value


def test_bfloat16_is_exported_by_dlpack(session):
    """NumPy has no bfloat16 to read the capsule, so the test reads it."""
    tensor = session.state.dlpack("fc2.weight.low")
    first = int(tensor.array.view(np.uint16).flat[0])
    found = read_dlpack(tensor.__dlpack__(), b"dltensor", 0)
    assert found == (4, 16, 1, first)
    capsule = tensor.__dlpack__(max_version=(1, 0))
    assert read_dlpack(capsule, b"dltensor_versioned", 32) == (4, 16, 1, first)


def test_bfloat16_is_imported_by_dlpack(session, monkeypatch):
    """A tensor of another library that NumPy cannot read."""
    monkeypatch.delattr(mpc.HostTensor, "__array__")
    tensor = session.state.dlpack("fc2.weight.low")
    info = session.state.info("fc2.weight")
    found = as_array(tensor, info)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, tensor.array.astype(np.float32))


def test_without_ml_dtypes_bfloat16_is_bits(session, tmp_path):
    """In a process without the package, bf16 state is a uint16 view."""
    (tmp_path / "ml_dtypes.py").write_text("raise ImportError")
    program = (
        "import sys, numpy as np, mpc_runtime as mpc\n"
        "from mpc_runtime.tensors import TensorInfo, as_array\n"
        "info = TensorInfo('x', 'data', 'bf16', (4,))\n"
        "values = np.float32([1.5, 3.0000001, -0.0, np.nan])\n"
        "assert info.dtype == np.uint16\n"
        "print(*as_array(values, info))\n"
        "try: as_array(np.float32([1, 2, 3, 3.4e38]), info)\n"
        "except mpc.InvalidInputError as error: print(error)\n"
    )
    path = f"{tmp_path}:{mpctest.ROOT / 'python' / 'runtime'}"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    expected = np.array([1.5, 3, -0.0, np.nan], ml_dtypes.bfloat16).view(np.uint16)
    assert printed[0].split()[:3] == [str(bits) for bits in expected[:3]]
    assert int(printed[0].split()[3]) & 0x7FFF > 0x7F80
    assert "element [3]" in printed[1] and "bf16 cannot represent" in printed[1]


#===------------------------------------------------------------------------===#
# Wrong arguments
#===------------------------------------------------------------------------===#

IMAGES, LABELS = np.zeros((32, 1, 8, 8), np.float32), np.zeros(32, np.int64)
WRONG_BATCHES = {
    "a misspelt name": (
        {"imag": IMAGES, "target": LABELS},
        mpc.UsageError,
        "did you mean 'image'",
    ),
    "a missing name": ({"image": IMAGES}, mpc.UsageError, "needs 'target'"),
    "too few arrays": ([IMAGES], mpc.UsageError, "takes 2 arrays"),
    "no names": (IMAGES, TypeError, "mapping from names to arrays"),
    "nothing": (None, TypeError, "mapping from names to arrays"),
    "another batch size": (
        {"image": IMAGES[:31], "target": LABELS},
        mpc.InvalidInputError,
        "--batch-size 31",
    ),
    "another shape": (
        {"image": IMAGES[:, 0], "target": LABELS},
        mpc.InvalidInputError,
        r"expected an array of shape \(32, 1, 8, 8\), found \(32, 8, 8\)",
    ),
    "text": ({"image": IMAGES.astype(str), "target": LABELS}, TypeError, "<U"),
    "objects": (
        {"image": IMAGES.astype(object), "target": LABELS},
        TypeError,
        "object",
    ),
    "complex": ({"image": IMAGES * 1j, "target": LABELS}, TypeError, "complex64"),
    "masked": (
        {"image": np.ma.masked_equal(IMAGES, 0), "target": LABELS},
        TypeError,
        "masked",
    ),
    "ragged": ({"image": [[1], [1, 2]], "target": LABELS}, TypeError, "image"),
    "overflow": (
        {"image": np.full(IMAGES.shape, 1e300), "target": LABELS},
        mpc.InvalidInputError,
        r"element \[0, 0, 0, 0\] is 1e\+300, which f32 cannot represent",
    ),
    "half a label": (
        {"image": IMAGES, "target": LABELS + 0.5},
        mpc.InvalidInputError,
        "0.5, which i64 cannot represent",
    ),
    "no number as label": (
        {"image": IMAGES, "target": LABELS * np.nan},
        mpc.InvalidInputError,
        "nan, which i64 cannot represent",
    ),
    "a label too high": (
        {"image": IMAGES, "target": LABELS + 10},
        mpc.InvalidInputError,
        r"label \[0\] is 10, which is not in \[0,10\)",
    ),
    "a negative label": (
        {"image": IMAGES, "target": LABELS - 1},
        mpc.InvalidInputError,
        r"not in \[0,10\)",
    ),
}


@pytest.mark.parametrize("name", WRONG_BATCHES)
def test_wrong_batches_are_refused(session, batch, name):
    wrong, error, message = WRONG_BATCHES[name]
    with pytest.raises(error, match=message):
        session.step(wrong)
    assert session.step(batch) > 0


@pytest.mark.parametrize(
    "images",
    [
        lambda x: x.astype(np.float64),
        lambda x: x.astype(">f4"),
        np.asfortranarray,
        lambda x: x.astype(np.float16),
        lambda x: x.astype(ml_dtypes.bfloat16),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x.tolist(),
        lambda x: x[::-1][::-1],
    ],
)
def test_other_layouts_and_types_are_the_same_values(session, artifact, batch, images):
    with mpc.Session(artifact, learning_rate=1e-3, threads=1) as other:
        changed = {
            "image": images(batch["image"]),
            "target": batch["target"].astype(float),
        }
        assert other.step(changed) == session.step(batch)


@pytest.mark.parametrize(
    "source, error",
    [
        ("/nowhere/model.mpc", mpc.FileError),
        (__file__, mpc.InvalidInputError),
        (b"", mpc.InvalidInputError),
        (b"\x7fELF" + bytes(100), mpc.InvalidInputError),
        (3, TypeError),
        (None, TypeError),
        ("a\0b", ValueError),
    ],
)
def test_what_is_no_artifact_is_refused(source, error):
    with pytest.raises(error):
        mpc.open(source)


@pytest.mark.parametrize(
    "options, error",
    [
        ({"device": "tpu"}, mpc.UsageError),
        ({"device": None}, TypeError),
        ({"device": "cpu\0"}, ValueError),
        ({"threads": -1}, mpc.UsageError),
        ({"threads": 100000}, mpc.UsageError),
        ({"threads": 2**40}, mpc.UsageError),
        ({"threads": "2"}, TypeError),
        ({"threads": True}, TypeError),
    ],
)
def test_wrong_options_are_refused(artifact, options, error):
    with pytest.raises(error):
        mpc.Session(artifact, **options)


def test_wrong_uses_are_refused(session, artifact, batch):
    with pytest.raises(mpc.UsageError, match="no function 'forward'"):
        session.run("forward", batch)
    with pytest.raises(mpc.UsageError, match="no function 3"):
        session.run(3, batch)
    with pytest.raises(KeyError, match="did you mean 'fc1.weight'"):
        session.state["fc1.wieght"]
    with pytest.raises(mpc.InvalidInputError, match="64, 256"):
        session.state["fc1.weight"] = np.zeros((256, 64))
    with pytest.raises(mpc.UsageError):
        session.outputs("eval")
    with pytest.raises(TypeError):
        session.step(batch, learning_rate="fast")
    for rate in (float("nan"), -1.0, np.float32("inf")):
        with pytest.raises(mpc.UsageError, match="learning rate is"):
            session.step(batch, learning_rate=rate)
    with mpc.Session(artifact) as other:
        with pytest.raises(mpc.UsageError, match="no learning rate"):
            other.step(batch)
        assert other.step(batch, learning_rate=0.1) > 0
    assert session.step(batch) > 0


def test_a_failed_update_of_state_changes_nothing(session):
    before = session.state["fc1.bias"]
    with pytest.raises(mpc.InvalidInputError):
        session.state.update({"fc1.bias": before + 1, "fc1.weight": np.zeros(3)})
    np.testing.assert_array_equal(session.state["fc1.bias"], before)


def test_a_closed_session_says_so(session, batch):
    session.step(batch)
    session.close()
    session.close()
    assert session.closed and "closed" in repr(session)
    for use in (
        lambda: session.step(batch),
        lambda: session.eval(batch),
        lambda: session.outputs("step"),
        lambda: session.run_timed("step"),
        lambda: session.memory_bytes,
        lambda: session.state["fc1.weight"],
        lambda: session.state.__setitem__("fc1.bias", np.zeros(64)),
    ):
        with pytest.raises(mpc.UsageError, match="the session is closed"):
            use()


def test_threads_take_turns(session, batch):
    """Steps of several threads do not mix, and one thread may close."""
    count, losses, errors = 20, [], []

    def work():
        try:
            for _ in range(count):
                losses.append(session.step(batch))
        except mpc.UsageError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(losses) == 4 * count and not errors
    assert session.state["mpc.step"] == 4 * count
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    session.close()
    for thread in threads:
        thread.join()
    assert all(error == "the session is closed" for error in errors)


def test_a_session_goes_with_its_last_reference(artifact, batch):
    session = mpc.Session(artifact, learning_rate=np.float32(0.1), threads=np.int64(1))
    session.step(batch)
    session.state["fc1.bias"] = session.state["fc1.bias"]
    alive = weakref.ref(session)
    del session
    assert alive() is None


def test_steps_are_timed(session, batch):
    session.step(batch)
    seconds = session.run_timed("step")
    assert len(seconds) == len(session.artifact.plan["functions"]["step"]["steps"])
    assert (seconds >= 0).all() and seconds.sum() > 0
