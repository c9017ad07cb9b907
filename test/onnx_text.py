"""Converts ONNX text to an ONNX file: onnx_text.py model.onnxtxt model.onnx.

SPDX-License-Identifier: Apache-2.0
"""

import importlib.machinery
import importlib.util
import sys


def load_parser():
    """Loads only ONNX's parser: importing the package takes ten times as long."""
    package = importlib.util.find_spec("onnx").submodule_search_locations
    spec = importlib.machinery.PathFinder.find_spec(
        "onnx.onnx_cpp2py_export", package
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.parser


def main():
    source, destination = sys.argv[1:]
    with open(source, encoding="utf-8") as text:
        ok, message, model = load_parser().parse_model(text.read())
    if not ok:
        sys.exit(f"{source}: {message.decode()}")
    with open(destination, "wb") as file:
        file.write(model)


if __name__ == "__main__":
    main()
