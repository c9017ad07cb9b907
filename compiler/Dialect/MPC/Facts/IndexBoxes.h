// Which elements of a tensor of integers are indices, and into how long an
// axis.
//
// Columns of one input often name rows of tables of their own: of ids [3, N],
// ids[0] may be looked up in a table of 20 rows and ids[1] in one of 1000. So
// an input lists boxes of its elements, each with its own size, as the
// attribute
//
//     mpc.indices = [{begin = array<i64: 0, 0>, end = array<i64: 1, 8>,
//                     size = 20 : i64}, ...]
//
// Class labels are such, too: a box of them has `label`, and `ignored` where a
// loss ignores one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_INDEXBOXES_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_INDEXBOXES_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// On a function argument of integers: a list of the boxes below.
inline constexpr llvm::StringLiteral kIndicesAttr = "mpc.indices";

/// The elements from `begin` to before `end` along every axis are in
/// [-size, size); labels in [0, size), or the ignored one.
struct IndexBox {
  llvm::SmallVector<int64_t> begin, end;
  int64_t size = 0;
  bool isLabel = false;
  std::optional<int64_t> ignored = std::nullopt;

  /// All elements of a tensor of that shape.
  static IndexBox whole(llvm::ArrayRef<int64_t> shape, int64_t size);
};

/// Whether it has no elements.
bool isEmpty(const IndexBox &box);

/// Operands of an op, with boxes of their elements.
using IndexOrigins = llvm::SmallVector<std::pair<mlir::Value, IndexBox>>;

/// Of an op that only moves integers: the elements of its operands that are
/// those of `box` of its result, with the operands. Nothing of any other op,
/// and where they are no box of the operand: of a reshape from [4, 2] to [8],
/// the elements 1 to 6.
std::optional<IndexOrigins> findOrigins(mlir::Operation *op,
                                        const IndexBox &box);

/// `list`, null or a list of boxes, with one more. A box beside the last one,
/// of the same size, makes that longer: the samples of a batch, one by one.
mlir::ArrayAttr addBox(mlir::ArrayAttr list, const IndexBox &box,
                       mlir::Builder &builder);

/// Whether `attribute` is a list of boxes of a tensor of `type`.
bool isIndices(mlir::Attribute attribute, mlir::ShapedType type);

/// The boxes of a list that isIndices holds of.
llvm::SmallVector<IndexBox> getBoxes(mlir::ArrayAttr list);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_INDEXBOXES_H
