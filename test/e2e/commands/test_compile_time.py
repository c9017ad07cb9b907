"""Compile time is proportional to the size of the graph.

SPDX-License-Identifier: Apache-2.0
"""

import resource

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mpctest

pytestmark = pytest.mark.starts_mpc


def split_and_sum(parts, function="Tanh"):
    """Returns a model that cuts a matrix product into `parts`, applies
    `function` to each part, and sums the results."""
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["narrow"]),
        helper.make_node("MatMul", ["narrow", "w"], ["h"]),
        helper.make_node("Split", ["h"], [f"s{i}" for i in range(parts)], axis=1),
    ]
    for i in range(parts):
        nodes.append(helper.make_node(function, [f"s{i}"], [f"t{i}"]))
    nodes.append(helper.make_node("Sum", [f"t{i}" for i in range(parts)], ["y"]))
    values = np.random.default_rng(1).standard_normal((6, 6 * parts + 6))
    first, w = np.split(values.astype(np.float32), [6], axis=1)
    graph = helper.make_graph(
        *(nodes, "split"),
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(w, "w")],
    )
    opsets = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def cpu_seconds(parts, folder, function="Tanh", stage="llvm"):
    """Returns the CPU time that the compiler takes up to `stage`, in all
    threads."""
    model = folder / f"split{parts}.onnx"
    onnx.save(split_and_sum(parts, function), model)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    mpctest.mpc_ok(
        *("compile", model, "--loss", "mse", "--optimizer", "sgd"),
        *("--batch-size", "64", f"--emit={stage}", "-o", folder / "out"),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime


def test_is_linear_in_the_slices_of_a_tensor(tmp_path):
    """LLVM once compared all accesses of a loop with each other: 4 times the
    slices took 5 times as long."""
    assert cpu_seconds(1600, tmp_path) < 4 * cpu_seconds(400, tmp_path)


def test_sums_of_relus_are_no_cross_entropies(tmp_path):
    """Recognition once tried every partial sum as the cross entropy of each
    relu's operand. A sum of 400 relus took 8 times as long as a sum of other
    functions."""
    assert cpu_seconds(400, tmp_path, "Relu", "recognize") < 3 * cpu_seconds(
        400, tmp_path, "Tanh", "recognize"
    )
