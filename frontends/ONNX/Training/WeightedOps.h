// Lists ops that have weights among their operands, and ops that pass weights
// on.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_WEIGHTEDOPS_H
#define MPC_FRONTENDS_ONNX_TRAINING_WEIGHTEDOPS_H

#include "llvm/ADT/StringRef.h"

#include <initializer_list>

namespace mpc::onnx_frontend {

/// An op whose operands at the positions `weights` act as weights.
struct WeightedOp {
  enum class Kind { Other, Contraction, Normalization, Slope, FusedBias };

  llvm::StringRef name;
  Kind kind;
  std::initializer_list<int> weights;
};

/// Returns the entry of an op by name, in any domain: domains agree on these
/// names. Null if the op has no weights.
const WeightedOp *findWeightedOp(llvm::StringRef name);

/// True if the result holds elements of the first operand (for Concat, of all
/// operands), perhaps rounded, and besides only constants such as the zeros of
/// a Pad.
bool isView(llvm::StringRef op);

bool isSum(llvm::StringRef op);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_WEIGHTEDOPS_H
