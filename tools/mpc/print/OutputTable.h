// Writes outputs of mpc run as a table: comma-separated values, one row per
// sample.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_OUTPUTTABLE_H
#define MPC_TOOLS_MPC_PRINT_OUTPUTTABLE_H

#include "runtime/Plan.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/trainee/Trainee.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// True if outputs to a file of that name are written as a table.
bool isTable(const std::string &file);

/// Returns a usage error if an output of `function` is neither a column [N] nor
/// rows [N, K].
runtime::Status checkTable(const std::string &file,
                           const runtime::train::FunctionPorts &function);

/// Writes arrays [N] as a column called by their name, and [N, K] as K columns
/// NAME_0, NAME_1 and so on. Floats have enough digits to read back equal
/// values. If `sampleFiles` has an element per row, the elements make a first
/// column `file`.
runtime::Status writeTable(const std::string &file,
                           const std::vector<runtime::train::Array> &arrays,
                           const std::vector<std::string> &sampleFiles = {});

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_OUTPUTTABLE_H
