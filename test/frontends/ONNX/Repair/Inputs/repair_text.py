"""Reads the ONNX text of `mpc compile --emit=repair`, metadata included.

The text is that of onnx.parser. Metadata are comments, "# KEY: VALUE", before
the line of their graph, value or node; VALUE has \\n for a newline and \\\\ for
a backslash.

SPDX-License-Identifier: Apache-2.0
"""

import re

import onnx
import onnx.parser

COMMENT = re.compile(r"\s*# (pkg\.[\w.]+): (.*)")
NAME = r'(?:"((?:[^"\\]|\\.)*)"|(\w+))'
VALUE = re.compile(rf"\s*(?:[\w()]+(?:\[[^\]]*\])?\s+)?{NAME}")
NODE = re.compile(rf"\s*(?:\[{NAME}\] )?{NAME}")


def unescape(text):
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), text)


def all_graphs(graph):
    """The graph and the bodies of its nodes, at any depth."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                if body.ByteSize():
                    yield from all_graphs(body)


def name_in(match, group):
    quoted, plain = match.group(group), match.group(group + 1)
    return plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)


def find_owner(model, line):
    """What the line after a comment describes."""
    graphs = list(all_graphs(model.graph))
    if re.match(rf"{NAME} \(", line):
        return model.graph
    output = name_in(NODE.match(line), 3)
    for node in (node for graph in graphs for node in graph.node):
        if node.output and node.output[0] == output:
            return node
    name = name_in(VALUE.match(line), 1)
    for graph in graphs:
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.name == name:
                return value
        if any(tensor.name == name for tensor in graph.initializer):
            return graph.value_info.add(name=name)
    raise ValueError(f"a comment before a line that describes nothing: {line}")


def read(text):
    """The model that the text describes."""
    model = onnx.parser.parse_model(text)
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if match := COMMENT.match(line):
            following = next(each for each in lines[index:] if not COMMENT.match(each))
            owner = find_owner(model, following)
            owner.metadata_props.add(key=match[1], value=unescape(match[2]))
    return model
