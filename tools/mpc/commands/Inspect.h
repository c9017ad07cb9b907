// What `mpc inspect` shows of each kind of file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_INSPECT_H
#define MPC_TOOLS_MPC_COMMANDS_INSPECT_H

#include "compiler/Support/ExitCode.h"
#include "runtime/Tensor.h"

#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// What is shown beside a summary.
struct InspectOptions {
  bool parameters = false; ///< --parameters
  bool layers = false;     ///< --layers
  bool isJSON = false;     ///< --format json
};

/// An ONNX model.
ExitCode inspectModel(const std::string &file, const InspectOptions &options);

/// A folder of ONNX Runtime's training artifacts; false where it is none.
bool isTrainingFolder(const std::string &folder);
ExitCode inspectTrainingFolder(const std::string &folder,
                               const InspectOptions &options);

/// A checkpoint of `mpc train`, or the folder of a run's; false where it is
/// none.
bool isCheckpointFolder(const std::string &folder);
ExitCode inspectCheckpoints(const std::string &folder,
                            const InspectOptions &options);

/// What `mpc train --metrics` wrote; false where the file begins otherwise.
bool isMetricsFile(const std::string &file);
ExitCode inspectMetrics(const std::string &file, const InspectOptions &options);

/// Columns as wide as their widest cell, the last one as it is.
void printTable(llvm::raw_ostream &os,
                std::vector<std::vector<std::string>> rows);

/// "1x3x224x224", or "scalar".
std::string describeShape(const runtime::Shape &shape);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_INSPECT_H
