"""Runs the official ONNX tests of mpc's operators through ONNX's backend
interface over `mpc run`.

They are tests of single nodes, tests called simple (with gradients of sums and
products), PyTorch's exporter tests, most of them of opset 6, and whole networks
without weights, called light.

A test is selected if its model uses only operators that mpc lists. Selected
tests that are excluded count as skipped and say why: by element type, by name,
or because an operator exists for shapes only.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
import onnx.backend.base
import onnx.backend.test
import pytest
from onnx import TensorProto

import mpctest


def list_ops():
    """Returns the ops of mpc's table: ops with kernels, and ops that compute
    shapes from values known at compile time."""
    table = subprocess.run(
        [mpctest.BUILD / "bin" / "mpc-translate", "--list-onnx-ops"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ops = {"data": set(), "shapes": set()}
    for line in table.splitlines()[2:]:
        domain, op, _, kind = [cell.strip() for cell in line.split("|")[1:-1]]
        if domain.startswith("ai.onnx") and domain != "ai.onnx.ml":
            ops[kind].add(op)
    return ops["data"], ops["shapes"]


OF_DATA, OF_SHAPES = list_ops()
# Types that a NumPy file can hold and in which mpc computes.
ELEMENT_TYPES = {
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
    TensorProto.BOOL,
}
OLDEST_OPSET = 6
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}
FLOAT16_SUMS = "expects sums rounded to float16; float32's are another number"
FLOAT_FFT = "expects 1.9e-7, NumPy's rounding errors in f32, where sums are 0"
RANDOM = "the specification leaves the numbers open; test/numerics draws them"
WRAPS = "expects a result beyond 8 bits to wrap around; QLinearMatMul saturates"
EXCLUDED = {
    **{
        f"test_bernoulli{name}{form}": RANDOM
        for name in ("", "_double", "_seed")
        for form in ("", "_expanded")
    },
    "test_attention_4d_causal_fp16": FLOAT16_SUMS,
    "test_attention_4d_causal_fp16_expanded": FLOAT16_SUMS,
    "test_dft_inverse": FLOAT_FFT,
    "test_dft_inverse_opset19": FLOAT_FFT,
    **{
        f"test_qlinearmatmul_{rank}D_int8_{scale}": WRAPS
        for rank in (2, 3)
        for scale in ("float16", "float32")
    },
    "test_training_dropout": "the specification leaves the random mask open",
    "test_training_dropout_mask": "the random mask is left open",
    "test_training_dropout_default": "the random mask is left open",
    "test_training_dropout_default_mask": "the random mask is left open",
}


class MpcRep(onnx.backend.base.BackendRep):
    """A model that `mpc run` compiles on the first run."""

    def __init__(self, model):
        self.model = model

    def run(self, inputs, **kwargs):
        graph = self.model.graph
        given = {tensor.name for tensor in graph.initializer}
        names = [v.name for v in graph.input if v.name not in given]
        with tempfile.TemporaryDirectory() as folder:
            outputs = mpctest.run(
                self.model,
                dict(zip(names, inputs)),
                folder,
                "--as-exported",
            )
        return tuple(outputs[value.name] for value in self.model.graph.output)


class MpcBackend(onnx.backend.base.Backend):
    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        return MpcRep(model)

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"


def element_types(model):
    """Returns the types of the graph's inputs and outputs, and of Cast's
    results. None stands for anything but a tensor."""
    values = list(model.graph.input) + list(model.graph.output)
    types = {
        v.type.tensor_type.elem_type if v.type.HasField("tensor_type") else None
        for v in values
    }
    for node in model.graph.node:
        types |= {a.i for a in node.attribute if a.name == "to"}
    return types


def reads_data(model):
    """True if an operator for shapes, which has no kernel, reads float data
    other than scalars."""
    data = {
        tensor.name
        for tensor in model.graph.initializer
        if tensor.data_type in FLOATS and list(tensor.dims) not in ([], [1])
    }
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        if tensor.elem_type in FLOATS and shape not in ([], [1]):
            data.add(value.name)
    for node in model.graph.node:
        if node.op_type in ("Shape", "Size") or not data & set(node.input):
            continue
        if node.op_type in OF_SHAPES:
            return True
        data |= set(node.output)
    return False


def exclusion(name, model):
    """Returns the reason to exclude this test, or None."""
    others = element_types(model) - ELEMENT_TYPES
    if None in others:
        return "sequences and optionals are not tensors"
    if others:
        names = sorted(TensorProto.DataType.Name(t) for t in others)
        return f"element type {', '.join(names)}"
    # Preview domains have one version. Other entries are ONNX's own.
    opset = max(
        (o.version for o in model.opset_import if o.domain in ("", "ai.onnx")),
        default=OLDEST_OPSET,
    )
    if opset < OLDEST_OPSET:
        return f"opset {opset} is older than {OLDEST_OPSET}"
    if reads_data(model):
        return "an operator of shapes alone reads data"
    return EXCLUDED.get(name)


def load_model(case):
    """Returns the model of a test: in memory, from the test's folder, or, of
    light tests, from the package."""
    if case.model:
        return case.model
    if case.model_dir:
        return onnx.load(f"{case.model_dir}/model.onnx")
    return onnx.load(pathlib.Path(onnx.__path__[0]).parent / case.url)


def select_tests(kind, case_class):
    """Returns a TestCase of the selected tests of a kind on the CPU."""
    suite = onnx.backend.test.BackendTest(MpcBackend, __name__)
    tests = suite.test_cases[case_class]
    methods = {}
    for case in onnx.backend.test.loader.load_model_tests(kind=kind):
        model = load_model(case)
        ops = {node.op_type for node in model.graph.node}
        if not ops <= OF_DATA | OF_SHAPES:
            continue
        method = getattr(tests, case.name + "_cpu")
        reason = exclusion(case.name, model)
        methods[case.name] = unittest.skip(reason)(method) if reason else method
    return type(case_class, (unittest.TestCase,), methods)


TestOnnxNode = select_tests("node", "OnnxBackendNodeModelTest")
TestOnnxSimple = select_tests("simple", "OnnxBackendSimpleModelTest")
TestOnnxLight = select_tests("real", "OnnxBackendRealModelTest")
TestPyTorchConverted = select_tests(
    "pytorch-converted", "OnnxBackendPyTorchConvertedModelTest"
)
TestPyTorchOperator = select_tests(
    "pytorch-operator", "OnnxBackendPyTorchOperatorModelTest"
)


@pytest.fixture(autouse=True, scope="session")
def keep_downloads_of_onnx_here(tmp_path_factory):
    """By default ONNX writes inputs of the light models into ~/.onnx."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNX_HOME", str(tmp_path_factory.mktemp("onnx")))
        yield


def test_exclusions_name_tests_that_exist():
    suites = (
        TestOnnxNode,
        TestOnnxSimple,
        TestOnnxLight,
        TestPyTorchConverted,
        TestPyTorchOperator,
    )
    unknown = [
        name
        for name in EXCLUDED
        if not any(hasattr(suite, name) for suite in suites)
    ]
    assert not unknown
