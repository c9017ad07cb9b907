"""mpc_runtime.backend against a sample of ONNX's backend node tests.
test/onnx-node runs all of them by the command.

SPDX-License-Identifier: Apache-2.0
"""

import unittest

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import TensorProto, helper

import mpc_runtime as mpc
import mpctest
from mpc_runtime import backend

# Node tests of many kinds: shapes that depend on values, several outputs,
# integers, f16, f64 and bool, scalars, random numbers as an attribute.
SAMPLE = [
    "test_add_bcast",
    "test_and2d",
    "test_argmax_keepdims_example",
    "test_averagepool_2d_pads",
    "test_batchnorm_epsilon",
    "test_cast_FLOAT_to_FLOAT16",
    "test_clip_example",
    "test_concat_3d_axis_1",
    "test_constant",
    "test_conv_with_strides_padding",
    "test_cumsum_1d",
    "test_einsum_batch_matmul",
    "test_expand_dim_changed",
    "test_gather_1",
    "test_gemm_all_attributes",
    "test_gru_defaults",
    "test_layer_normalization_4d_axis1",
    "test_lstm_with_peepholes",
    "test_matmul_4d",
    "test_max_float64",
    "test_maxpool_2d_dilations",
    "test_mod_mixed_sign_int8",
    "test_onehot_without_axis",
    "test_range_int32_type_negative_delta",
    "test_reduce_sum_empty_axes_input_noop",
    "test_reshape_negative_dim",
    "test_resize_upsample_scales_nearest",
    "test_sce_mean_weight_ii",
    "test_slice_negative_axes",
    "test_softmax_axis_1",
    "test_split_equal_parts_2d",
    "test_tile",
    "test_top_k",
    "test_training_dropout_zero_ratio_mask",
    "test_where_example",
    "test_xor3d",
]


def select_nodes():
    """Returns a TestCase of the sample. pytest would also collect the class of
    all tests if a module held it."""
    suite = onnx.backend.test.BackendTest(backend.MpcBackend, __name__)
    cases = suite.test_cases["OnnxBackendNodeModelTest"]
    methods = {name: getattr(cases, f"{name}_cpu") for name in SAMPLE}
    return type("TestNodes", (unittest.TestCase,), methods)


TestNodes = select_nodes()


def make_relu(shape):
    return mpctest.make_model(
        [helper.make_node("Relu", ["x"], ["y"])],
        {"x": (np.float32, shape)},
        {"y": (np.float32, shape)},
        {},
    )


def test_a_prepared_model_takes_several_shapes():
    prepared = backend.prepare(make_relu(["N", 3]))
    for count in (1, 2, 1):
        x = np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)
        (y,) = prepared.run([x])
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        np.testing.assert_array_equal(prepared.run({"x": x}).y, y)


def test_devices():
    assert backend.supports_device("CPU") and backend.supports_device("CUDA:1")
    assert not backend.supports_device("TPU") and not backend.supports_device("CUDA:x")
    with pytest.raises(mpc.UsageError, match="TPU"):
        backend.prepare(make_relu([3]), "TPU")


def test_single_nodes():
    node = helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    outputs = backend.run_node(node, [x])
    np.testing.assert_array_equal(outputs.b, x[:, 2:])
    infos = [(np.float32, (2, 2))] * 2
    found = backend.run_node(node, [x], outputs_info=infos, opset_version=18)
    np.testing.assert_array_equal(found[0], x[:, :2])


def test_wrong_uses_are_refused():
    prepared = backend.prepare(make_relu([2, 3]))
    with pytest.raises(mpc.UsageError, match="expected 1 arrays, found 2"):
        prepared.run([np.zeros((2, 3), np.float32)] * 2)
    with pytest.raises(mpc.UsageError, match="expected arrays for"):
        prepared.run({"z": np.zeros((2, 3), np.float32)})
    with pytest.raises(mpc.InvalidInputError, match="expected float32, found float64"):
        prepared.run([np.zeros((2, 3))])
    with pytest.raises(mpc.UsageError, match="is 3 in the model, not 4"):
        prepared.run([np.zeros((2, 4), np.float32)])
    with pytest.raises(onnx.checker.ValidationError):
        backend.prepare(onnx.ModelProto())
    text = mpctest.make_model(
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": (np.float32, [1])},
        {"y": (np.float32, [1])},
        {},
    )
    for value in (text.graph.input[0], text.graph.output[0]):
        value.type.tensor_type.elem_type = TensorProto.STRING
    with pytest.raises(mpc.UnsupportedError):
        backend.run_model(text, [np.array(["a"], object)])
