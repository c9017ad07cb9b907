// Ops that have weights among their operands, and what ops do with these.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_WEIGHTEDOPS_H
#define MPC_FRONTENDS_ONNX_TRAINING_WEIGHTEDOPS_H

#include "llvm/ADT/StringRef.h"

#include <initializer_list>

namespace mpc::onnx_frontend {

/// An op whose operands at `weights` act as weights.
struct WeightedOp {
  enum class Kind { Other, Contraction, Normalization, Slope, FusedBias };

  llvm::StringRef name;
  Kind kind;
  std::initializer_list<int> weights;
};

/// The entry of an op, by name alone: domains that have an op of one name mean
/// the same by it. Null where it has no weights.
const WeightedOp *findWeightedOp(llvm::StringRef name);

/// Ops whose result holds elements of their first operand (of all, for Concat)
/// and no others that matter.
bool isView(llvm::StringRef op);

/// Rounding to what few bits hold, which a fake quantisation of two such nodes
/// does to a weight: the weight stays what it was.
bool isQuantization(llvm::StringRef op);

bool isSum(llvm::StringRef op);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_WEIGHTEDOPS_H
