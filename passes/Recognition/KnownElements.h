// Finds values with known elements: constants, and parameters that training
// does not change.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_KNOWNELEMENTS_H
#define MPC_PASSES_RECOGNITION_KNOWNELEMENTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// While alive, marks the arguments of `function` whose names match a pattern
/// of --train, because training will change their elements. Ignores invalid
/// expressions, which a later pass reports.
class TrainedMarks {
public:
  TrainedMarks(mlir::func::FuncOp function,
               llvm::ArrayRef<std::string> expressions);
  TrainedMarks(const TrainedMarks &) = delete;
  TrainedMarks &operator=(const TrainedMarks &) = delete;
  ~TrainedMarks();

private:
  mlir::func::FuncOp function;
};

/// Returns the elements of a constant, or the initial elements of a frozen
/// variable that --train does not name; null for other values.
mlir::ElementsAttr findKnownElements(mlir::Value value);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_KNOWNELEMENTS_H
