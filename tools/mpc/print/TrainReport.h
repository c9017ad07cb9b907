// What `mpc train` tells its user before the first step and at the end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_TRAINREPORT_H
#define MPC_TOOLS_MPC_PRINT_TRAINREPORT_H

#include "runtime/Plan.h"
#include "runtime/train/Trainer.h"

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mpc::tools {

/// Prints what is trained; with `isDefault`, which the user did not choose,
/// also what is not. A long list shows its ends unless `isWhole`.
void printTrainables(llvm::raw_ostream &os, const runtime::Plan &plan,
                     bool isDefault, bool isWhole);
/// Prints how running statistics are updated, where there are any.
void printNormalizations(llvm::raw_ostream &os, const runtime::Plan &plan);
/// Prints what memory training takes and what it runs on.
void printResources(llvm::raw_ostream &os, const runtime::Plan &plan,
                    const std::string &device, int threads);

/// Prints what each function of the plan consists of.
void printFunctions(llvm::raw_ostream &os, const runtime::Plan &plan);

/// "12,345,678".
std::string formatCount(int64_t value);

/// "1.5 GiB".
std::string formatBytes(double bytes);

/// Prints the result of a run.
void printSummary(llvm::raw_ostream &os,
                  const runtime::train::TrainResult &result);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_TRAINREPORT_H
