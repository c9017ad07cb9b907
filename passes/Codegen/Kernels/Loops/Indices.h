// Resolves indices that are known only at run time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_INDICES_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_INDICES_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc::codegen {

/// An index along an axis, and a flag that it is in range. `index` is 0 if not
/// in range, so that a load from there is safe.
struct NamedElement {
  mlir::Value index, exists;
};

/// Resolves integer `index` to an element of an axis of `size`. A negative
/// index counts from the end.
NamedElement resolveIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value index,
                          int64_t size);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_INDICES_H
