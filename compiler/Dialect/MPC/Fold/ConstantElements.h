// Reads and writes the elements of constant tensors, for constant folding.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTELEMENTS_H
#define MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTELEMENTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/APSInt.h"

namespace mpc {

/// Limits of constant folding, in elements: of an operand, unless it is a
/// splat, and of a result. The limit of results is higher, because a broadcast
/// of small operands, such as the mask of two vectors, may be large.
inline constexpr int64_t kMostFoldedElements = 1 << 16;
inline constexpr int64_t kMostFoldedResults = 1 << 22;

/// Calls `visit` with every index of `shape`, in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);

/// Returns the row-major position in a tensor of `shape` of the element that a
/// broadcast moves to `index`. For shape [3, 1], index [5, 2, 7] gives position
/// 2.
int64_t getPosition(llvm::ArrayRef<int64_t> index,
                    llvm::ArrayRef<int64_t> shape);

/// The elements of a constant as bit patterns. A splat stores a single element.
class ConstantElements {
public:
  /// Reads the elements of a constant tensor. nullopt if `attribute` is null or
  /// has no data in memory, or if it has more than kMostFoldedElements elements
  /// and is no splat.
  static std::optional<ConstantElements> read(mlir::Attribute attribute);

  mlir::RankedTensorType getType() const { return type; }
  mlir::Type getElementType() const { return type.getElementType(); }
  bool isSplat() const { return splat; }

  /// Returns the bit pattern of the element at a row-major position.
  const llvm::APInt &getBits(int64_t position) const {
    return bits[splat ? 0 : position];
  }
  llvm::APSInt getInteger(int64_t position) const;
  llvm::APFloat getFloat(int64_t position) const;

private:
  mlir::RankedTensorType type;
  llvm::SmallVector<llvm::APInt, 1> bits;
  bool splat = false;
};

/// True for booleans and unsigned integers.
inline bool isUnsignedElement(mlir::Type element) {
  return element.isInteger(1) || element.isUnsignedInteger();
}

/// Returns a constant of `type` with the elements `bits` in row-major order. A
/// single element makes a splat.
mlir::DenseElementsAttr makeElements(mlir::RankedTensorType type,
                                     llvm::ArrayRef<llvm::APInt> bits);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTELEMENTS_H
