// libonnx's parser of ONNX text.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc-translate/ONNXText.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#include <onnx/defs/parser.h>
#pragma GCC diagnostic pop

bool convertONNXText(const std::string &text, std::string &result) {
  onnx::ModelProto model;
  auto status = onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) {
    result = status.ErrorMessage();
    return false;
  }
  result.clear();
  return model.SerializeToString(&result);
}
