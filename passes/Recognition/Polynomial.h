// Sums and products of a value as a polynomial, so that a formula is the same
// however a model orders and groups it. What the exponential, the logarithm and
// the sigmoid of a logit make is in it as what it is a sum of.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_POLYNOMIAL_H
#define MPC_PASSES_RECOGNITION_POLYNOMIAL_H

#include "passes/Recognition/Match.h"

#include <map>
#include <vector>

namespace mpc {

/// Coefficients by monomial, which is a sorted list of atoms. Terms of 0 are
/// left out, so that equal polynomials are equal maps.
using Polynomial = std::map<std::vector<unsigned>, double>;

/// Expands values over one value x, the logit or the probability of a binary
/// cross entropy.
class PolynomialExpander {
public:
  /// Atoms. Those from kFirstOther on are values that are not taken apart.
  enum Atom : unsigned {
    kX,
    /// max(x, 0)
    kRelu,
    /// log(1 + exp(-|x|)); softplus(x) is kRelu + kLogTerm.
    kLogTerm,
    /// max(log(x), -100) and max(log(1 - x), -100): of a probability.
    kLogYes,
    kLogNo,
    kFirstOther
  };

  PolynomialExpander(mlir::Value x, Match &match) : x(x), match(match) {}

  /// What `value` is; the ops that it was taken apart into are in the match.
  Polynomial expand(mlir::Value value);

  /// The value of an atom from kFirstOther on.
  mlir::Value getOther(unsigned atom) const {
    return others[atom - kFirstOther];
  }
  unsigned getNumOthers() const { return others.size(); }

  /// Takes the ops of terms without x, such as 1 - t, into the match where
  /// nothing outside reads them.
  void takeClosedTerms();

private:
  Polynomial expandOp(mlir::Operation *op);
  Polynomial expandLinear(mlir::Operation *op);
  Polynomial expandLogarithm(mlir::Value input);
  Polynomial expandBounded(mlir::Value value, double bound, bool isBelow);
  /// x as 1, -x as -1, anything else as 0.
  int getSign(mlir::Value value);
  Polynomial getOpaque(mlir::Value value);

  mlir::Value x;
  Match &match;
  llvm::SmallVector<mlir::Value> others;
  llvm::SmallVector<mlir::Operation *> termsWithoutX;
  /// Ops that may still be looked at: a graph that shares values has more paths
  /// than ops.
  unsigned budget = 96;
};

Polynomial add(const Polynomial &a, const Polynomial &b, double factor = 1);

/// Values that `root` may be a binary cross entropy of, as its ops say.
llvm::SmallVector<mlir::Value> findLogits(mlir::Operation *root);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_POLYNOMIAL_H
