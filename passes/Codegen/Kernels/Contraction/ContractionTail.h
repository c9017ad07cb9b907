// What a kernel makes of the sums of its contraction.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONTAIL_H
#define MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONTAIL_H

#include "passes/Codegen/Kernels/FragmentEmitter.h"

namespace mpc::codegen {

/// The tail of a kernel whose rows are group 0 of its body's dimensions, and
/// whose columns are group 1.
class ContractionTail {
public:
  ContractionTail(KernelContext &context, const KernelBody &body,
                  mlir::Operation *contraction);

  /// What is the same for all sums.
  Scope start();
  /// The same with what depends on the row too.
  Scope enterRow(const Scope &outer, mlir::Value row);
  /// Stores what follows from the sums of columns [column, column + lanes) of a
  /// row, a scalar or a vector in the compute type.
  void store(const Scope &row, mlir::Value column, mlir::Value sum);

private:
  const KernelBody &body;
  FragmentEmitter fragments;
  llvm::SmallVector<unsigned> targets;
  unsigned contractionNode;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONTAIL_H
