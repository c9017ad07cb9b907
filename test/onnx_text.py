"""Converts ONNX text to an ONNX file: onnx_text.py model.onnxtxt model.onnx."""

import sys

import onnx.onnx_cpp2py_export.parser as parser


def main():
    source, destination = sys.argv[1:]
    with open(source, encoding="utf-8") as text:
        ok, message, model = parser.parse_model(text.read())
    if not ok:
        sys.exit(f"{source}: {message.decode()}")
    with open(destination, "wb") as file:
        file.write(model)


if __name__ == "__main__":
    main()
