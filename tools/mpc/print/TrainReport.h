// Prints the report of `mpc train` before the first step and at the end of a
// run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_TRAINREPORT_H
#define MPC_TOOLS_MPC_PRINT_TRAINREPORT_H

#include "runtime/Plan.h"
#include "runtime/train/Trainer.h"

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mpc::tools {

/// Options of printTrainables, which prints the list of trained parameters.
struct TrainablesList {
  /// True to add a note about tensors that are not trained, if no flag chooses
  /// the trained parameters.
  bool notesOthers = false;
  /// True to print a long list in full; false to print only the start and the
  /// end.
  bool isWhole = false;
};

/// Prints the list of trained parameters.
void printTrainables(llvm::raw_ostream &os, const runtime::Plan &plan,
                     const TrainablesList &list);
/// Prints how training updates running statistics of normalizations, if there
/// are any.
void printNormalizations(llvm::raw_ostream &os, const runtime::Plan &plan);
/// Prints the memory that training needs, and the device on which it runs.
void printResources(llvm::raw_ostream &os, const runtime::Plan &plan,
                    const std::string &device, int threads);

/// Prints for each function of the plan how many steps of each kind it has.
void printFunctions(llvm::raw_ostream &os, const runtime::Plan &plan);

/// Formats a count as "12,345,678".
std::string formatCount(int64_t value);

/// Formats a size as "1.5 GiB".
std::string formatBytes(double bytes);

/// Prints the result of a run: steps, losses and times.
void printSummary(llvm::raw_ostream &os,
                  const runtime::train::TrainResult &result);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_TRAINREPORT_H
