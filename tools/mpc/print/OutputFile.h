// Writes the outputs of mpc run to a file: arrays or a table, with the names of
// samples and classes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_OUTPUTFILE_H
#define MPC_TOOLS_MPC_PRINT_OUTPUTFILE_H

#include "runtime/train/data/Array.h"
#include "runtime/train/data/Npz.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// Writes `arrays` in the format of the extension of `file`. Texts of samples
/// become the first columns of a table, arrays of strings in .npz, and entries
/// of the metadata (JSON lists) in .safetensors. .npy has no place for them.
runtime::Status
writeOutputs(const std::string &file,
             const std::vector<runtime::train::Array> &arrays,
             const std::vector<runtime::train::TextArray> &texts);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_OUTPUTFILE_H
