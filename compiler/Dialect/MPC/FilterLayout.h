// In which order a convolution's filter lies in memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FILTERLAYOUT_H
#define MPC_COMPILER_DIALECT_MPC_FILTERLAYOUT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mpc {

/// An attribute of the convolution family, as `layout` is for activations:
/// "OIHW" is (out, in / group, spatial...), ONNX's order and the one where the
/// attribute is absent; "OHWI" is (out, spatial..., in / group), which GPUs'
/// libraries take.
inline constexpr llvm::StringLiteral kFilterLayoutAttr = "mpc.filter_layout";
inline constexpr llvm::StringLiteral kInputChannelsLast = "OHWI";

/// Whether `attributes` say that a filter has its input channels last.
inline bool hasInputChannelsLast(mlir::DictionaryAttr attributes) {
  auto layout = attributes.getAs<mlir::StringAttr>(kFilterLayoutAttr);
  return layout && layout.getValue() == kInputChannelsLast;
}
inline bool hasInputChannelsLast(mlir::Operation *op) {
  return hasInputChannelsLast(op->getDiscardableAttrDictionary());
}

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FILTERLAYOUT_H
