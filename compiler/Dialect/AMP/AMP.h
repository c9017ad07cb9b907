// The amp dialect: attributes and ops of mixed precision.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_AMP_H
#define MPC_COMPILER_DIALECT_AMP_AMP_H

#include "compiler/Interfaces/PrecisionOpInterface.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mpc::amp {

/// Discardable attributes of a module after the Precision stage has decided all
/// types: the precision mode, and the kind of loss scale. The description of
/// the amp dialect lists all attributes.
inline constexpr llvm::StringLiteral kModeAttr = "amp.mode";
inline constexpr llvm::StringLiteral kLossScaleAttr = "amp.loss_scale";

} // namespace mpc::amp

#include "compiler/Dialect/AMP/AMPDialect.h.inc"
#include "compiler/Dialect/AMP/AMPEnums.h.inc"

namespace mpc::amp {

/// True if `mode` lowers some float32 values of the model to 16 bits.
inline bool isMixed(PrecisionMode mode) {
  return mode == PrecisionMode::FP16Mixed || mode == PrecisionMode::BF16Mixed;
}

} // namespace mpc::amp

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/AMP/AMPAttrs.h.inc"

#define GET_OP_CLASSES
#include "compiler/Dialect/AMP/AMPOps.h.inc"

#endif // MPC_COMPILER_DIALECT_AMP_AMP_H
