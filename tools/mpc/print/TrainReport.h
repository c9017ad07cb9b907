// Prints what `mpc train` tells its user before the first step and at the end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_TRAINREPORT_H
#define MPC_TOOLS_MPC_PRINT_TRAINREPORT_H

#include "runtime/Plan.h"
#include "runtime/train/Trainer.h"

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mpc::tools {

/// The contents of a list of trained parameters.
struct TrainablesList {
  /// True to add a note about tensors that are not trained, for a user who has
  /// chosen none.
  bool notesOthers = false;
  /// True to print a long list whole; false to print its ends.
  bool isWhole = false;
};

/// Prints the trained parameters.
void printTrainables(llvm::raw_ostream &os, const runtime::Plan &plan,
                     const TrainablesList &list);
/// Prints how running statistics are updated, if there are any.
void printNormalizations(llvm::raw_ostream &os, const runtime::Plan &plan);
/// Prints the memory that training takes and the device it runs on.
void printResources(llvm::raw_ostream &os, const runtime::Plan &plan,
                    const std::string &device, int threads);

/// Prints the kinds of steps of each function of the plan.
void printFunctions(llvm::raw_ostream &os, const runtime::Plan &plan);

/// Formats a count as "12,345,678".
std::string formatCount(int64_t value);

/// Formats a size as "1.5 GiB".
std::string formatBytes(double bytes);

/// Prints the result of a run.
void printSummary(llvm::raw_ostream &os,
                  const runtime::train::TrainResult &result);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_TRAINREPORT_H
