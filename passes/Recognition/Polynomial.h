// Expands the formula of a value into a polynomial of atoms, so that order and
// grouping of the ops in a model do not matter. Functions of the logit x, such
// as log(sigmoid(x)), become sums of atoms.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_POLYNOMIAL_H
#define MPC_PASSES_RECOGNITION_POLYNOMIAL_H

#include "passes/Recognition/Match.h"

#include <map>
#include <vector>

namespace mpc {

/// Maps each monomial, a sorted list of atoms, to its coefficient: 2 * x * t is
/// {[x, t]: 2}. Has no zero coefficients, so equal polynomials are equal maps.
using Polynomial = std::map<std::vector<unsigned>, double>;

/// Expands values into polynomials of x. For a binary cross entropy, x is the
/// logit or the probability.
class PolynomialExpander {
public:
  /// Atoms that depend on x. An atom from kFirstOther on is a value that is not
  /// expanded, such as a label.
  enum Atom : unsigned {
    kX,
    /// max(x, 0).
    kRelu,
    /// log(1 + exp(-|x|)). Then softplus(x) is kRelu + kLogTerm.
    kLogTerm,
    /// max(log(x), -100), for a probability x. kLogNo is max(log(1 - x), -100).
    kLogYes,
    kLogNo,
    kFirstOther
  };

  PolynomialExpander(mlir::Value x, Match &match) : x(x), match(match) {}

  /// Returns `value` as a polynomial. Adds the ops that it expands to the
  /// match.
  Polynomial expand(mlir::Value value);

  /// Returns the value of the atom `atom`, which is kFirstOther or more.
  mlir::Value getOther(unsigned atom) const {
    return others[atom - kFirstOther];
  }
  unsigned getNumOthers() const { return others.size(); }

  /// Adds expanded ops without x, such as 1 - t, to the match, unless other ops
  /// read their results.
  void takeClosedTerms();

private:
  Polynomial expandOp(mlir::Operation *op);
  Polynomial expandLinear(mlir::Operation *op);
  Polynomial expandLogarithm(mlir::Value input);
  Polynomial expandBounded(mlir::Value value, double bound, bool isBelow);
  /// Returns 1 if `value` is x, -1 if it is -x, otherwise 0.
  int getSign(mlir::Value value);
  Polynomial getOpaque(mlir::Value value);

  mlir::Value x;
  Match &match;
  llvm::SmallVector<mlir::Value> others;
  llvm::SmallVector<mlir::Operation *> termsWithoutX;
  /// Limits the ops visited. Shared values would make the walk exponential.
  unsigned budget = 96;
};

Polynomial add(const Polynomial &a, const Polynomial &b, double factor = 1);

/// Finds values that may be the logit or the probability of a binary cross
/// entropy whose last op is `root`; empty if no logarithm leads to `root`.
llvm::SmallVector<mlir::Value> findLogits(mlir::Operation *root);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_POLYNOMIAL_H
