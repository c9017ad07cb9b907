// Values whose elements no step changes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_KNOWNELEMENTS_H
#define MPC_PASSES_RECOGNITION_KNOWNELEMENTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// Marks the arguments of a function, as long as it lives, that --train chooses
/// by regular expressions of their names: from the first step on they differ
/// from what the model has. --train itself is checked where parameters are
/// chosen.
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

/// The elements of a constant, or of a frozen variable that is not marked; null
/// for other values.
mlir::ElementsAttr findKnownElements(mlir::Value value);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_KNOWNELEMENTS_H
