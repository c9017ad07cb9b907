// Elements that run-time indices name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_INDICES_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_INDICES_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc::codegen {

/// An element of an axis, and whether there is one; its index is 0 otherwise.
struct NamedElement {
  mlir::Value index, exists;
};

/// The element of an axis of `size` that integer `index` names, from the end
/// where it is negative.
NamedElement resolveIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value index,
                          int64_t size);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_INDICES_H
