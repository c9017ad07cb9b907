"""Checks mpc's onnx.proto against the onnx package's.

  check_schema.py compare DESCRIPTORS   protoc's description of onnx.proto
  check_schema.py fill MODEL VALUES     a model with every field set
  check_schema.py verify BEFORE AFTER   AFTER is BEFORE with the new value

SPDX-License-Identifier: Apache-2.0
"""

import sys

import numpy as np
import onnx
from google.protobuf import descriptor_pb2
from onnx import TensorProto, numpy_helper, onnx_ml_pb2

# Unknown fields of each wire type: varint, 64 bits, bytes, 32 bits.
UNKNOWN = (
    b"\xf8\xff\x03\x05"
    b"\xf9\xff\x03unknown!"
    b"\xfa\xff\x03\x06future"
    b"\xfd\xff\x03four"
)


def collect(messages, path=""):
    """Returns all fields and enum values: path to number, type, label, packed."""
    facts = {}
    for message in messages:
        where = f"{path}{message.name}"
        for field in message.field:
            facts[f"{where}.{field.name}"] = (
                field.number,
                field.type,
                field.label,
                field.options.packed,
                field.type_name.rpartition(".")[2],
                field.HasField("oneof_index"),
            )
        for enum in message.enum_type:
            for value in enum.value:
                facts[f"{where}.{enum.name}.{value.name}"] = value.number
        facts.update(collect(message.nested_type, f"{where}."))
    return facts


def compare(descriptors):
    ours, theirs = descriptor_pb2.FileDescriptorSet(), None
    with open(descriptors, "rb") as file:
        ours.ParseFromString(file.read())
    theirs = descriptor_pb2.FileDescriptorProto()
    onnx_ml_pb2.DESCRIPTOR.CopyToProto(theirs)
    found = collect(ours.file[0].message_type)
    expected = collect(theirs.message_type)
    assert len(expected) > 150, len(expected)
    for name, fact in expected.items():
        assert found.get(name) == fact, (name, found.get(name), fact)


def fill(message, depth):
    """Sets every field, and each oneof to its last field."""
    for field in message.DESCRIPTOR.fields:
        repeated = field.is_repeated
        if field.type == field.TYPE_MESSAGE:
            if depth == 0:
                continue
            value = getattr(message, field.name)
            fill(value.add() if repeated else value, depth - 1)
        else:
            value = {
                field.CPPTYPE_STRING: "text",
                field.CPPTYPE_FLOAT: 0.5,
                field.CPPTYPE_DOUBLE: 0.25,
                field.CPPTYPE_ENUM: 1,
            }.get(field.cpp_type, 3 + field.number)
            if field.type == field.TYPE_BYTES:
                value = b"\x00\xff"
            if repeated:
                getattr(message, field.name).extend([value, value])
            else:
                setattr(message, field.name, value)
    # Tensors stay in the file.
    if isinstance(message, TensorProto):
        message.data_location = TensorProto.DEFAULT
    message.MergeFromString(UNKNOWN)


def make_values(value):
    graph = onnx.helper.make_graph([], "values", [], [], [value])
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )


def write(model, path):
    with open(path, "wb") as file:
        file.write(model.SerializeToString())


def make(model_path, values_path):
    model = onnx.ModelProto()
    fill(model, depth=7)
    model.ir_version = 12
    for opset in model.opset_import:
        opset.domain, opset.version = "", 17
    model.graph.initializer.append(
        numpy_helper.from_array(np.zeros(2, np.float32), "w")
    )
    write(model, model_path)
    new = numpy_helper.from_array(np.float32([1, 2]), "w")
    write(make_values(new), values_path)


def verify(before_path, after_path):
    before, after = onnx.ModelProto(), onnx.ModelProto()
    with open(before_path, "rb") as file:
        before.ParseFromString(file.read())
    with open(after_path, "rb") as file:
        data = file.read()
    after.ParseFromString(data)
    new = after.graph.initializer[-1]
    assert (numpy_helper.to_array(new) == [1, 2]).all()
    before.graph.initializer[-1].raw_data = new.raw_data
    assert before == after
    # Equality may ignore unknown fields.
    unknown = before.SerializeToString().count(UNKNOWN)
    assert unknown > 500, unknown
    assert data.count(UNKNOWN) == unknown, (data.count(UNKNOWN), unknown)


if __name__ == "__main__":
    {"compare": compare, "fill": make, "verify": verify}[sys.argv[1]](
        *sys.argv[2:]
    )
