// Test cases of attention and its gradients: random operands, the plan's steps,
// and the definition in float64.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_ATTENTIONCASE_H
#define MPC_TEST_RUNTIME_ATTENTIONCASE_H

#include "runtime/AttentionOperands.h"
#include "test/runtime/ArtifactBuilder.h"

namespace mpc::runtime::test {

struct AttentionCase {
  int64_t batch = 2, heads = 2, keyHeads = 2, queries = 16, keys = 16;
  int64_t size = 8, columns = 8;
  std::optional<int64_t> causalOffset = std::nullopt;
  /// The bias [batch, heads, queries, keys], with 1 for an axis that it does
  /// not have; empty for none.
  Shape bias = {};
  DType type = DType::BF16, biasType = DType::F32;
  double scale = 0.5;
  /// The order of separate operands: [B, H, S, D], or else [B, S, H, D].
  bool headsFirst = false;
  /// True if queries, keys and values are columns of one [B, S, 3, H, D].
  bool isJoined = false;
};

/// The elements of operands in the order [batch, heads, tokens, columns], and
/// the statistics [batch, heads, queries].
struct AttentionValues {
  std::vector<double> query, key, value, bias, dOutput;
  std::vector<double> output, statistics, dQuery, dKey, dValue;
};

/// Returns the sizes, and the places of the operands.
AttentionShape shapeOf(const AttentionCase &c);

class Attention {
public:
  explicit Attention(const AttentionCase &c);

  /// Adds both steps to `f`, or only the forward step. The results are the
  /// outputs `output`, `statistics`, `d_query`, `d_key` and `d_value`. Those of
  /// a joined projection are the same buffer.
  void addTo(FunctionBuilder &f, bool hasGradient = true) const;

  /// Computes all results from the operands.
  AttentionValues reference() const;

  /// Returns the elements of an operand in `tensor`.
  std::vector<double> gather(const Tensor &tensor,
                             AttentionOperand operand) const;

  AttentionCase c;
  AttentionShape shape;

private:
  Tensor operand(int64_t heads, int64_t tokens, int64_t width,
                 unsigned seed) const;
  Json step(const char *kind) const;

  Tensor query, key, value, bias, dOutput;
};

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_ATTENTIONCASE_H
