// Builds the operation graphs of attention and of its gradients.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DNNATTENTIONGRAPH_H
#define MPC_RUNTIME_CUDA_DNNATTENTIONGRAPH_H

#include "runtime/cuda/dnn/DNNGraph.h"

#include <initializer_list>
#include <optional>

namespace mpc::runtime::cuda {

/// The library reads and writes whole vectors of 16 bytes.
inline constexpr int64_t kAttentionAlignment = 16;

/// True if some query does not see all keys.
inline bool isMasked(const AttentionStep &step) {
  return step.causalOffset && *step.causalOffset < step.keys - 1;
}

/// Numbers of the tensors of a graph besides the operands, which have 1 + their
/// number among the operands.
enum AttentionTensorId : int64_t {
  kStatistics = 100,
  kOutputDots, ///< f32 scratch: the sum of d_output * output of each query
  kScale,
  kMinusInfinity,
  kOne,
  kKeys,
  kQueries
};

inline int64_t idOf(AttentionOperand operand) {
  return 1 + static_cast<int64_t>(operand);
}

/// Builds the graph of a step. Shapes are [batch, heads, queries, keys] for
/// scores, and [batch, heads, queries, 1] for rows.
class AttentionGraph {
public:
  AttentionGraph(DNNGraph &graph, const AttentionStep &step,
                 const AttentionAddresses &operands)
      : graph(graph), step(step), operands(operands),
        type(toDNN(operands.get(AttentionOperand::Query).type)) {}

  void addForward();
  void addGradient();

  /// The numbers of the tensors that the graph has besides the operands.
  const std::vector<AttentionTensorId> &getOthers() const { return others; }

private:
  using Node = DNNGraph::Node;
  using Extents = std::vector<int64_t>;

  static Extents denseStrides(const Extents &extents);
  Node operand(AttentionOperand operand, bool isTransposed = false) const;
  Node bias() const;
  Node rowsInMemory(AttentionTensorId id);
  Node number(AttentionTensorId id, DNNType type);
  Node between(const Extents &extents, DNNType type = DNNType::F32) const {
    return graph.between(type, extents, denseStrides(extents));
  }
  Node scores(DNNType type = DNNType::F32) const {
    return between({step.batch, step.heads, step.queries, step.keys}, type);
  }
  Node rows() const {
    return between({step.batch, step.heads, step.queries, 1});
  }
  Node transposedScores() const;

  void multiplyInto(Node a, Node b, Node c) const;
  Node multiply(Node a, Node b) const {
    const Node c = scores();
    multiplyInto(a, b, c);
    return c;
  }
  void reduceInto(DNNReduction kind, Node x, Node y) const;
  void applyInto(DNNPointwise mode, Node y, Node x,
                 std::initializer_list<Node> others = {},
                 DNNType precision = DNNType::F32, int64_t axis = -1) const;
  Node apply(DNNPointwise mode, Node x,
             std::initializer_list<Node> others = {}) const {
    const Node y = scores();
    applyInto(mode, y, x, others);
    return y;
  }
  Node reshape(Node x, Node y) const;

  Node scale(Node x) { return apply(DNNPointwise::Multiply, x, {scaleNode()}); }
  Node scaleNode();
  Node maskCausally(Node x);
  void multiplyKeys(Node transposed, Node queries, AttentionOperand result,
                    int64_t width);

  DNNGraph &graph;
  const AttentionStep &step;
  const AttentionAddresses &operands;
  const DNNType type;
  std::vector<AttentionTensorId> others;
  std::optional<Node> scaleNumber;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DNNATTENTIONGRAPH_H
