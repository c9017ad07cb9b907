// Declares one function per kind of file that `mpc inspect` prints, and their
// shared helpers.
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

/// The flags of `mpc inspect` that select what to print besides a summary.
struct InspectOptions {
  bool parameters = false;           ///< --parameters
  bool layers = false;               ///< --layers
  bool isJSON = false;               ///< --format json
  std::vector<std::string> noRepair; ///< --no-repair
};

/// Prints a summary of an ONNX model.
ExitCode inspectModel(const std::string &file, const InspectOptions &options);

/// inspectTrainingFolder prints the graphs in a folder of ONNX Runtime's
/// training artifacts. isTrainingFolder is true if `folder` contains such
/// graphs.
bool isTrainingFolder(const std::string &folder);
ExitCode inspectTrainingFolder(const std::string &folder,
                               const InspectOptions &options);

/// inspectCheckpoints prints a checkpoint of `mpc train`, or a list if the
/// folder holds several. isCheckpointFolder is true if `folder` is or holds a
/// checkpoint.
bool isCheckpointFolder(const std::string &folder);
ExitCode inspectCheckpoints(const std::string &folder,
                            const InspectOptions &options);

/// inspectMetrics prints a summary of a file that `mpc train --metrics` wrote.
/// isMetricsFile is true if the file begins with an event of such a file.
bool isMetricsFile(const std::string &file);
ExitCode inspectMetrics(const std::string &file, const InspectOptions &options);

/// Prints a table. Each column is as wide as its widest cell, but at most 60
/// characters; the last column is not padded.
void printTable(llvm::raw_ostream &os,
                std::vector<std::vector<std::string>> rows);

/// Returns the shape as text: "1x3x224x224", or "scalar" for rank 0.
std::string describeShape(const runtime::Shape &shape);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_INSPECT_H
