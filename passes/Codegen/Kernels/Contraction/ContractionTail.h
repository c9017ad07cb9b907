// Emits the tail of a contraction: the ops on its sums.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONTAIL_H
#define MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONTAIL_H

#include "passes/Codegen/Kernels/FragmentEmitter.h"

namespace mpc::codegen {

/// The tail of a kernel whose body has rows as group 0 and columns as group 1.
class ContractionTail {
public:
  ContractionTail(KernelContext &context, const KernelBody &body,
                  mlir::Operation *contraction);

  /// Emits the values that depend neither on row nor on column.
  Scope start();
  /// Like `start`, plus the values that depend on `row`.
  Scope enterRow(const Scope &outer, mlir::Value row);
  /// Computes and stores the results for the sums of columns [column, column +
  /// lanes) of a row. `sum` is a scalar or a vector in the compute type.
  void store(const Scope &row, mlir::Value column, mlir::Value sum);

private:
  const KernelBody &body;
  FragmentEmitter fragments;
  llvm::SmallVector<unsigned> targets;
  unsigned contractionNode;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONTAIL_H
