// A graph of several operations as cuDNN defines them, executed operation by
// operation in f32 on whole tensors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CUDNN_GRAPH_H
#define MPC_TEST_EMULATOR_CUDNN_GRAPH_H

#include "test/emulator/cudnn/Convolution.h"

#include <map>
#include <string>

namespace mpc::emulator {

/// A tensor of a graph: in device memory, passed by value, or virtual, which
/// means that it exists only between two operations.
struct GraphTensor : ConvTensor {
  bool isVirtual = false, isByValue = false;
};

struct GraphOperation {
  enum Kind { MatMul, Pointwise, Reduction, Reshape };
  Kind kind = MatMul;
  int mode = 0;      ///< cudnnPointwiseMode_t or cudnnReduceTensorOp_t
  int64_t axis = -1; ///< of an index
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  /// In the order of the attributes; the last operand of a select is its
  /// condition.
  std::vector<GraphTensor> operands;
  GraphTensor result;
};

struct OperationGraph {
  std::vector<GraphOperation> operations;

  /// Returns the tensors in device memory by their numbers.
  std::map<int64_t, GraphTensor> listMemory() const;
  /// Returns the tensors passed by value.
  std::map<int64_t, GraphTensor> listValues() const;

  /// Returns the bytes of the scores' gradients, which a graph keeps to have
  /// one order of sums; 0 for a graph without transposed scores.
  int64_t scoreBytes() const;
};

/// Returns why the graph is wrong or not supported; empty if it can be
/// executed.
std::string findFault(const OperationGraph &graph);

/// Executes a graph without faults. `addresses` has the address of each tensor
/// in memory or passed by value. With `isOrdered`, equal operands give equal
/// bits; otherwise each call adds the terms of products in another order.
void execute(const OperationGraph &graph,
             const std::map<int64_t, void *> &addresses, bool isOrdered);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUDNN_GRAPH_H
