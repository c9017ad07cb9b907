// Describes which elements of an integer tensor are indices, and the size of
// the axis that each of them indexes.
//
// Columns of one input often index different tables. For example, of ids [3,
// N], ids[0] is looked up in a table of 20 rows and ids[1] in a table of 1000.
// So an input lists boxes of its elements, each with its own size, as the
// attribute
//
//     mpc.indices = [{begin = array<i64: 0, 0>, end = array<i64: 1, 8>,
//                     size = 20 : i64}, ...]
//
// Class labels are indices too: their box has `label`, and `ignored` if the
// loss ignores one label.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_INDEXBOXES_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_INDEXBOXES_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Attribute of an integer function argument: a list of the boxes below.
inline constexpr llvm::StringLiteral kIndicesAttr = "mpc.indices";

/// A box of elements: from `begin` (inclusive) to `end` (exclusive) along every
/// axis. Each element is in [-size, size). A label is in [0, size) or equal to
/// `ignored`.
struct IndexBox {
  llvm::SmallVector<int64_t> begin, end;
  int64_t size = 0;
  bool isLabel = false;
  std::optional<int64_t> ignored = std::nullopt;

  /// Returns the box of all elements of a tensor of `shape`.
  static IndexBox whole(llvm::ArrayRef<int64_t> shape, int64_t size);
};

/// True if the box has no elements.
bool isEmpty(const IndexBox &box);

/// Operands of an op, with boxes of their elements.
using IndexOrigins = llvm::SmallVector<std::pair<mlir::Value, IndexBox>>;

/// Returns the elements of the operands that `op` moves to `box` of its result,
/// with the operands. nullopt if `op` does more than move integers, or if the
/// elements are no box of the operand: a reshape from [4, 2] to [8] maps
/// elements 1 to 6 to no box.
std::optional<IndexOrigins> findOrigins(mlir::Operation *op,
                                        const IndexBox &box);

/// Returns `list`, null or a list of boxes, with `box` appended. If `box`
/// adjoins the last box and has its size, the last box grows instead. So the
/// samples of a batch, added in turn, stay a single box.
mlir::ArrayAttr addBox(mlir::ArrayAttr list, const IndexBox &box,
                       mlir::Builder &builder);

/// True if `attribute` is a list of boxes of a tensor of `type`.
bool isIndices(mlir::Attribute attribute, mlir::ShapedType type);

/// Returns the boxes of `list`, for which isIndices must hold.
llvm::SmallVector<IndexBox> getBoxes(mlir::ArrayAttr list);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_INDEXBOXES_H
