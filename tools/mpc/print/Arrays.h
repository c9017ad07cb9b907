// Reads arrays from the command line (`--input x=x.npy`, `--input x=1,2,3`) and
// prints tensors as text.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_ARRAYS_H
#define MPC_TOOLS_MPC_PRINT_ARRAYS_H

#include "runtime/train/data/Array.h"

#include "llvm/Support/raw_ostream.h"

namespace mpc::tools {

/// Parses a value of --input: NAME=FILE, NAME=@FILE or NAME=VALUE. FILE is an
/// npy file, or an npz or safetensors file; if it has several arrays, the array
/// called NAME is read. VALUE is a number, a list 1,2,3, or a nested JSON list.
/// A text that is a valid VALUE is never read as a file; write NAME=@FILE for
/// that. A VALUE becomes f64 or i64, and is converted when it is set as an
/// input.
runtime::StatusOr<runtime::train::Array> parseInput(const std::string &text);

/// Formats the values of `tensor` as text. Shows only the first and the last 8
/// values if there are more than 32.
std::string describeValues(const runtime::Tensor &tensor);

/// Prints `name: f32 2x3 =` and the values, formatted by `describeValues`.
void printTensor(llvm::raw_ostream &os, const std::string &name,
                 const runtime::Tensor &tensor);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_ARRAYS_H
