// Joins the code of kernels that were compiled separately to one archive or PTX
// file.
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

/// The name of every kernel while it is compiled. With their own names, equal
/// kernels of two models would have different code, and the cache would not
/// find them.
constexpr llvm::StringLiteral kAnonymousKernel = "mpc_kernel";

/// A compiled kernel: its name in the plan, and object code or PTX with the
/// function `kAnonymousKernel`.
struct KernelCode {
  std::string name, code;
};

/// Joins the object files of kernels to an archive, each kernel under its own
/// name. Equal kernels give equal bytes.
llvm::Expected<std::string> joinObjects(llvm::ArrayRef<KernelCode> kernels);

/// Joins the PTX of kernels to one PTX file, each kernel under its own name.
/// Fails if their PTX versions or targets differ.
llvm::Expected<std::string> joinPTX(llvm::ArrayRef<KernelCode> kernels);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_KERNELCODE_H
