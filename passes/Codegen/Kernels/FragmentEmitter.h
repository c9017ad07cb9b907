// Computes the values of a kernel's body at one position of its loops.
//
// A scope is a position: the indices of the loop dimensions known so far, and
// what has been computed there. Entering a loop copies the scope, so what does
// not depend on the loop is computed once, before it; that also holds for
// loads, which no later pass could move over the kernel's stores.
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
  /// Per loop dimension its index, or null where it is not known yet.
  llvm::SmallVector<mlir::Value> indices;
  /// Bit i: dimension i is known.
  uint64_t known = 0;
  /// Elements along the last dimension that are computed at once.
  int64_t width = 1;
  /// Per node its results, scalar or vector, in their element types; empty
  /// where they have not been computed.
  llvm::SmallVector<llvm::SmallVector<mlir::Value, 1>> values;

  void enter(unsigned dimension, mlir::Value index) {
    indices[dimension] = index;
    known |= uint64_t(1) << dimension;
  }
};

class FragmentEmitter {
public:
  FragmentEmitter(KernelContext &context, const KernelBody &body)
      : context(context), body(body), b(context.b) {}

  /// A scope at which no dimension is known.
  Scope createScope() const;

  /// Makes all dimensions of a group known, by the row-major index in it.
  void enterGroup(Scope &scope, unsigned group, mlir::Value index);

  /// Computes what `targets` (node numbers) need, as far as it depends on known
  /// dimensions and finished reductions only.
  void evaluate(Scope &scope, llvm::ArrayRef<unsigned> targets);

  /// Stores an output whose node has been computed in `scope`.
  void store(const Scope &scope, const Output &output);

  /// The elements from the start of a buffer to where its strides lead.
  mlir::Value getOffset(const Scope &scope, llvm::ArrayRef<int64_t> strides);

  /// What the offset of a vector that starts at `scope` is a multiple of, in
  /// elements.
  int64_t getMultiple(const Scope &scope,
                      llvm::ArrayRef<int64_t> strides) const;

  /// `width` adjacent elements of a buffer that holds elements of type
  /// `element`; see KernelContext::load.
  mlir::Value load(mlir::Value buffer, mlir::Type element, mlir::Value offset,
                   int64_t width = 1, int64_t multiple = 1);
  /// `value`, which is the same everywhere where it is a scalar, to `width`
  /// adjacent elements.
  void store(mlir::Value value, mlir::Value buffer, mlir::Value offset,
             int64_t width, int64_t multiple);

  /// True if a value with these strides differs between the lanes of a vector;
  /// false for one that is the same along the columns, such as a row's mean.
  bool isVector(const Scope &scope, llvm::ArrayRef<int64_t> strides) const;

  /// Operand 0 of a reduction, in the type it accumulates in.
  mlir::Value getReductionInput(const Scope &scope, unsigned reduction);

  /// Records the finished value of a reduction or contraction, given in its
  /// compute type.
  void setValue(Scope &scope, unsigned node, mlir::Value value);

  /// The node of what operand `number` of an op is, and `width` adjacent
  /// elements of it, an argument, from `offset` on.
  const Node &getOperandNode(const Node &node, unsigned number) const {
    return body.getNodes()[node.operands[number].node];
  }
  mlir::Value loadElements(const Node &argument, mlir::Value offset,
                           int64_t width, int64_t multiple);

  /// An operand in the type that is computed in.
  mlir::Value getOperand(const Scope &scope, NodeResult operand,
                         mlir::FloatType compute);

  /// For epilogues: argument 0 is read at this base plus the column.
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

/// The one value of a constant, as a scalar.
mlir::Value createSplat(mlir::ImplicitLocOpBuilder &b, mlir::Operation *op);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_FRAGMENTEMITTER_H
