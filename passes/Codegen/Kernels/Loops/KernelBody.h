// The computation of a kernel, laid over the axes of its loops.
//
// The body of a kernel function becomes a list of nodes in topological order:
// arguments read and ops computed. Each node has a place, which maps each axis
// of the value to an axis of the iteration space. Reading a buffer at a place
// takes a base plus a stride per loop dimension; the stride is 0 if the buffer
// is broadcast. Adjacent axes merge into one loop dimension if all buffers
// allow it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_KERNELBODY_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_KERNELBODY_H

#include "compiler/Kernels/KernelPartition.h"
#include "passes/Codegen/Kernels/Loops/Places.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc::codegen {

/// Result `result` of node `node`.
struct NodeResult {
  unsigned node = 0;
  unsigned result = 0;
};

/// The argument that a gather reads at computed indices.
struct Table {
  unsigned argument = 0;
  /// The size of the indexed axis, and the elements between its neighbours.
  int64_t size = 1, stride = 1;
};

/// A node of the body: an argument that is read, or an op that is computed, at
/// a place (Places.h).
struct Node {
  /// Null for an argument or a part of an argument.
  mlir::Operation *op = nullptr;
  /// The argument's number, and the first element of the part that is read.
  /// Meaningless for an op.
  unsigned argument = 0;
  int64_t offset = 0;
  Place place;
  llvm::SmallVector<NodeResult> operands;
  /// For an argument: the strides at which it is read. For an op with a table:
  /// the strides at which the table is read, apart from the computed index. For
  /// an op such as one_hot: the strides that give the index it depends on.
  /// nullopt for other ops.
  std::optional<Strides> strides;
  /// The tensor that the op looks elements up in; not among `operands`.
  std::optional<Table> table;
  /// Bit i is set if the value differs along loop dimension i.
  uint64_t dimensions = 0;
  /// The most reductions on a path to the value. In a softmax, 1 for the
  /// maximum, and 2 for the sum, which depends on the maximum.
  unsigned level = 0;

  bool isReduction() const;
  /// True for a contraction. The loop nest provides the sums, so the node has
  /// no operands.
  bool isContraction() const;
  /// True for a scatter. The loop nest applies the updates, and the initial
  /// data is not among `operands`.
  bool isScatter() const;
};

/// A returned value, or a part of one, with its buffer and the first element in
/// the buffer.
struct Output {
  NodeResult value;
  unsigned argument = 0;
  int64_t offset = 0;
  Place place;
  Strides strides;
  uint64_t dimensions = 0;
};

/// A loop dimension: one or several adjacent axes of the iteration space.
struct Dimension {
  int64_t size = 1;
  /// The dimension's group, among the groups of axes given to `create`.
  unsigned group = 0;
};

/// An axis of the space that loops treat as two axes: `parts` runs of equal
/// length, and the elements of a run. Reductions have one value per run.
struct SplitAxis {
  int64_t axis = 0, parts = 1;
};

class KernelBody {
public:
  /// Creates the body of `kernel` over the iteration space `space`. The axes of
  /// the space form consecutive groups of `groupSizes` axes. Axes of different
  /// groups stay separate dimensions, and every group has at least one
  /// dimension. A `split` axis counts as two axes in `groupSizes`. With
  /// `hasTile` (epilogues), argument 0 is a tile of a product, and is read anew
  /// at every index of every dimension. Emits an error if the kernel's values
  /// do not fit the space.
  static mlir::FailureOr<KernelBody> create(mlir::func::FuncOp kernel,
                                            llvm::ArrayRef<int64_t> space,
                                            llvm::ArrayRef<int64_t> groupSizes,
                                            std::optional<SplitAxis> split = {},
                                            bool hasTile = false);

  llvm::ArrayRef<Node> getNodes() const { return nodes; }
  llvm::ArrayRef<Output> getOutputs() const { return outputs; }
  /// Returns the number of the node of `op`, an op of the kernel.
  unsigned getNode(mlir::Operation *op) const;
  /// Returns the numbers of the nodes of all returned values.
  llvm::SmallVector<unsigned> getOutputNodes() const;
  llvm::ArrayRef<Dimension> getDimensions() const { return dimensions; }

  /// Returns the range [first, second) of a group's dimensions.
  std::pair<unsigned, unsigned> getGroup(unsigned group) const;
  uint64_t getGroupMask(unsigned group) const;

  /// Returns the number of elements per index of a dimension, within its group.
  /// Example: 6 and 1 for the two dimensions of a group of 4 x 6.
  int64_t getSizeAfter(unsigned dimension, unsigned group) const;

  /// Returns the largest dimension of a group, the best to share among threads.
  unsigned getLargest(unsigned group) const;

  /// Returns the number of levels of reductions: 2 for a softmax, whose sum
  /// depends on a maximum.
  unsigned getLevelCount() const;

  /// Returns the node numbers of the reductions of a level, except column sums.
  llvm::SmallVector<unsigned> getReductions(unsigned level) const;

  /// Returns the node numbers of the column sums of a row kernel
  /// (Kernels/ColumnSums.h). Nothing in the body depends on them.
  llvm::ArrayRef<unsigned> getColumnSums() const { return columnSums; }

private:
  mlir::LogicalResult addNodes(mlir::func::FuncOp kernel);
  void splitAxis(SplitAxis split);
  void collapse(llvm::ArrayRef<int64_t> groupSizes);
  void findDependencies(bool hasTile);
  mlir::LogicalResult findColumnSums(mlir::func::FuncOp kernel);

  llvm::SmallVector<int64_t> space;
  llvm::SmallVector<Node> nodes;
  llvm::SmallVector<Output> outputs;
  llvm::SmallVector<Dimension> dimensions;
  llvm::SmallVector<unsigned> columnSums;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_KERNELBODY_H
