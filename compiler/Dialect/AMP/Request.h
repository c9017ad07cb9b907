// The precision that a module is asked for, before anything is decided.
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

/// On a module: the request that passes read; see getRequest.
inline constexpr llvm::StringLiteral kRequestAttr = "amp.request";

/// A kind of loss scale, and the scale of a static one.
struct LossScaling {
  LossScale kind = LossScale::None;
  double scale = 1;

  bool operator==(const LossScaling &other) const {
    return kind == other.kind && scale == other.scale;
  }
};

/// The flags of the Precision stage.
struct Request {
  PrecisionMode mode = PrecisionMode::FP32True;
  /// nullopt means dynamic for 16-mixed, none otherwise.
  std::optional<LossScaling> lossScale;
  /// A file or preset laid over the default table; empty for none.
  std::string policy;
  /// Patterns of nodes to keep in fp32, and of nodes to make low.
  std::vector<std::string> keepFP32, forceLow;

  bool operator==(const Request &other) const;
  /// Returns the loss scale, with the mode's default.
  LossScaling getLossScaling() const;
};
llvm::hash_code hash_value(const Request &request);

/// Parses the argument of --precision. An error says if the mode is unknown, or
/// known and not supported; `isUnsupported` tells both apart.
llvm::Expected<PrecisionMode> parsePrecisionMode(llvm::StringRef text,
                                                 bool &isUnsupported);

/// Parses the argument of --loss-scale: dynamic, none or a number above 0.
llvm::Expected<LossScaling> parseLossScaling(llvm::StringRef text);

/// Returns the request of `module`; the defaults if the module has none.
Request getRequest(mlir::ModuleOp module);

/// Sets the request of `module`. A request of defaults needs no attribute.
void setRequest(mlir::ModuleOp module, const Request &request);

} // namespace mpc::amp

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/AMP/RequestAttr.h.inc"

#endif // MPC_COMPILER_DIALECT_AMP_REQUEST_H
