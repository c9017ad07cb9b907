"""Writes copies of a model with training_info, each with one error.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys

import onnx
from onnx import helper


def no_such_key(info):
    info.update_binding[0].key = "nobody"


def key_twice(info):
    info.update_binding.append(info.update_binding[0])


def no_such_output(info):
    info.update_binding[0].value = "nothing"


def wrong_type(info):
    info.update_binding[0].value = info.update_binding[1].value


def other_inputs(info):
    gradient = info.algorithm.node[1]
    gradient.input[0], gradient.input[1] = gradient.input[1], gradient.input[0]


def random_start(info):
    node = helper.make_node(
        "RandomNormal", [], ["start"], "random", shape=[32, 64]
    )
    value = helper.make_tensor_value_info("start", 1, [32, 64])
    info.initialization.CopyFrom(
        helper.make_graph([node], "initialization", [], [value])
    )
    binding = info.initialization_binding.add()
    binding.key, binding.value = "fc1.weight", "start"


def unknown_mode(info):
    for attribute in info.algorithm.node[2].attribute:
        if attribute.name == "mode":
            attribute.s = b"fast"


def uneven(info):
    del info.algorithm.node[2].input[-1]


def preview_alias(info):
    info.algorithm.node[1].domain = "ai.onnx.preview"


def main():
    source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(exist_ok=True)
    for change in (
        no_such_key,
        key_twice,
        no_such_output,
        wrong_type,
        other_inputs,
        random_start,
        unknown_mode,
        uneven,
        preview_alias,
    ):
        model = onnx.load(source)
        change(model.training_info[0])
        if change is preview_alias:
            model.opset_import.add(domain="ai.onnx.preview", version=1)
        data = model.SerializeToString()
        (folder / f"{change.__name__}.onnx").write_bytes(data)
    twice = onnx.load(source)
    twice.training_info.append(twice.training_info[0])
    (folder / "two_steps.onnx").write_bytes(twice.SerializeToString())


if __name__ == "__main__":
    main()
