// Builds the JSON objects that `mpc inspect --format json` prints. The contents
// are those of the text output.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_INSPECTJSON_H
#define MPC_TOOLS_MPC_COMMANDS_INSPECTJSON_H

#include "frontends/ONNX/Summary.h"
#include "runtime/Plan.h"
#include "runtime/train/data/Array.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mpc::tools {

/// Returns mpc's name of an element type, such as "f32", "u8" or "i64".
std::string elementWord(mlir::Type type);

/// Prints an object as one line of standard output.
void printJSON(const nlohmann::json &object);

/// Returns the first entries of each object: `{"file": ..., "kind": ...}`.
nlohmann::json describeFile(const std::string &file, const char *kind);

/// Describes a model: versions, inputs, outputs, and how often each op occurs.
/// An input or output is `{"name": "x", "shape": ["N", 3], "type": "f32"}`,
/// without "shape" if the file has none.
nlohmann::json describe(const std::string &file,
                        const onnx_frontend::ModelSummary &summary);
nlohmann::json
describe(const std::vector<onnx_frontend::ParameterSummary> &parameters);
nlohmann::json describe(const std::vector<onnx_frontend::LayerSummary> &layers);

/// Describes an artifact. If `hasVariables`, also lists each state variable.
nlohmann::json describe(const std::string &file, const runtime::Plan &plan,
                        bool hasVariables);

/// Describes the name, type and shape of each array.
nlohmann::json describe(const std::vector<runtime::train::Array> &arrays);

/// Describes a table of values: the number of rows and each column. If a column
/// could not be read, its entry has the fault.
nlohmann::json describeTable(const std::string &file, int64_t rows,
                             const std::vector<runtime::train::Array> &columns);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_INSPECTJSON_H
