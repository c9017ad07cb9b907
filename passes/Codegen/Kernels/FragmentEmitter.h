// Computes the values of a kernel's body at one position of its loops.
//
// A scope is a position: the loop indices known so far, and the values computed
// there. Entering a loop copies the scope, so values that do not depend on the
// loop are computed once, before the loop. This also holds for loads, which no
// later pass could move over the kernel's stores.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_FRAGMENTEMITTER_H
#define MPC_PASSES_CODEGEN_KERNELS_FRAGMENTEMITTER_H

#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"
#include "passes/Codegen/Kernels/Loops/KernelBody.h"
#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/Lanes.h"

namespace mpc::codegen {

struct Scope {
  /// The index of each loop dimension; null if not yet known.
  llvm::SmallVector<mlir::Value> indices;
  /// Bit i is set if dimension i is known.
  uint64_t known = 0;
  /// Elements along the last dimension that are computed at once.
  int64_t width = 1;
  /// For each node of the kernel, the values that have been emitted for the
  /// node's results: scalars or vectors of the result's element type. Empty
  /// until the node is emitted.
  llvm::SmallVector<llvm::SmallVector<mlir::Value, 1>> values;

  void enter(unsigned dimension, mlir::Value index) {
    assert(dimension < indices.size() && index && "a dimension of the loops");
    indices[dimension] = index;
    known |= uint64_t(1) << dimension;
  }
};

class FragmentEmitter {
public:
  FragmentEmitter(KernelContext &context, const KernelBody &body)
      : context(context), body(body), b(context.b) {}

  /// Creates the scope outside all loops, with no known dimension.
  Scope createScope() const;

  /// Sets the indices of all dimensions in an axis group. `index` is the
  /// row-major index in the group: index 13 of a group of 4 x 6 is (2, 1).
  void enterGroup(Scope &scope, unsigned group, mlir::Value index);

  /// Computes the values that `targets` (node numbers) need, as far as known
  /// dimensions and finished reductions allow.
  void evaluate(Scope &scope, llvm::ArrayRef<unsigned> targets);

  /// Stores an output at the position of `scope`, which must hold the output's
  /// value.
  void store(const Scope &scope, const Output &output);

  /// Returns the offset of the element at the scope's indices, in a buffer with
  /// `strides`.
  mlir::Value getOffset(const Scope &scope, llvm::ArrayRef<int64_t> strides);

  /// Returns a number that divides the offset of a vector at `scope`, from
  /// which a GPU derives the alignment.
  int64_t getMultiple(const Scope &scope,
                      llvm::ArrayRef<int64_t> strides) const;

  /// Loads `width` adjacent elements of a buffer. `element` is the element type
  /// of the buffer's tensor, and `multiple` divides `offset`.
  mlir::Value load(mlir::Value buffer, mlir::Type element, mlir::Value offset,
                   int64_t width = 1, int64_t multiple = 1);
  /// Stores `value` to `width` adjacent elements. A scalar is stored to each
  /// element.
  void store(mlir::Value value, mlir::Value buffer, mlir::Value offset,
             int64_t width, int64_t multiple);

  /// True if a value with these strides differs between the lanes of a vector.
  /// False for a value that is constant along the columns, such as a row's
  /// mean.
  bool isVector(const Scope &scope, llvm::ArrayRef<int64_t> strides) const;

  /// Returns operand 0 of a reduction, in the type of its accumulators.
  mlir::Value getReductionInput(const Scope &scope, unsigned reduction);

  /// Records the finished value of a reduction or contraction, given in the
  /// compute type.
  void setValue(Scope &scope, unsigned node, mlir::Value value);

  /// Returns the node of operand `number`. If the node is an argument,
  /// loadElements loads `width` adjacent elements of it from `offset` on.
  const Node &getOperandNode(const Node &node, unsigned number) const {
    assert(number < node.operands.size() && "an operand of the node");
    return body.getNodes()[node.operands[number].node];
  }
  mlir::Value loadElements(const Node &argument, mlir::Value offset,
                           int64_t width, int64_t multiple);

  /// Returns an operand, converted to `compute` if it is a float.
  mlir::Value getOperand(const Scope &scope, NodeResult operand,
                         mlir::FloatType compute);

  /// In an epilogue, sets the base of argument 0, the tile of the product.
  /// Elements are read at `base` plus the column.
  void setTileBase(mlir::Value base) { tileBase = base; }

private:
  void compute(Scope &scope, unsigned number);
  mlir::Value loadArgument(const Scope &scope, const Node &node);
  void prefetchNextRow(mlir::Value buffer, mlir::Value offset,
                       llvm::ArrayRef<int64_t> strides, bool isWrite);
  mlir::Value addOffset(mlir::Value offset, int64_t first);
  mlir::Value loadTable(const Scope &scope, const Node &node);
  mlir::Value loadTableAt(const Node &node, mlir::Value index,
                          mlir::Value offset, int64_t width, int64_t multiple);
  ElementIndex getElementIndex(const Scope &scope, const Node &node);
  mlir::Value round(mlir::Value value, mlir::Type elementType);

  KernelContext &context;
  const KernelBody &body;
  mlir::ImplicitLocOpBuilder &b;
  mlir::Value tileBase;
};

/// Creates the value of a splat constant, as a scalar.
mlir::Value createSplat(mlir::ImplicitLocOpBuilder &b, mlir::Operation *op);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_FRAGMENTEMITTER_H
