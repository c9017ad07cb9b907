// The tools of recognisers: the set of matched ops, and small patterns that
// several recognisers share. A failing matcher leaves the match unchanged.
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

/// Ops that one op will replace. The first is the root: the last op in the
/// block, whose result is replaced.
class Match {
public:
  explicit Match(mlir::Operation *root) { ops.insert(root); }

  /// Adds the producer of `value` to the match and returns it; null if it is
  /// not an OpTy.
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

  /// Extends the match by the only user of the root's result, which becomes the
  /// root. Null, without a change, if there is another user or another kind of
  /// op.
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

  /// True if one op can replace the match. Ops outside must read only the
  /// root's result. All ops must be in one block and one phase, with floats of
  /// at least 32 bits: a model that rounds to 16 bits in between does so on
  /// purpose.
  bool isClosed() const;

  /// Returns the names of all nodes, the root's first.
  mlir::Location getLocation() const;

  /// Replaces the root by result 0 of `op`, which gets the root's phase.
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

/// Applies only the given patterns to the ops in `op`. Without folding, all
/// other ops stay as the model has them.
template <typename... PatternTs>
llvm::LogicalResult applyRecognizers(mlir::Operation *op) {
  mlir::RewritePatternSet patterns(op->getContext());
  patterns.add<PatternTs...>(op->getContext());
  mlir::GreedyRewriteConfig config;
  config.enableFolding(false).enableConstantCSE(false);
  return mlir::applyPatternsGreedily(op, std::move(patterns), config);
}

/// Creates a scale of 1, for ops that need a scale if the model has none.
mlir::Value createOne(const Match &match, mlir::Type elementType,
                      mlir::PatternRewriter &rewriter);

/// True if a constant is `expected` to six digits, as models are written:
/// 0.797885 is sqrt(2 / pi), 0.8 is not.
bool isNumber(mlir::Value value, double expected);

/// Returns the operand of `op` beside the number `number`: x for x * 0.5. Null
/// if neither operand is `number`.
template <typename OpTy>
mlir::Value matchOperandBeside(OpTy op, double number) {
  if (isNumber(op.getRhs(), number))
    return op.getLhs();
  return isNumber(op.getLhs(), number) ? op.getRhs() : mlir::Value();
}

/// Returns the bytes of a constant's elements; empty for a splat, or if the
/// elements are not in memory.
llvm::ArrayRef<char> getDenseBytes(mlir::Attribute value);

/// Returns x if `value` is x * x or x ^ 2; null otherwise.
mlir::Value matchSquare(mlir::Value value, Match &match);

/// Returns s if `value` is 1 / sqrt(s) in some spelling; null otherwise.
mlir::Value matchInverseRoot(mlir::Value value, Match &match);

/// The quotient numerator / sqrt(square + epsilon), in some spelling.
struct OverRoot {
  mlir::Value numerator, square;
  double epsilon;
};
std::optional<OverRoot> matchOverRoot(mlir::Operation *op, Match &match);

/// Returns v and epsilon if `value` is v + epsilon; nullopt otherwise.
std::optional<std::pair<mlir::Value, double>>
matchAddedNumber(mlir::Value value, Match &match);

/// Returns the mean if `value` is a mean over sorted axes that stay with size
/// 1; null otherwise.
ReduceMeanOp matchMean(mlir::Value value, Match &match);

/// A product of values of one type and a number.
struct Product {
  double number = 1;
  llvm::SmallVector<mlir::Value> factors;
};
/// Returns the factors of `value`. Follows multiplications, and divisions by
/// numbers, that have no other users. `value` alone if it is not a product.
Product matchProduct(mlir::Value value, Match &match);

/// Returns the operand of `op` beside `value` if it can be a scale or a bias of
/// x: it broadcasts to x and is not in the match. Null otherwise.
mlir::Value matchBroadcast(mlir::Operation *op, mlir::Value value,
                           mlir::Value x, const Match &match);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_MATCH_H
