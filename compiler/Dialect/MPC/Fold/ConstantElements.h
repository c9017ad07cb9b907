// Reads and writes the elements of constant tensors, for constant folding.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTELEMENTS_H
#define MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTELEMENTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/APSInt.h"

namespace mpc {

/// Limits on the elements of a folded operand, unless the operand is a splat,
/// and of a folded result. A result may be larger: the mask of two vectors, for
/// example.
inline constexpr int64_t kMostFoldedElements = 1 << 16;
inline constexpr int64_t kMostFoldedResults = 1 << 22;

/// Calls `visit` with every index of `shape`, in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);

/// Returns the row-major position of `index` in a tensor of `shape` that is
/// broadcast to the rank of `index`. Axes of size 1 are read at 0.
int64_t getPosition(llvm::ArrayRef<int64_t> index,
                    llvm::ArrayRef<int64_t> shape);

/// The bits of a constant's elements. A splat stores a single value.
class ConstantElements {
public:
  /// Reads an attribute of a ranked tensor. nullopt if `attribute` is null, has
  /// no bytes in memory, or is no splat and has more than kMostFoldedElements.
  static std::optional<ConstantElements> read(mlir::Attribute attribute);

  mlir::RankedTensorType getType() const { return type; }
  mlir::Type getElementType() const { return type.getElementType(); }
  bool isSplat() const { return splat; }

  /// Returns the element at a row-major position.
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

/// Returns a tensor of `type` with the elements `bits`. A single element makes
/// a splat.
mlir::DenseElementsAttr makeElements(mlir::RankedTensorType type,
                                     llvm::ArrayRef<llvm::APInt> bits);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTELEMENTS_H
