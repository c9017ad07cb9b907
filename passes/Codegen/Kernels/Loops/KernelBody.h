// What a kernel computes, laid over the axes its loops run along.
//
// The body of a kernel function becomes a list of nodes in topological order:
// arguments read, and ops computed, each at a place, which says along which
// axis of the iteration space each axis of the value runs. Reading a buffer at
// a place is then a base plus a stride per loop dimension, 0 where it is
// broadcast; adjacent axes along which all buffers run alike become one loop
// dimension.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_KERNELBODY_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_KERNELBODY_H

#include "compiler/Kernels/KernelPartition.h"
#include "passes/Codegen/Kernels/Loops/Places.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc::codegen {

/// The result `result` of node `node`.
struct NodeResult {
  unsigned node = 0;
  unsigned result = 0;
};

/// The argument that a gather reads at elements of its own choice.
struct Table {
  unsigned argument = 0;
  /// The size of the axis that indices name elements of, and how far apart
  /// these are.
  int64_t size = 1, stride = 1;
};

/// An argument read or an op computed at a place.
struct Node {
  /// Null for an argument, or a part of one.
  mlir::Operation *op = nullptr;
  /// Which argument, and the first element of the part that is read;
  /// meaningless for an op.
  unsigned argument = 0;
  int64_t offset = 0;
  Place place;
  llvm::SmallVector<NodeResult> operands;
  /// Of an argument, where it is read; of an op with a table, where that is
  /// read, the index aside; of an op that depends on its index, that index.
  /// Other ops have none.
  std::optional<Strides> strides;
  /// The tensor that the op looks elements up in; it is not among `operands`.
  std::optional<Table> table;
  /// Bit i: the value differs along loop dimension i.
  uint64_t dimensions = 0;
  /// How many reductions, one after the other, lead to it.
  unsigned level = 0;

  bool isReduction() const;
  /// A contraction, whose sums the loop nest provides: it has no operands here.
  bool isContraction() const;
  /// A scatter, which the loop nest does; what it starts from is no operand.
  bool isScatter() const;
};

/// A returned value, or a part of one, and the buffer it goes to, from its
/// element `offset` on.
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
  /// Which of the groups of axes given to `create` it belongs to.
  unsigned group = 0;
};

/// An axis of the space that loops run along as two: `parts` runs of equal
/// length, and the elements of a run. Reductions have one value per run.
struct SplitAxis {
  int64_t axis = 0, parts = 1;
};

class KernelBody {
public:
  /// Lays `kernel` over `space`, whose axes are divided into consecutive groups
  /// of `groupSizes` axes. Axes of different groups stay different dimensions,
  /// and every group has at least one. The two of a `split` axis count as axes
  /// in `groupSizes`. With `hasTile`, argument 0 lies in a tile and depends on
  /// every dimension. Emits an error where the kernel's values do not fit the
  /// space.
  static mlir::FailureOr<KernelBody> create(mlir::func::FuncOp kernel,
                                            llvm::ArrayRef<int64_t> space,
                                            llvm::ArrayRef<int64_t> groupSizes,
                                            std::optional<SplitAxis> split = {},
                                            bool hasTile = false);

  llvm::ArrayRef<Node> getNodes() const { return nodes; }
  llvm::ArrayRef<Output> getOutputs() const { return outputs; }
  /// The node of an op of the kernel.
  unsigned getNode(mlir::Operation *op) const;
  /// The nodes of what is returned.
  llvm::SmallVector<unsigned> getOutputNodes() const;
  llvm::ArrayRef<Dimension> getDimensions() const { return dimensions; }

  /// The dimensions of a group: [first, second).
  std::pair<unsigned, unsigned> getGroup(unsigned group) const;
  uint64_t getGroupMask(unsigned group) const;

  /// The elements of what follows a dimension in its group.
  int64_t getSizeAfter(unsigned dimension, unsigned group) const;

  /// The largest dimension of a group: the one worth sharing among threads.
  unsigned getLargest(unsigned group) const;

  /// The number of reduction levels.
  unsigned getLevelCount() const;

  /// Reductions of that level, as node numbers, but for column sums.
  llvm::SmallVector<unsigned> getReductions(unsigned level) const;

  /// Reductions of columns beside those of rows (Kernels/ColumnSums.h), which
  /// nothing in the body depends on.
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
