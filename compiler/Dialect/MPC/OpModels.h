// Interfaces that ops get beside those of their definitions: what follows from
// an op for an analysis or two, in one source for each interface. An op of its
// own definition may have the interface in its list of traits instead.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_OPMODELS_H
#define MPC_COMPILER_DIALECT_MPC_OPMODELS_H

#include "mlir/IR/MLIRContext.h"

namespace mpc {

/// Attach PartsOpInterface, RangeOpInterface and SampleAxisOpInterface to the
/// ops of the dialect that have an answer of their own.
void attachPartsModels(mlir::MLIRContext &context);
void attachRangeModels(mlir::MLIRContext &context);
void attachSampleAxisModels(mlir::MLIRContext &context);

/// Attaches to each of several ops the model that a template makes of it:
/// attachEach<SoftmaxParts, SoftmaxOp, LogSoftmaxOp>(context).
template <template <typename> class Model, typename... OpTs>
void attachEach(mlir::MLIRContext &context) {
  (OpTs::template attachInterface<Model<OpTs>>(context), ...);
}

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_OPMODELS_H
