// LLVM's code generator for CPUs, set up as the kernels want it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_CPU_H
#define MPC_COMPILER_ARTIFACT_CPU_H

#include "compiler/Target/TargetInfo.h"

namespace llvm {
class Module;
} // namespace llvm

namespace mpc {

/// Makes LLVM know CPUs.
void initializeCPU();

/// Marks the functions with what the target has.
void setCPUAttributes(llvm::Module &module, const TargetInfo &info);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_CPU_H
