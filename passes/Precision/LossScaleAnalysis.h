// Proves that every gradient is multiplied by the loss scale exactly once,
// until an op unscales the gradient.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_LOSSSCALEANALYSIS_H
#define MPC_PASSES_PRECISION_LOSSSCALEANALYSIS_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/Facts/VariableTable.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace mpc::amp {

/// Analyses which values of a function are multiples of the loss scale, or of
/// the gradient seeds that the scale will replace. A value is scaled (a
/// multiple of one scale), zero (a multiple of any scale), free (no multiple),
/// or unknown after an error. Rules: an op that reads a scaled value must be
/// linear in the value. All values that an op adds, selects among or
/// concatenates must be multiples of one scale, or all free.
///
/// Two functions have the same scale if both read the same variable, or
/// constants of equal value.
class LossScaleAnalysis {
public:
  /// Starts the error message for an op that breaks a rule. May return nullopt
  /// to suppress the message.
  using Report = llvm::function_ref<std::optional<mlir::InFlightDiagnostic>(
      mlir::Operation *)>;

  /// Analyses `function`, and reports every op that breaks a rule through
  /// `report`.
  LossScaleAnalysis(mlir::FunctionOpInterface function,
                    const mpc::VariableTable &variables, Report report);

  /// True if `value` is a multiple of the loss scale or of a seed.
  bool carriesScale(mlir::Value value) const {
    return lookup(value).kind == Multiple::Scaled;
  }

  /// Returns the results of the function's `amp.unscale` ops.
  llvm::ArrayRef<mlir::Value> getUnscaled() const { return unscaled; }

private:
  struct Multiple {
    enum Kind { Free, Zero, Scaled, Unknown } kind = Free;
    /// Identifies the scale (see `identify`); null unless `kind` is Scaled.
    const void *scale = nullptr;
    /// True if the value is the scale, or computed from the scale and constants
    /// alone.
    bool ofSeed = false;
  };

  Multiple lookup(mlir::Value value) const;
  const void *identify(mlir::Value scale) const;
  void enter(mlir::FunctionOpInterface function);
  void leave(mlir::FunctionOpInterface function);
  void visit(mlir::Operation *op);
  void visitBodies(mpc::BodyOpInterface op);
  bool carryOver(mpc::BodyOpInterface op);
  Multiple yieldOf(mpc::BodyOpInterface op, unsigned index);
  void visitList(mpc::BodyOpInterface op);
  Multiple scale(ScaleLossOp op);
  Multiple unscale(UnscaleOp op);

  /// A rule computes what multiple the results of an op are, if an operand of
  /// the op is a multiple.
  using Rule = Multiple (LossScaleAnalysis::*)(mlir::Operation *op);
  static Rule findOwnRule(llvm::StringRef name);
  static Rule findRule(mlir::Operation *op);
  Multiple refuse(mlir::Operation *op);
  Multiple joinAll(mlir::Operation *op);
  Multiple select(mlir::Operation *op);
  Multiple multiply(mlir::Operation *op);
  Multiple divide(mlir::Operation *op);
  Multiple pad(mlir::Operation *op);
  Multiple linearInFirst(mlir::Operation *op);
  Multiple linearInTable(mlir::Operation *op);
  Multiple scatter(mlir::Operation *op);
  Multiple contract(mlir::Operation *op);

  Multiple compute(mlir::Operation *op);
  Multiple computeUnscaled(mlir::Operation *op);
  Multiple join(mlir::Operation *op, mlir::ValueRange values);
  Multiple product(mlir::Operation *op, mlir::Value lhs, mlir::Value rhs);
  Multiple linear(mlir::Operation *op, mlir::Value value);
  void checkRounding(mlir::Operation *op, Multiple result);
  template <typename... Args>
  void complain(mlir::Operation *op, const Args &...args) {
    if (std::optional<mlir::InFlightDiagnostic> diagnostic = report(op))
      (*diagnostic << ... << args);
  }

  const mpc::VariableTable &variables;
  Report report;
  bool updates;
  llvm::DenseMap<mlir::Value, Multiple> multiples;
  llvm::SmallVector<mlir::Value> unscaled;
};

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_LOSSSCALEANALYSIS_H
