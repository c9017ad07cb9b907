// Which build of the compiler runs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_COMPILERIDENTITY_H
#define MPC_COMPILER_ARTIFACT_COMPILERIDENTITY_H

#include <string>

namespace mpc {

/// The build of mpc, LLVM and MLIR that this process runs, as one word: another
/// build may compile the same kernel to other code. Empty where a part of it
/// has no build ID.
std::string identifyCompiler();

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_COMPILERIDENTITY_H
