// Computes the range of integer values from the ops that compute them.
//
// An index that a model takes modulo the size of an axis, or clips to the size,
// is in range for all data. Such an index needs no check when the model runs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_INTEGERRANGES_H
#define MPC_FRONTENDS_ONNX_IMPORTER_INTEGERRANGES_H

#include "compiler/Interfaces/RangeOpInterface.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc::onnx_frontend {

/// Ranges that the values' ops do not show. For example, the argmax of n
/// elements is below n.
using KnownRanges = llvm::DenseMap<mlir::Value, IntegerRange>;

/// Returns a range that holds every element of `value`, a tensor of integers or
/// booleans: the full range of the type if nothing narrower is found.
IntegerRange findRange(mlir::Value value, const KnownRanges &known);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_INTEGERRANGES_H
