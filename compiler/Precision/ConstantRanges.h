// Computes ranges of values that follow from constants.
//
// The ranges show, before any data is seen, which constants a low type cannot
// hold. An attention mask of -3.4e38, added to scores, becomes -inf in float16,
// and a row of only -inf gives NaN. An epsilon that rounds to 0 no longer keeps
// a logarithm finite. Values that only data determines are assumed to be of
// order 1.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_CONSTANTRANGES_H
#define MPC_COMPILER_PRECISION_CONSTANTRANGES_H

#include "compiler/Interfaces/BodyOpInterface.h"
#include "compiler/Interfaces/RangeOpInterface.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace mpc {

/// A number that makes a low type unfit for an op.
struct RangeFinding {
  double number;
  /// The value that the number comes from: a constant, an argument with frozen
  /// state, or the result of an op with constants as attributes.
  mlir::Value source;
  /// True if the number follows from constants alone. Otherwise, values that
  /// only data determines are assumed to be of order 1.
  bool isProved;
};

class ConstantRanges {
public:
  struct Range {
    Bounds bounds;
    /// As in RangeFinding.
    mlir::Value source;
    bool isProved;

    /// The largest absolute value.
    double getLargest() const;
  };

  /// Propagates the ranges of constants and frozen state through the
  /// elementwise ops, views and movements of every function, and into loops and
  /// branches. Looks through the casts of the Precision stage, and takes the
  /// range that a constant had before the stage rounded the constant.
  explicit ConstantRanges(mlir::ModuleOp module);

  /// Returns the bounds of a value that depends on a constant; nullopt if
  /// unknown or if the value depends on data alone.
  std::optional<Bounds> lookup(mlir::Value value) const;
  /// Like lookup, but also tells where the bounds come from. Null if unknown.
  const Range *find(mlir::Value value) const;

  /// True if finite values of `value` become infinite in `type`, or would after
  /// a small addition.
  bool overflows(mlir::Value value, mlir::FloatType type) const;

  /// True if all of `value` is below the normal numbers of `type`: rounding
  /// loses digits or gives 0.
  bool vanishes(mlir::Value value, mlir::FloatType type) const;

private:
  void addFrozen(mlir::ModuleOp module);
  void visit(mlir::Block &block);
  void visit(mlir::Operation *op);
  void visitBodies(BodyOpInterface op);
  std::optional<Range> uniteSources(mlir::Value value) const;

  llvm::DenseMap<mlir::Value, Range> ranges;
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_CONSTANTRANGES_H
