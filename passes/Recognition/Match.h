// What recognisers match with: the ops found so far, and small patterns that
// several of them share. A matcher that fails leaves no trace.
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

/// Ops that together are one: those a recogniser has walked over, the last of
/// them, whose result is replaced, first.
class Match {
public:
  explicit Match(mlir::Operation *root) { ops.insert(root); }

  /// The op that makes `value`, as a part of the match; null where another kind
  /// of op makes it.
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

  /// Takes what reads the root's result, if that is one op; it becomes the
  /// root. Null otherwise.
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

  /// Whether nothing but the root is read by ops outside, so that one op in its
  /// place does the work of all. They must be of one block and one phase, and
  /// of no smaller floats than f32: where a model rounds to 16 bits in between,
  /// it means it.
  bool isClosed() const;

  /// The names of all nodes, the root's first.
  mlir::Location getLocation() const;

  /// Replaces the root by result 0 of `op`, which gets its phase.
  void replace(mlir::Operation *op, mlir::PatternRewriter &rewriter) const;

private:
  llvm::SmallSetVector<mlir::Operation *, 16> ops;
};

/// A pattern whose last op may be of several kinds.
struct AnyOpPattern : mlir::RewritePattern {
  explicit AnyOpPattern(mlir::MLIRContext *context,
                        mlir::PatternBenefit benefit = 1)
      : RewritePattern(MatchAnyOpTypeTag(), benefit, context) {}
};

/// Applies patterns to the ops in `op`, and nothing else: what could be folded
/// stays as the model has it.
template <typename... PatternTs>
llvm::LogicalResult applyRecognizers(mlir::Operation *op) {
  mlir::RewritePatternSet patterns(op->getContext());
  patterns.add<PatternTs...>(op->getContext());
  mlir::GreedyRewriteConfig config;
  config.enableFolding(false).enableConstantCSE(false);
  return mlir::applyPatternsGreedily(op, std::move(patterns), config);
}

/// A scale of 1, where the op has one and the model does not.
mlir::Value createOne(const Match &match, mlir::Type elementType,
                      mlir::PatternRewriter &rewriter);

/// Whether a number is `expected` to the digits that models are written with:
/// 0.797885 is sqrt(2 / pi), 0.8 is not.
bool isNumber(mlir::Value value, double expected);

/// The operand of `op` that is not the number `number`: x of x * 0.5. Null if
/// neither operand is that number.
template <typename OpTy>
mlir::Value matchOperandBeside(OpTy op, double number) {
  if (isNumber(op.getRhs(), number))
    return op.getLhs();
  return isNumber(op.getLhs(), number) ? op.getRhs() : mlir::Value();
}

/// The bytes of a constant's elements; none where it is one value everywhere,
/// or they are not in memory.
llvm::ArrayRef<char> getDenseBytes(mlir::Attribute value);

/// x, where `value` is x * x or x ^ 2.
mlir::Value matchSquare(mlir::Value value, Match &match);

/// s, where `value` is 1 / sqrt(s) in one of its spellings.
mlir::Value matchInverseRoot(mlir::Value value, Match &match);

/// n / sqrt(v + epsilon), in one of its spellings.
struct OverRoot {
  mlir::Value numerator, square;
  double epsilon;
};
std::optional<OverRoot> matchOverRoot(mlir::Operation *op, Match &match);

/// v and epsilon, where `value` is v + epsilon.
std::optional<std::pair<mlir::Value, double>>
matchAddedNumber(mlir::Value value, Match &match);

/// The mean of a value over axes that it keeps with size 1: {x, axes}, null
/// where `value` is no such mean.
ReduceMeanOp matchMean(mlir::Value value, Match &match);

/// A product of values of one type and a number.
struct Product {
  double number = 1;
  llvm::SmallVector<mlir::Value> factors;
};
/// The product that `value` is, through all multiplications and divisions by a
/// number that nothing else reads; `value` alone where it is none.
Product matchProduct(mlir::Value value, Match &match);

/// A scale or a bias for values like `x`: the operand of `op` beside `value`
/// that broadcasts to x and is no part of the match.
mlir::Value matchBroadcast(mlir::Operation *op, mlir::Value value,
                           mlir::Value x, const Match &match);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_MATCH_H
