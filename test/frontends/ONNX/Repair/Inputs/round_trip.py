"""Prints models by --emit=repair, parses the text, and compares the graphs.

    round_trip.py [--no-repair=NAME...] MODEL...

Without flags all repairs are off. All data is printed, so the text must have
what the file has: nodes, values, types, tensors, functions, and the metadata that repairs
read. Sparse tensors, documentation, and the names of bodies are not compared.

SPDX-License-Identifier: Apache-2.0
"""

import subprocess
import sys

import onnx
import repair_text
from onnx import numpy_helper


def metadata_of(owner):
    # Stack traces and other metadata are not printed.
    read = ("graph_signature", "InputSpec.kind", "original_node_name", "folded_from")
    read += ("name_scopes", "class_hierarchy", "fx_node")
    return {e.key: e.value for e in owner.metadata_props if e.key.endswith(read)}


def describe_tensor(tensor):
    array = numpy_helper.to_array(tensor)
    elements = array.tolist() if array.dtype == object else array.tobytes()
    return tensor.data_type, list(tensor.dims), elements


def describe_value(value):
    return value.name, value.type.SerializeToString(deterministic=True), metadata_of(value)


def describe_attribute(attribute):
    if attribute.ref_attr_name:
        value = attribute.ref_attr_name
    elif attribute.HasField("t"):
        value = describe_tensor(attribute.t)
    elif attribute.HasField("g"):
        value = describe_graph(attribute.g)
    elif attribute.tensors:
        value = [describe_tensor(tensor) for tensor in attribute.tensors]
    elif attribute.graphs:
        value = [describe_graph(graph) for graph in attribute.graphs]
    else:
        copy = onnx.AttributeProto()
        copy.CopyFrom(attribute)
        copy.ClearField("doc_string")
        value = copy.SerializeToString(deterministic=True)
    return attribute.name, attribute.type, value


def describe_node(node):
    return {
        "op": (node.domain.replace("ai.onnx", ""), node.op_type, node.overload, node.name),
        "inputs": list(node.input),
        "outputs": list(node.output),
        "attributes": [describe_attribute(attribute) for attribute in node.attribute],
        "metadata": metadata_of(node),
    }


def describe_graph(graph):
    tensors = {tensor.name for tensor in graph.initializer}
    # Values without a type, which only have metadata, are printed with their
    # initializers.
    described = [describe_value(value) for value in graph.value_info]
    return {
        "inputs": [describe_value(value) for value in graph.input],
        "outputs": [describe_value(value) for value in graph.output],
        "tensors": {t.name: describe_tensor(t) for t in graph.initializer},
        "values": sorted(
            (each for each in described if each[1] or (each[2] and each[0] in tensors)), key=str
        ),
        "nodes": [describe_node(node) for node in graph.node],
        "metadata": metadata_of(graph),
    }


def describe_model(model):
    return {
        "version": model.ir_version,
        "opsets": [(o.domain.replace("ai.onnx", ""), o.version) for o in model.opset_import],
        "producer": (model.producer_name, model.producer_version),
        "name": model.graph.name,
        "graph": describe_graph(model.graph),
        "functions": [
            (
                (function.domain, function.name, function.overload),
                list(function.input),
                list(function.output),
                list(function.attribute),
                [describe_attribute(each) for each in function.attribute_proto],
                [describe_node(node) for node in function.node],
            )
            for function in model.functions
        ],
    }


def find_difference(left, right, path=""):
    """The first place where two descriptions differ, empty if there is none."""
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return f"{path}: {list(left)} != {list(right)}"
        pairs = [(f"{path}.{key}", left[key], right[key]) for key in left]
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        if len(left) != len(right):
            return f"{path}: {len(left)} items != {len(right)}"
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(left, right))]
    else:
        return "" if left == right else f"{path}: {left!r} != {right!r}"
    return next(filter(None, (find_difference(a, b, p) for p, a, b in pairs)), "")


def main():
    problems = []
    flags = [word for word in sys.argv[1:] if word.startswith("--")] or ["--no-repair=all"]
    files = [word for word in sys.argv[1:] if not word.startswith("--")]
    for file in files:
        command = ["mpc", "compile", file, "--emit=repair", "--emit-data", *flags]
        printed = subprocess.run(command, capture_output=True, text=True, check=False)
        if printed.returncode:
            problems.append(f"{file}: {printed.stderr}")
            continue
        try:
            parsed = repair_text.read(printed.stdout)
        except onnx.parser.ParseError as error:
            problems.append(f"{file}: {error}")
            continue
        difference = find_difference(describe_model(onnx.load(file)), describe_model(parsed))
        if difference:
            problems.append(f"{file}: {difference}")
    print(f"{len(files)} models")
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main()
