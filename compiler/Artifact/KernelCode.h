// Puts the code of kernels that were compiled one by one together.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_KERNELCODE_H
#define MPC_COMPILER_ARTIFACT_KERNELCODE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mpc {

/// The name of every kernel while it is compiled. With its own name, equal
/// kernels of two models would have different code.
constexpr llvm::StringLiteral kAnonymousKernel = "mpc_kernel";

/// A compiled kernel: its name in the plan, and its object code or PTX, in
/// which the function is called `kAnonymousKernel`.
struct KernelCode {
  std::string name, code;
};

/// An archive of object files, one per kernel; the same bytes for the same
/// kernels.
llvm::Expected<std::string> joinObjects(llvm::ArrayRef<KernelCode> kernels);

/// One PTX file of all kernels, which have its version and target in common.
llvm::Expected<std::string> joinPTX(llvm::ArrayRef<KernelCode> kernels);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_KERNELCODE_H
