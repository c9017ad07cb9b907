// Compiles kernels in the LLVM dialect to machine code.
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

/// The result of `compileKernels`: optimised LLVM IR as text, assembly or an
/// object file of a CPU, or PTX, the assembly of GPUs.
enum class CodeFormat { LLVM, Assembly, Object, PTX };

/// True if the format exists for the target.
bool hasFormat(const TargetInfo &target, CodeFormat format);

/// Compiles every function of the LLVM dialect in `module`, the result of the
/// Codegen stage; ignores ops of other dialects. Returns the bytes of one file,
/// equal for equal input.
llvm::Expected<std::string> compileKernels(mlir::ModuleOp module,
                                           const TargetInfo &target,
                                           CodeFormat format);

/// Emits `module`, without optimisation, as an object file for a CPU.
llvm::Expected<std::string> emitObject(llvm::Module &module,
                                       const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_CODE_H
