// Prints the information of `mpc inspect` for each kind of file.
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

/// Contents to print besides the summary.
struct InspectOptions {
  bool parameters = false;           ///< --parameters
  bool layers = false;               ///< --layers
  bool isJSON = false;               ///< --format json
  std::vector<std::string> noRepair; ///< --no-repair
};

/// Prints a summary of an ONNX model.
ExitCode inspectModel(const std::string &file, const InspectOptions &options);

/// Prints the graphs in a folder of ONNX Runtime's training artifacts.
/// `isTrainingFolder` is false if the folder has none.
bool isTrainingFolder(const std::string &folder);
ExitCode inspectTrainingFolder(const std::string &folder,
                               const InspectOptions &options);

/// Prints a checkpoint of `mpc train`, or lists the checkpoints of a run's
/// folder. `isCheckpointFolder` is false if there are none.
bool isCheckpointFolder(const std::string &folder);
ExitCode inspectCheckpoints(const std::string &folder,
                            const InspectOptions &options);

/// Prints a summary of a file that `mpc train --metrics` wrote. `isMetricsFile`
/// is false if the file does not begin with an event.
bool isMetricsFile(const std::string &file);
ExitCode inspectMetrics(const std::string &file, const InspectOptions &options);

/// Prints columns as wide as their widest cell, but at most 60 characters. The
/// last column is not padded.
void printTable(llvm::raw_ostream &os,
                std::vector<std::vector<std::string>> rows);

/// Returns "1x3x224x224", or "scalar".
std::string describeShape(const runtime::Shape &shape);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_INSPECT_H
