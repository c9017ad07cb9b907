"""The C API writes the model that `mpc train --output` writes: the same bytes.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mpctest

UNSUPPORTED = 4
FLAGS = ["--loss", "mse", "--optimizer", "sgd", "--lr", "0.1", "--batch-size", "4"]


def make_layers(halves=False, constant=False):
    """A normalization in training mode, and a layer, whose weight is a Constant
    or float16."""
    random = np.random.default_rng(0)
    weight = random.normal(0, 1, (3, 3)).astype("f2" if halves else "f4")
    nodes = [
        helper.make_node(
            "BatchNormalization",
            ["x", "scale", "shift", "mean", "var"],
            ["normal", "new_mean", "new_var"],
            "norm",
            training_mode=1,
        ),
        helper.make_node("MatMul", ["normal", "w"], ["y"], "layer"),
    ]
    values = {"scale": np.ones(3), "shift": np.zeros(3), "mean": np.zeros(3), "var": np.ones(3)}
    values = {name: value.astype("f4") for name, value in values.items()}
    if halves:
        nodes.insert(1, helper.make_node("Cast", ["w"], ["wide"], "cast", to=1))
        nodes[-1].input[1] = "wide"
    if constant:
        value = numpy_helper.from_array(weight)
        nodes.insert(0, helper.make_node("Constant", [], ["w"], "w", value=value))
    else:
        values["w"] = weight
    floats = (np.float32, ["N", 3])
    return mpctest.make_model(nodes, {"x": floats}, {"y": floats}, values)


def train(path, folder):
    """Trains the model for some steps. Returns the folder of checkpoints."""
    random = np.random.default_rng(1)
    x = random.normal(0, 1, (16, 3)).astype("f4")
    np.savez(folder / "data.npz", x=x, target=np.roll(x, 1, 1))
    mpctest.mpc_ok(
        *("train", path, "--data", folder / "data.npz", *FLAGS, "--epochs", 2),
        *("--output", folder / "trained.onnx", "--checkpoint-dir", folder / "ck"),
        *mpctest.TARGET,
    )
    return folder / "ck"


class Library:
    """Calls the C API, whose functions return a status."""

    def __init__(self):
        self.library = ctypes.CDLL(mpctest.BUILD / "lib" / "libmpc_runtime.so")
        for name in ("mpc_session_create", "mpc_session_write_onnx"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.mpc_status_message.restype = ctypes.c_char_p

    def call(self, function, *arguments):
        function = getattr(self.library, function)
        function.restype = ctypes.c_void_p
        status = ctypes.c_void_p(function(*arguments))
        code = self.library.mpc_status_get_code(status)
        message = self.library.mpc_status_message(status).decode()
        self.library.mpc_status_free(status)
        return code, message

    def ok(self, *call):
        assert self.call(*call) == (0, "")

    def open(self, path):
        artifact, session = ctypes.c_void_p(), ctypes.c_void_p()
        self.ok("mpc_artifact_open", str(path).encode(), ctypes.byref(artifact))
        self.ok("mpc_session_create", artifact, None, ctypes.byref(session))
        self.library.mpc_artifact_close(artifact)
        return session


def write_by_library(path, checkpoints, folder):
    """Returns the code and the message of mpc_session_write_onnx."""
    artifact, output = folder / "model.mpc", folder / "written.onnx"
    mpctest.mpc_ok("compile", path, *FLAGS[:4], *FLAGS[6:], "-o", artifact, *mpctest.TARGET)
    library = Library()
    session = library.open(artifact)
    library.ok("mpc_session_load_weights", session, str(checkpoints).encode())
    result = library.call("mpc_session_write_onnx", session, str(output).encode())
    library.library.mpc_session_free(session)
    return result


def is_in_training(model):
    modes = [a.i for node in model.graph.node for a in node.attribute if a.name == "training_mode"]
    return any(modes)


@pytest.mark.parametrize("form", ["plain", "halves", "external"])
def test_the_model_is_that_of_the_command(form, tmp_path):
    model, path = make_layers(halves=form == "halves"), tmp_path / "model.onnx"
    external = {"save_as_external_data": True, "size_threshold": 0}
    onnx.save(model, path, **(external if form == "external" else {}))
    checkpoints = train(path, tmp_path)
    assert write_by_library(path, checkpoints, tmp_path) == (0, "")
    written = onnx.load(tmp_path / "written.onnx")
    trained = onnx.load(tmp_path / "trained.onnx")
    assert is_in_training(model) and not is_in_training(written)
    if form != "external":
        assert written == trained
    for weight, expected in zip(written.graph.initializer, trained.graph.initializer, strict=True):
        assert weight.data_location == onnx.TensorProto.DEFAULT
        assert weight.data_type == expected.data_type
        values = [numpy_helper.to_array(tensor) for tensor in (weight, expected)]
        assert values[0].tobytes() == values[1].tobytes()


def test_record_is_that_of_the_artifact(tmp_path):
    """An earlier training had another loss, and other data."""
    model, path = make_layers(), tmp_path / "model.onnx"
    model.metadata_props.add(key="mpc.version", value="1")
    model.metadata_props.add(key="mpc.loss", value='{"loss":"l1"}')
    model.metadata_props.add(key="mpc.preparation", value="--normalize 0:1")
    model.metadata_props.add(key="author", value="somebody")
    onnx.save(model, path)
    checkpoints = train(path, tmp_path)
    assert write_by_library(path, checkpoints, tmp_path) == (0, "")
    entries = onnx.load(tmp_path / "written.onnx").metadata_props
    assert {entry.key: entry.value for entry in entries} == {
        "mpc.version": "1",
        "mpc.loss": '{"loss":"mse"}',
        "author": "somebody",
    }


def test_a_constant_becomes_an_initializer(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(make_layers(constant=True), path)
    checkpoints = train(path, tmp_path)
    assert write_by_library(path, checkpoints, tmp_path) == (0, "")
    written = onnx.load(tmp_path / "written.onnx")
    onnx.checker.check_model(written, full_check=True)
    trained = onnx.load(tmp_path / "trained.onnx")
    (constant,) = [node for node in trained.graph.node if node.op_type == "Constant"]
    (weight,) = [w for w in written.graph.initializer if w.name == "w"]
    expected = numpy_helper.to_array(constant.attribute[0].t)
    assert numpy_helper.to_array(weight).tobytes() == expected.tobytes()
    assert not [node for node in written.graph.node if node.op_type == "Constant"]


FOLDER = mpctest.DATA / "ort-lenet"


@pytest.mark.parametrize(
    ("compiled", "reason"),
    [
        ([mpctest.MODELS / "mlp.onnx"], "compile the model with a loss"),
        (
            [FOLDER, "--weights", FOLDER / "parameters.npz"],
            "a folder of training artifacts is no model",
        ),
    ],
)
def test_some_artifacts_hold_no_model(compiled, reason, tmp_path):
    artifact = tmp_path / "model.mpc"
    mpctest.mpc_ok("compile", *compiled, "--batch-size", 4, "-o", artifact, *mpctest.TARGET)
    library = Library()
    session = library.open(artifact)
    output = tmp_path / "written.onnx"
    code, message = library.call("mpc_session_write_onnx", session, str(output).encode())
    library.library.mpc_session_free(session)
    assert code == UNSUPPORTED and "does not hold its ONNX model" in message
    assert reason in message
    assert not output.exists()


class Array(ctypes.Structure):
    """mpc_array."""

    _fields_ = [("name", ctypes.c_char_p), ("bytes", ctypes.c_void_p), ("size", ctypes.c_size_t)]


@pytest.mark.parametrize(
    ("create", "use", "more"),
    [
        ("mpc_trainer_create", "mpc_trainer_run_batch", [None]),
        ("mpc_evaluation_create", "mpc_evaluation_add", []),
    ],
)
def test_a_label_out_of_range_is_refused(create, use, more, tmp_path):
    artifact, flags = tmp_path / "model.mpc", ["--loss", "cross_entropy", "--optimizer", "sgd"]
    model = mpctest.MODELS / "mlp.onnx"
    mpctest.mpc_ok("compile", model, *flags, "--batch-size", 4, "-o", artifact, *mpctest.TARGET)
    library, handle = Library(), ctypes.c_void_p()
    session = library.open(artifact)
    library.ok(create, session, None, ctypes.byref(handle))
    image, target = np.zeros((4, 1, 8, 8), "f4"), np.array([3, 9, 0, 10])
    bad = "target[3]: label 10 is not in [0,10)"
    for labels, code, text in ((target, 3, bad), (target % 10, 0, "")):
        arrays = (Array * 2)(
            Array(b"image", image.ctypes.data, image.nbytes),
            Array(b"target", labels.ctypes.data, labels.nbytes),
        )
        result = library.call(use, handle, arrays, ctypes.c_size_t(2), *more)
        assert result[0] == code and result[1].startswith(text)
    getattr(library.library, create.replace("create", "free"))(handle)
    library.library.mpc_session_free(session)
