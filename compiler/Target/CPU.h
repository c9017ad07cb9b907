// LLVM's code generator for CPUs, set up as the kernels want it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_TARGET_CPU_H
#define MPC_COMPILER_TARGET_CPU_H

#include "compiler/Target/TargetInfo.h"

#include <memory>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace mpc {

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createCPUMachine(const TargetInfo &info);

/// Marks the functions with what the target has.
void setCPUAttributes(llvm::Module &module, const TargetInfo &info);

} // namespace mpc

#endif // MPC_COMPILER_TARGET_CPU_H
