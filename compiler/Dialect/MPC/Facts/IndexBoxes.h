// Describes which elements of an integer tensor are indices into another
// tensor, and how many elements the indexed axis has.
//
// Rows of one input often index different tables. For example, in ids of shape
// [3, 8], row 0 is looked up in a table of 20 rows and row 1 in a table of
// 1000. So an input has a list of boxes of elements, each with the size of the
// indexed axis:
//
//    mpc.indices = [{begin = array<i64: 0, 0>, end = array<i64: 1, 8>,
//                    size = 20 : i64}, ...]
//
// Class labels are indices of scores. Their box also has the key `label`, and
// `ignored` with the label that the loss ignores, if any.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_INDEXBOXES_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_INDEXBOXES_H

#include "compiler/Dialect/MPC/MPC.h"
#include "runtime/PlanSchema.h"

namespace mpc {

/// Attribute of an integer argument of a function: a list of index boxes.
inline constexpr llvm::StringLiteral kIndicesAttr = "mpc.indices";

/// A box of elements that are indices, as plans store it: from `begin`
/// (inclusive) to `end` (exclusive) along every axis. An index is in [-size,
/// size), where negative indices count from the end. A label is in [0, size) or
/// equal to `ignored`.
using runtime::IndexBox;

/// Returns the box of all elements of a tensor of `shape`, with indices of an
/// axis of `size` elements.
IndexBox createWholeBox(llvm::ArrayRef<int64_t> shape, int64_t size);

/// True if the box has no elements.
bool isEmpty(const IndexBox &box);

/// Operands of an op, each with a box of its elements.
using IndexOrigins = llvm::SmallVector<std::pair<mlir::Value, IndexBox>>;

/// Returns the operand elements that `op` moves to `box` of its result: each
/// operand with a box. nullopt if `op` does not only move integers, or if the
/// operand elements form no box. For example, a reshape from [4, 2] to [8] maps
/// elements 1 to 6 of the result to no box.
std::optional<IndexOrigins> findOrigins(mlir::Operation *op,
                                        const IndexBox &box);

/// Returns `list` with `box` appended; null counts as an empty list. If `box`
/// starts where the last box ends, and has the same size, the last box grows
/// instead: adding the samples of a batch one by one gives a single box.
mlir::ArrayAttr addBox(mlir::ArrayAttr list, const IndexBox &box,
                       mlir::Builder &builder);

/// True if `attribute` is a list of valid index boxes for an integer tensor of
/// `type`.
bool isIndices(mlir::Attribute attribute, mlir::ShapedType type);

/// Returns the boxes in `list`. Call isIndices first.
std::vector<IndexBox> getBoxes(mlir::ArrayAttr list);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_INDEXBOXES_H
