// The precision that the user requests for a module, by flags such as
// --precision. The Precision stage reads the request.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_REQUEST_H
#define MPC_COMPILER_DIALECT_AMP_REQUEST_H

#include "compiler/Dialect/AMP/AMP.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc::amp {

/// The attribute of a module that holds the request; getRequest reads it.
inline constexpr llvm::StringLiteral kRequestAttr = "amp.request";

/// A kind of loss scale: none, static or dynamic. `scale` is the factor if the
/// kind is static.
struct LossScaling {
  LossScale kind = LossScale::None;
  double scale = 1;

  bool operator==(const LossScaling &other) const {
    return kind == other.kind && scale == other.scale;
  }
};

/// The flags of `mpc` that the Precision stage reads.
struct Request {
  PrecisionMode mode = PrecisionMode::FP32True;
  /// nullopt means a dynamic scale for 16-mixed, and no scale otherwise.
  std::optional<LossScaling> lossScale;
  /// A policy file, or the name of a preset, whose rules override the default
  /// policy. Empty if there is none.
  std::string policy;
  /// Regular expressions for node names: --keep-fp32 keeps the nodes in fp32,
  /// --force-low makes them low.
  std::vector<std::string> keepFP32, forceLow;
  /// True if a GPU may round operands of float32 products to tf32.
  bool tf32 = false;

  bool operator==(const Request &other) const;
  /// Returns `lossScale`, or the default of the mode if it is nullopt.
  LossScaling getLossScaling() const;
};
llvm::hash_code hash_value(const Request &request);

/// Parses the argument of --precision. On error, `isUnsupported` is true if the
/// mode is known but not supported, such as 16-true, and false if the mode is
/// unknown.
llvm::Expected<PrecisionMode> parsePrecisionMode(llvm::StringRef text,
                                                 bool &isUnsupported);

/// Parses the argument of --loss-scale: dynamic, none or a number above 0.
llvm::Expected<LossScaling> parseLossScaling(llvm::StringRef text);

/// Returns the request of `module`; the defaults if the module has none.
Request getRequest(mlir::ModuleOp module);

/// Sets the request of `module`. Does nothing if getRequest returns `request`
/// already, so a request of defaults adds no attribute.
void setRequest(mlir::ModuleOp module, const Request &request);

} // namespace mpc::amp

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/AMP/RequestAttr.h.inc"

#endif // MPC_COMPILER_DIALECT_AMP_REQUEST_H
