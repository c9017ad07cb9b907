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
/// empty if no name is so near.
std::string findNearestName(llvm::StringRef word,
                            llvm::ArrayRef<std::string> names);

/// Lists at most eight names, each once: "'a', 'b' and 9 others". Names most
/// similar to `word`, which may be a regular expression, come first. Returns
/// "none" if `names` is empty.
std::string listNearestNames(llvm::StringRef word,
                             llvm::ArrayRef<std::string> names);

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_NEARESTNAMES_H
