// Declares the interface of ops whose activations have a layout, NCHW or NHWC.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_LAYOUTOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_LAYOUTOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace mpc {
/// An enumeration of the dialect, defined in MPCEnums.td.
enum class Layout : uint32_t;
} // namespace mpc

#include "compiler/Interfaces/LayoutOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_LAYOUTOPINTERFACE_H
