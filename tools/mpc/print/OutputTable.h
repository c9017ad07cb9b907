// Writes the outputs of mpc run as a table of comma-separated values, one row
// per sample.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_OUTPUTTABLE_H
#define MPC_TOOLS_MPC_PRINT_OUTPUTTABLE_H

#include "runtime/Plan.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/data/Npz.h"
#include "runtime/train/trainee/Trainee.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// True if the extension of `file` says that outputs are written as a table.
bool isTable(const std::string &file);

/// Returns a usage error if an output of `function` has another shape than [N]
/// or [N, K], so that it does not fit in a table.
runtime::Status checkTable(const std::string &file,
                           const runtime::train::FunctionPorts &function);

/// Writes a table. `texts` are the first columns; a column without a text per
/// row is left out, since outputs of a single batch may have other rows than
/// samples. An array [N] is one column, called by its name; an array [N, K] is
/// K columns NAME_0, NAME_1 and so on. Floats have enough digits to be read
/// back exactly.
runtime::Status
writeTable(const std::string &file,
           const std::vector<runtime::train::Array> &arrays,
           const std::vector<runtime::train::TextArray> &texts = {});

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_OUTPUTTABLE_H
