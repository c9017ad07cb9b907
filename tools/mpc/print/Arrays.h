// Arrays on the command line: `--input x=x.npy` or `--input x=1,2,3`, and
// results as text.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_ARRAYS_H
#define MPC_TOOLS_MPC_PRINT_ARRAYS_H

#include "runtime/train/data/Array.h"

#include "llvm/Support/raw_ostream.h"

namespace mpc::tools {

/// Parses NAME=FILE or NAME=@FILE (npy, or one array of an npz or safetensors
/// file by its name) or NAME=VALUE, where VALUE is a number, a list 1,2,3, or a
/// nested JSON list, and goes before a file of that name. Literals are f64 or
/// i64; binding converts them.
runtime::StatusOr<runtime::train::Array> parseInput(const std::string &text);

/// The values, long ones abbreviated.
std::string describeValues(const runtime::Tensor &tensor);

/// Prints `name: f32 2x3` and the values, long ones abbreviated.
void printTensor(llvm::raw_ostream &os, const std::string &name,
                 const runtime::Tensor &tensor);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_ARRAYS_H
