// Kernels in the LLVM dialect to machine code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_CODE_H
#define MPC_COMPILER_ARTIFACT_CODE_H

#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class Module;
} // namespace llvm

namespace mpc {

/// What `compileKernels` returns: optimised LLVM IR as text, assembly or an
/// object file of a CPU, or PTX, the assembly of GPUs.
enum class CodeFormat { LLVM, Assembly, Object, PTX };

/// Whether there is such code for the target.
bool hasFormat(const TargetInfo &target, CodeFormat format);

/// Compiles every function of the LLVM dialect in `module`, what the Codegen
/// stage ends with; ops of other dialects are passed over. The result is the
/// bytes of one file, the same for the same input.
llvm::Expected<std::string> compileKernels(mlir::ModuleOp module,
                                           const TargetInfo &target,
                                           CodeFormat format);

/// The object file of `module` as it is, for a CPU.
llvm::Expected<std::string> emitObject(llvm::Module &module,
                                       const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_CODE_H
