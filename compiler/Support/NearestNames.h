// Suggestions for misspelt names: "unknown op 'Softmx', did you mean
// 'Softmax'?"
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_NEARESTNAMES_H
#define MPC_COMPILER_SUPPORT_NEARESTNAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc {

/// The one of the names that differs from `word` by one or two letters; empty
/// if there is none.
std::string findNearestName(llvm::StringRef word,
                            llvm::ArrayRef<std::string> names);

/// "'a', 'b' and 9 others": each name once, those most like `word`, which may
/// be a regular expression, first, and at most eight. "none" without names.
std::string listNearestNames(llvm::StringRef word,
                             llvm::ArrayRef<std::string> names);

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_NEARESTNAMES_H
