// Suggests names for a misspelt word: "unknown op 'Softmx', did you mean
// 'Softmax'?"
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_NEARESTNAMES_H
#define MPC_COMPILER_SUPPORT_NEARESTNAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc {

/// Returns the name that differs least from `word`, by at most two letters;
/// empty if there is none.
std::string findNearestName(llvm::StringRef word,
                            llvm::ArrayRef<std::string> names);

/// Lists names: "'a', 'b' and 9 others", at most eight, each once. Names most
/// similar to `word`, which may be a regular expression, come first. "none"
/// without names.
std::string listNearestNames(llvm::StringRef word,
                             llvm::ArrayRef<std::string> names);

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_NEARESTNAMES_H
