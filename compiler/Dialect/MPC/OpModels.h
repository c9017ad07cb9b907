// Attaches analysis interfaces to the mpc ops from outside their definitions.
// Each interface has one source, MPCParts.cpp for example. A new op may instead
// list the interface among its traits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_OPMODELS_H
#define MPC_COMPILER_DIALECT_MPC_OPMODELS_H

#include "mlir/IR/MLIRContext.h"

namespace mpc {

/// Attaches PartsOpInterface, RangeOpInterface or SampleAxisOpInterface to the
/// ops that need their own implementation.
void attachPartsModels(mlir::MLIRContext &context);
void attachRangeModels(mlir::MLIRContext &context);
void attachSampleAxisModels(mlir::MLIRContext &context);

/// Attaches a class template instance to each of several ops:
/// attachEach<SoftmaxParts, SoftmaxOp, LogSoftmaxOp>(context).
template <template <typename> class Model, typename... OpTs>
void attachEach(mlir::MLIRContext &context) {
  (OpTs::template attachInterface<Model<OpTs>>(context), ...);
}

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_OPMODELS_H
