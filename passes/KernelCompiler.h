// From a plan's kernels to machine code: each is compiled by itself, on all
// cores, and not again where its code is kept.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_KERNELCOMPILER_H
#define MPC_PASSES_KERNELCOMPILER_H

#include "compiler/Artifact/CodeCache.h"
#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/BuiltinOps.h"

namespace mpc {

/// What became of a plan's kernels.
struct KernelCounts {
  size_t all = 0;
  size_t kept = 0; ///< whose code the cache had
};

struct KernelCompilerOptions {
  TargetInfo target;
  /// How many kernels are compiled at once.
  unsigned threads = 1;
  /// Where code is kept; nowhere without one.
  std::optional<CodeCache> cache;
};

/// Compiles the kernels of `planned`, what the Planning stage ends with: the
/// Codegen stage and LLVM for every function with a `mpc.kernel` attribute. The
/// result is what `ArtifactParts::kernels` wants; the same bytes on any number
/// of threads and with any cache. What fails is reported as diagnostics at the
/// kernel. `counts`, where given, says how much of it was there already.
mlir::FailureOr<std::string>
compilePlannedKernels(mlir::ModuleOp planned,
                      const KernelCompilerOptions &options,
                      KernelCounts *counts = nullptr);

} // namespace mpc

#endif // MPC_PASSES_KERNELCOMPILER_H
