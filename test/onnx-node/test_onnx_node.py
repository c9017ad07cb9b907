"""The official ONNX node tests of the operators mpc has, through ONNX's own
backend interface over `mpc run`.

A test is selected when its model uses nothing but SUPPORTED operators. Of these
the ones excluded, by element type or by name, are counted as skipped and say
why.

SPDX-License-Identifier: Apache-2.0
"""

import tempfile
import unittest

import onnx
import onnx.backend.base
import onnx.backend.test
from onnx import TensorProto

import mpctest

SUPPORTED = set(
    """
    Add AveragePool BatchNormalization Cast Clip Concat Constant Conv Div
    Dropout Flatten Gemm GlobalAveragePool Identity LogSoftmax MatMul MaxPool
    Mul Neg NegativeLogLikelihoodLoss Pad ReduceMean ReduceSum Relu Reshape
    Shape Sigmoid Slice Softmax SoftmaxCrossEntropyLoss Split Squeeze Sub Tanh
    Transpose Unsqueeze
    """.split()
)
# What a NumPy file can hold and mpc computes in.
ELEMENT_TYPES = {
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.BOOL,
}
DILATED = "a dilated AveragePool (opset 19) is not supported"
ARGMAX = "MaxPool's Indices as a graph output are not supported"
PADDING = "padding with other values than a constant is not supported"
EXCLUDED = {
    "test_averagepool_2d_dilations": DILATED,
    "test_averagepool_3d_dilations_small": DILATED,
    **{
        "test_averagepool_3d_dilations_large_count_include_pad_is_"
        f"{pad}_ceil_mode_is_{ceil}": DILATED
        for pad in (0, 1)
        for ceil in (False, True)
    },
    "test_maxpool_with_argmax_2d_precomputed_pads": ARGMAX,
    "test_maxpool_with_argmax_2d_precomputed_strides": ARGMAX,
    "test_edge_pad": PADDING,
    "test_reflect_pad": PADDING,
    "test_wrap_pad": PADDING,
    "test_slice_neg_steps": "negative steps are not supported",
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
        names = [value.name for value in self.model.graph.input]
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
    """Types of the graph's inputs and outputs and of Cast's results; None for
    what is no tensor."""
    values = list(model.graph.input) + list(model.graph.output)
    types = {
        v.type.tensor_type.elem_type if v.type.HasField("tensor_type") else None
        for v in values
    }
    for node in model.graph.node:
        types |= {a.i for a in node.attribute if a.name == "to"}
    return types


def exclusion(name, model):
    """Why this test is not run, or None."""
    others = element_types(model) - ELEMENT_TYPES
    if None in others:
        return "sequences and optionals are not tensors"
    if others:
        names = sorted(TensorProto.DataType.Name(t) for t in others)
        return f"element type {', '.join(names)}"
    return EXCLUDED.get(name)


def select_tests():
    """A TestCase of the selected node tests on the CPU."""
    suite = onnx.backend.test.BackendTest(MpcBackend, __name__)
    node_tests = suite.test_cases["OnnxBackendNodeModelTest"]
    methods = {}
    for case in onnx.backend.test.loader.load_model_tests(kind="node"):
        model = onnx.load(f"{case.model_dir}/model.onnx")
        if not {node.op_type for node in model.graph.node} <= SUPPORTED:
            continue
        method = getattr(node_tests, case.name + "_cpu")
        reason = exclusion(case.name, model)
        methods[case.name] = unittest.skip(reason)(method) if reason else method
    return type("TestOnnxNode", (unittest.TestCase,), methods)


TestOnnxNode = select_tests()


def test_exclusions_name_tests_that_exist():
    unknown = [n for n in EXCLUDED if not hasattr(TestOnnxNode, n)]
    assert not unknown
