// Outputs of mpc run as a table: comma-separated values, a row for each sample.
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

/// Whether outputs that go to a file of that name are written as a table.
bool isTable(const std::string &file);

/// Usage where an output of `function` is no column, and no row of columns.
runtime::Status checkTable(const std::string &file,
                           const runtime::train::FunctionPorts &function);

/// Writes arrays [N] as a column called by their name, and [N, K] as K columns
/// NAME_0, NAME_1 and so on. Floats have the digits that read back to the same
/// value of their type. `sampleFiles`, where there are as many as rows, are a
/// column `file` in front.
runtime::Status writeTable(const std::string &file,
                           const std::vector<runtime::train::Array> &arrays,
                           const std::vector<std::string> &sampleFiles = {});

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_OUTPUTTABLE_H
