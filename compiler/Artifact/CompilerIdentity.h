// Identifies the build of the compiler.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_COMPILERIDENTITY_H
#define MPC_COMPILER_ARTIFACT_COMPILERIDENTITY_H

#include <string>

namespace mpc {

/// Returns the builds of mpc, LLVM and MLIR in this process as one string,
/// because other builds may compile a kernel to other code. Empty if one of
/// them has no build ID.
std::string identifyCompiler();

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_COMPILERIDENTITY_H
