// What the Precision stage asks an op.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H

#include "compiler/Interfaces/RegionOpInterface.h"

namespace mpc {
/// The multiplications and additions of an op that multiplies its first two
/// operands; 0 where it contracts none.
double countFlopsOfProduct(mlir::Operation *op);
} // namespace mpc

#include "compiler/Interfaces/PrecisionOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_PRECISIONOPINTERFACE_H
