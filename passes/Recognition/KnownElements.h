// Finds values whose elements no step changes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_KNOWNELEMENTS_H
#define MPC_PASSES_RECOGNITION_KNOWNELEMENTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// While alive, marks the arguments of a function that --train chooses by
/// regular expressions of names: training will change their elements. Invalid
/// expressions are reported where parameters are chosen.
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

/// Returns the elements of a constant, or of a frozen variable without a mark;
/// null for other values.
mlir::ElementsAttr findKnownElements(mlir::Value value);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_KNOWNELEMENTS_H
