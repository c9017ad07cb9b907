// Expands the formula of a value into a polynomial, so that order and grouping
// in the model do not matter. Exponentials, logarithms and sigmoids of a logit
// become sums of atoms.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_POLYNOMIAL_H
#define MPC_PASSES_RECOGNITION_POLYNOMIAL_H

#include "passes/Recognition/Match.h"

#include <map>
#include <vector>

namespace mpc {

/// Coefficients by monomial, a sorted list of atoms. Zero terms are absent, so
/// equal polynomials are equal maps.
using Polynomial = std::map<std::vector<unsigned>, double>;

/// Expands values into polynomials of x, the logit or the probability of a
/// binary cross entropy.
class PolynomialExpander {
public:
  /// The atoms. From kFirstOther on, atoms are values that stay whole.
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

  /// Expands `value`, and adds the expanded ops to the match.
  Polynomial expand(mlir::Value value);

  /// Returns the value of an atom from kFirstOther on.
  mlir::Value getOther(unsigned atom) const {
    return others[atom - kFirstOther];
  }
  unsigned getNumOthers() const { return others.size(); }

  /// Adds ops of terms without x, such as 1 - t, to the match if they have no
  /// users outside.
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

/// Finds candidates for the logit or probability in a binary cross entropy that
/// ends in `root`; empty if there is no logarithm.
llvm::SmallVector<mlir::Value> findLogits(mlir::Operation *root);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_POLYNOMIAL_H
