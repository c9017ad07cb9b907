// Reads the numbers of a constant.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_CONSTANTELEMENTS_H
#define MPC_COMPILER_PRECISION_CONSTANTELEMENTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mpc {

/// Calls `visit` for each finite element, or once for a splat. Returns false
/// without a call if the elements are not floats or not available.
bool forEachFiniteElement(mlir::ElementsAttr elements,
                          llvm::function_ref<void(double)> visit);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_CONSTANTELEMENTS_H
