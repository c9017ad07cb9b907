// ONNX text to ONNX files, for tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_TRANSLATE_ONNXTEXT_H
#define MPC_TOOLS_MPC_TRANSLATE_ONNXTEXT_H

#include <string>

/// Parses a model in ONNX's text form. False: `result` is a message, else the
/// serialized model.
bool convertONNXText(const std::string &text, std::string &result);

#endif // MPC_TOOLS_MPC_TRANSLATE_ONNXTEXT_H
