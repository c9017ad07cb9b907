// What integers a value can have, as far as the ops that compute it say.
//
// An index that a model takes modulo the size of an axis, or clips to it, names
// an element whatever the data are. So nothing has to look at it when the
// model runs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_INTEGERRANGES_H
#define MPC_FRONTENDS_ONNX_IMPORTER_INTEGERRANGES_H

#include "compiler/Interfaces/RangeOpInterface.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc::onnx_frontend {

/// What is known of some values for reasons that their ops do not show: the
/// place of the largest of n elements is below n.
using KnownRanges = llvm::DenseMap<mlir::Value, IntegerRange>;

/// A range that holds every element of `value`, a tensor of integers or
/// booleans; all of its type where nothing narrower is found.
IntegerRange findRange(mlir::Value value, const KnownRanges &known);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_INTEGERRANGES_H
