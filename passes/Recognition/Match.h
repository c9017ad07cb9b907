// Tools for recognisers: the set of matched ops, and small patterns that
// several recognisers share. A matcher that fails leaves `match` unchanged.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_MATCH_H
#define MPC_PASSES_RECOGNITION_MATCH_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace mpc {

/// The ops that a recogniser replaces by one op. The first is the root: the
/// last in the block, whose result the new op replaces.
class Match {
public:
  explicit Match(mlir::Operation *root) { ops.insert(root); }

  /// Adds the op that computes `value` to the match and returns the op. Null,
  /// without a change, if the op is no OpTy.
  template <typename OpTy>
  OpTy take(mlir::Value value) {
    auto op = value.getDefiningOp<OpTy>();
    if (op)
      ops.insert(op);
    return op;
  }

  bool contains(mlir::Value value) const {
    return ops.contains(value.getDefiningOp());
  }

  /// Adds the only user of the root's result to the match, as the new root.
  /// Null, without a change, if there are several users, or if the user is no
  /// OpTy.
  template <typename OpTy>
  OpTy extend() {
    mlir::Value result = getRoot()->getResult(0);
    auto user = result.hasOneUse() ? llvm::dyn_cast<OpTy>(*result.user_begin())
                                   : OpTy();
    if (!user || user->getBlock() != getRoot()->getBlock())
      return {};
    llvm::SmallSetVector<mlir::Operation *, 16> extended;
    extended.insert(user);
    extended.insert(ops.begin(), ops.end());
    ops = std::move(extended);
    return user;
  }

  mlir::Operation *getRoot() const { return ops.front(); }

  /// True if one op can replace the matched ops: outside ops read only the
  /// root's result, and all ops are in one block and one phase. Floats must
  /// have at least 32 bits, since a model that rounds to 16 bits between the
  /// ops does so on purpose.
  bool isClosed() const;

  /// Returns a location with the names of all matched nodes, the root's name
  /// first.
  mlir::Location getLocation() const;

  /// Replaces the root's result by result 0 of `op`, which gets the phase of
  /// the root.
  void replace(mlir::Operation *op, mlir::PatternRewriter &rewriter) const;

private:
  llvm::SmallSetVector<mlir::Operation *, 16> ops;
};

/// A pattern that matches ops of any kind.
struct AnyOpPattern : mlir::RewritePattern {
  explicit AnyOpPattern(mlir::MLIRContext *context,
                        mlir::PatternBenefit benefit = 1)
      : RewritePattern(MatchAnyOpTypeTag(), benefit, context) {}
};

/// Applies only the given patterns to the ops in `op`. Folding is off, so that
/// all other ops stay as in the model.
template <typename... PatternTs>
llvm::LogicalResult applyRecognizers(mlir::Operation *op) {
  mlir::RewritePatternSet patterns(op->getContext());
  patterns.add<PatternTs...>(op->getContext());
  mlir::GreedyRewriteConfig config;
  config.enableFolding(false).enableConstantCSE(false);
  return mlir::applyPatternsGreedily(op, std::move(patterns), config);
}

/// Creates a constant 1 as the scale of an op that needs a scale, for a model
/// without one.
mlir::Value createOne(const Match &match, mlir::Type elementType,
                      mlir::PatternRewriter &rewriter);

/// True if `value` is a constant equal to `expected` in about six digits, since
/// models contain rounded numbers: 0.797885 is sqrt(2 / pi), 0.8 is not.
bool isNumber(mlir::Value value, double expected);

/// Returns the operand of `op` that is not the constant `number`: x for x *
/// 0.5. Null if no operand is `number`.
template <typename OpTy>
mlir::Value matchOperandBeside(OpTy op, double number) {
  if (isNumber(op.getRhs(), number))
    return op.getLhs();
  return isNumber(op.getLhs(), number) ? op.getRhs() : mlir::Value();
}

/// Returns the elements of a constant as bytes. Empty for a splat, or if the
/// elements are not in memory.
llvm::ArrayRef<char> getDenseBytes(mlir::Attribute value);

/// Returns x if `value` is x * x or x ^ 2; null otherwise.
mlir::Value matchSquare(mlir::Value value, Match &match);

/// Returns s if `value` is 1 / sqrt(s), also as reciprocal(sqrt(s)) or s ^
/// -0.5; null otherwise.
mlir::Value matchInverseRoot(mlir::Value value, Match &match);

/// numerator / sqrt(square + epsilon), also as numerator * (1 / sqrt(...)).
struct OverRoot {
  mlir::Value numerator, square;
  double epsilon;
};
std::optional<OverRoot> matchOverRoot(mlir::Operation *op, Match &match);

/// Returns v and the number if `value` is v + number, such as a variance plus
/// an epsilon; nullopt otherwise.
std::optional<std::pair<mlir::Value, double>>
matchAddedNumber(mlir::Value value, Match &match);

/// Returns the op if `value` is a mean over sorted axes that keeps the reduced
/// axes with size 1; null otherwise.
ReduceMeanOp matchMean(mlir::Value value, Match &match);

/// A product of a number and values of one type: 0.5 * x * y.
struct Product {
  double number = 1;
  llvm::SmallVector<mlir::Value> factors;
};
/// Splits `value` into a number and other factors. Follows multiplications, and
/// divisions by a number, if nothing else reads their results. If `value` is no
/// product, returns 1 and `value`.
Product matchProduct(mlir::Value value, Match &match);

/// Returns the operand of `op` that is not `value`, if it can be a scale or
/// bias of x: it broadcasts to x and is outside the match. Null otherwise.
mlir::Value matchBroadcast(mlir::Operation *op, mlir::Value value,
                           mlir::Value x, const Match &match);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_MATCH_H
