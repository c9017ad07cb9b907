// Emits the epilogue of a contraction: the elementwise ops on its sums, and the
// stores of their results.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONEPILOGUE_H
#define MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONEPILOGUE_H

#include "passes/Codegen/Kernels/FragmentEmitter.h"

namespace mpc::codegen {

/// Emits the epilogue at one position of the result at a time. `body` must have
/// the rows of the result as axis group 0 and the columns as group 1.
class ContractionEpilogue {
public:
  ContractionEpilogue(KernelContext &context, const KernelBody &body,
                      mlir::Operation *contraction);

  /// Emits the epilogue's values that depend neither on row nor on column, such
  /// as a scalar factor.
  Scope start();
  /// Emits the epilogue's values that depend on `row`, but not on the column.
  /// `outer` is the result of `start`.
  Scope enterRow(const Scope &outer, mlir::Value row);
  /// Emits the rest of the epilogue for columns [column, column + lanes) of a
  /// row, and stores the results. `row` is the result of `enterRow`. `sum` is
  /// the contraction's sum: a scalar or a vector in the compute type.
  void store(const Scope &row, mlir::Value column, mlir::Value sum);

private:
  const KernelBody &body;
  FragmentEmitter fragments;
  llvm::SmallVector<unsigned> targets;
  unsigned contractionNode;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_CONTRACTION_CONTRACTIONEPILOGUE_H
