"""Measures mpc's support of each op of ai.onnx and prints a table.

    op_table.py [OP...]

Compiles each op's official tests of a single node: unchanged, in other element
types that the specification allows, with a loss behind them and all inputs
trained, and for a GPU. A test that compiles counts as supported. test/onnx-node
and test/numerics check the results. Ops without such a test, or with sequences
in all of them, are not measured. Needs test/requirements.txt and takes some
minutes; docs/operators.md has the result.

SPDX-License-Identifier: Apache-2.0
"""

import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).parents[1]
BIN = pathlib.Path(os.environ.get("MPC_BUILD_DIR", ROOT / "build")) / "bin"
FLOATS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
INTEGERS = {
    name: np.dtype(name).type
    for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
}
TYPES = {**FLOATS, **INTEGERS, "bool": np.bool_}
# The number of tests tried per op. Further tests differ in attributes.
TRIED = 4
OLDEST_OPSET = 6
HEAD = ["op", "from opset", "types", "gradient", "GPU"]


def list_ops():
    """Returns (op, from opset, of) of all rows of the domain ai.onnx."""
    command = [BIN / "mpc-translate", "--list-onnx-ops"]
    table = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.stdout.splitlines()[2:]
    ]
    return [row[1:] for row in rows if row[0] == "ai.onnx"]


def to_array(value):
    """Returns an array. Some tests have tensors, others their contents."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


class Case:
    """A test of one node, with the inputs of its first data set as arrays. Its
    data is its first float input, or else its first input, and all inputs that
    must have the same type."""

    def __init__(self, test):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(test.model)
        [self.node] = self.model.graph.node
        # Three tests use opset 1, whose ops are those of opset 6.
        version = max(self.model.opset_import[0].version, OLDEST_OPSET)
        self.model.opset_import[0].version = version
        self.schema = onnx.defs.get_schema(self.node.op_type, version, "")
        inputs, _ = test.data_sets[0]
        self.arrays = {
            value.name: to_array(array)
            for value, array in zip(self.model.graph.input, inputs)
        }
        given = [
            (self.find(self.schema.inputs, i), self.arrays[name].dtype.type)
            for i, name in enumerate(self.node.input)
            if name
        ]
        floats = [pair for pair in given if pair[1] == np.float32]
        formal, self.data_type = (floats or given)[0]
        self.type_name, self.allowed = formal.type_str, formal.types

    def has_known_types(self):
        """True if all inputs and outputs have types of the table."""
        known = {helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in TYPES.values()}
        results = [v.type.tensor_type.elem_type for v in self.model.graph.output]
        given = [a.dtype.type for a in self.arrays.values()]
        return known.issuperset(results) and all(t in TYPES.values() for t in given)

    @staticmethod
    def find(formals, index):
        """Returns the parameter at `index`. The last parameter may be a list."""
        return formals[min(index, len(formals) - 1)]

    def names_of_data(self, names, formals):
        return {
            name
            for i, name in enumerate(names)
            if self.find(formals, i).type_str == self.type_name
        }

    def allows(self, dtype):
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        name = TensorProto.DataType.Name(element).lower()
        return f"tensor({name})" in self.allowed

    def build(self, dtype, with_loss=False):
        """Returns the model with its inputs as initializers and its data as
        `dtype`."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        graph = model.graph
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        data = self.names_of_data(self.node.output, self.schema.outputs)
        for value in graph.output:
            if value.name in data:
                value.type.tensor_type.elem_type = element
        del graph.input[:]
        data = self.names_of_data(self.node.input, self.schema.inputs)
        for name, array in self.arrays.items():
            if name in data:
                array = array.astype(dtype)
            graph.initializer.append(numpy_helper.from_array(array, name))
        if with_loss and not self.add_loss(graph):
            return None
        return model

    @staticmethod
    def add_loss(graph):
        """Adds the sum of all float results, if there are any."""
        sums = []
        for value in graph.output:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                total = f"{value.name}.sum"
                node = helper.make_node("ReduceSum", [value.name], [total])
                node.attribute.append(helper.make_attribute("keepdims", 0))
                graph.node.append(node)
                sums.append(total)
        if not sums:
            return False
        graph.node.append(helper.make_node("Sum", sums, ["op_table.loss"]))
        kind = helper.make_tensor_value_info(
            "op_table.loss", TensorProto.FLOAT, []
        )
        graph.output.append(kind)
        return True


def compiles(model, *flags):
    """Returns mpc's exit code and output."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        onnx.save(model, path)
        command = [BIN / "mpc", "compile", path, "-o", f"{folder}/model.mpc"]
        process = subprocess.run(
            [*command, "--kernel-cache", ROOT / "build" / "kernel-cache", *flags],
            capture_output=True,
            text=True,
            timeout=300,
        )
    return process.returncode, process.stderr


def find_types(cases):
    """Returns the names of the element types of data that compile."""
    found = set()
    for case in cases:
        for name, dtype in TYPES.items():
            if name in found or not case.allows(dtype):
                continue
            if compiles(case.build(dtype), "--as-exported")[0] == 0:
                found.add(name)
    return found


def describe_types(found):
    words = [name for name in FLOATS if name in found]
    integers = [name for name in INTEGERS if name in found]
    if set(integers) == set(INTEGERS):
        words.append("integers")
    else:
        words += integers
    if "bool" in found:
        words.append("bool")
    return ", ".join(words)


def find_gradient(cases):
    """Returns "yes", "no" if no result depends on floats, or "refused" if mpc
    refuses the gradient."""
    answers = set()
    for case in cases:
        wanted = np.float32 if case.allows(np.float32) else case.data_type
        model = case.build(wanted, with_loss=True)
        if wanted != np.float32 or model is None:
            continue
        flags = ["--loss", "output:op_table.loss", "--train", "."]
        code, said = compiles(model, *flags)
        if code == 0:
            return "yes"
        is_refused = code == 4 and "not known at import" not in said
        answers.add("refused" if is_refused else "no")
    return max(answers, default="no")


def find_gpu(cases):
    for case in cases:
        code, _ = compiles(
            case.build(case.data_type), "--as-exported", "--target", "sm_90"
        )
        if code == 0:
            return "yes"
    return "no"


def measure(row, cases):
    op, since, kind = row
    cells = [op, since]
    if kind != "data":
        return [*cells, "known values", "no", "no"]
    if not cases:
        return [*cells, "not measured", "", ""]
    types = describe_types(find_types(cases))
    if not types:
        return [*cells, "not measured", "", ""]
    return [*cells, types, find_gradient(cases), find_gpu(cases)]


def load_cases():
    """Returns cases by op: the first few of each op that use tensors."""
    cases = collections.defaultdict(list)
    tests = onnx.backend.test.loader.load_model_tests(kind="node")
    for test in sorted(tests, key=lambda test: test.name):
        [*nodes] = test.model.graph.node
        if len(nodes) != 1 or len(cases[nodes[0].op_type]) >= TRIED:
            continue
        try:
            case = Case(test)
        except Exception:  # sequences, optionals, strings
            continue
        if case.has_known_types():
            cases[nodes[0].op_type].append(case)
    return cases


def main():
    warnings.filterwarnings("ignore")
    cases = load_cases()
    rows = [row for row in list_ops() if not sys.argv[1:] or row[0] in sys.argv]
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for cells in pool.map(lambda row: measure(row, cases[row[0]]), rows):
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
