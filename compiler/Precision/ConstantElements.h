// Reads the numbers of a constant.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_CONSTANTELEMENTS_H
#define MPC_COMPILER_PRECISION_CONSTANTELEMENTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace mpc {

/// Calls `visit` for each finite element, or once for a splat. Returns false
/// without a call if the elements are not floats or not available.
bool forEachFiniteElement(mlir::ElementsAttr elements,
                          llvm::function_ref<void(double)> visit);

/// The smallest, the largest and the root mean square of the finite elements of
/// a constant. All are 0 if `isEmpty`: no element is finite.
struct ElementSummary {
  double low = 0.0, high = 0.0, rms = 0.0;
  bool isEmpty = true;
};

/// Returns the summary of `elements`; nullopt if the elements are not floats or
/// not available.
std::optional<ElementSummary> summarize(mlir::ElementsAttr elements);

/// Returns the summary of the elements that `constant` has in the model, even
/// if the Precision stage has rounded the constant. Returns nullopt if the
/// elements are not floats or not available, and for a seed of the stage: the
/// model has no such constant.
std::optional<ElementSummary> summarizeModel(ConstantOp constant);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_CONSTANTELEMENTS_H
