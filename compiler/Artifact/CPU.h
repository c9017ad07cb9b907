// Sets up LLVM's code generator for CPUs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_CPU_H
#define MPC_COMPILER_ARTIFACT_CPU_H

#include "compiler/Target/TargetInfo.h"

namespace llvm {
class Module;
} // namespace llvm

namespace mpc {

/// Registers the CPU target with LLVM.
void initializeCPU();

/// Marks the functions of `module` with the features of the target.
void setCPUAttributes(llvm::Module &module, const TargetInfo &info);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_CPU_H
