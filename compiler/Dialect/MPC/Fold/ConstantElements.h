// The elements of constant tensors, one by one: what folding computes with.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTELEMENTS_H
#define MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTELEMENTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/APSInt.h"

namespace mpc {

/// Operands that are folded have at most so many elements, unless all are one
/// value; results, such as the mask of two vectors, at most so many.
inline constexpr int64_t kMostFoldedElements = 1 << 16;
inline constexpr int64_t kMostFoldedResults = 1 << 22;

/// Calls `visit` with every index of `shape`, in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);

/// The row-major position of `index`, broadcast, in a tensor of `shape`.
int64_t getPosition(llvm::ArrayRef<int64_t> index,
                    llvm::ArrayRef<int64_t> shape);

/// The bits of a constant's elements; one value stands for all of a splat.
class ConstantElements {
public:
  /// Of an attribute of a ranked tensor; nothing where it is null, has too many
  /// elements or bytes that are not in memory.
  static std::optional<ConstantElements> read(mlir::Attribute attribute);

  mlir::RankedTensorType getType() const { return type; }
  mlir::Type getElementType() const { return type.getElementType(); }
  bool isSplat() const { return splat; }

  /// By the row-major position.
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

/// Whether booleans or unsigned integers are the elements.
inline bool isUnsignedElement(mlir::Type element) {
  return element.isInteger(1) || element.isUnsignedInteger();
}

/// The tensor of `type` with these elements, or one for all.
mlir::DenseElementsAttr makeElements(mlir::RankedTensorType type,
                                     llvm::ArrayRef<llvm::APInt> bits);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FOLD_CONSTANTELEMENTS_H
