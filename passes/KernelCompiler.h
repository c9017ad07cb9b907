// Compiles the kernels of a plan to machine code: each kernel by itself, on all
// cores, unless a cache already has the code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_KERNELCOMPILER_H
#define MPC_PASSES_KERNELCOMPILER_H

#include "compiler/Artifact/CodeCache.h"
#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/BuiltinOps.h"

namespace mpc {

/// The number of kernels in a plan, and how many of them the cache had.
struct KernelCounts {
  size_t all = 0;
  size_t kept = 0; ///< kernels whose code the cache had
};

struct KernelCompilerOptions {
  TargetInfo target;
  /// The number of threads that compile kernels.
  unsigned threads = 1;
  /// The cache of compiled kernels; nullopt for none.
  std::optional<CodeCache> cache;
};

/// Compiles the kernels of `planned`, the result of the Planning stage: runs
/// the Codegen stage and LLVM on every function with an `mpc.kernel` attribute.
/// Returns the bytes for `ArtifactParts::kernels`, which depend neither on the
/// number of threads nor on the cache. Reports failures at the kernel. Sets
/// `*counts` unless `counts` is null.
mlir::FailureOr<std::string>
compilePlannedKernels(mlir::ModuleOp planned,
                      const KernelCompilerOptions &options,
                      KernelCounts *counts = nullptr);

} // namespace mpc

#endif // MPC_PASSES_KERNELCOMPILER_H
