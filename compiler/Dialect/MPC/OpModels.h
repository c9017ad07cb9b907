// Attaches analysis interfaces to mpc ops from outside the op definitions (MLIR
// external models). Each interface has one source file, such as MPCParts.cpp. A
// new op may list the interface among its traits instead.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_OPMODELS_H
#define MPC_COMPILER_DIALECT_MPC_OPMODELS_H

#include "mlir/IR/MLIRContext.h"

namespace mpc {

/// Each attaches one interface to the ops that need an implementation of their
/// own: PartsOpInterface, RangeOpInterface and SampleAxisOpInterface.
void attachPartsModels(mlir::MLIRContext &context);
void attachRangeModels(mlir::MLIRContext &context);
void attachSampleAxisModels(mlir::MLIRContext &context);

/// Attaches the interface implementation `Model<Op>` to each op of `OpTs`:
/// attachEach<SoftmaxParts, SoftmaxOp, LogSoftmaxOp>(context).
template <template <typename> class Model, typename... OpTs>
void attachEach(mlir::MLIRContext &context) {
  (OpTs::template attachInterface<Model<OpTs>>(context), ...);
}

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_OPMODELS_H
