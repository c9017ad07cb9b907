// Tensors in host memory: initializers, constants and trained values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_HOSTTENSOR_H
#define MPC_FRONTENDS_ONNX_MODEL_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringMap.h"

#include <memory>
#include <optional>

namespace mpc::onnx_frontend {

/// A dense row-major tensor. The bytes are shared, never changed, and kept
/// alive by `owner` (a file, a parsed model, a buffer). Elements of i1 take one
/// byte each, 0 or 1.
struct HostTensor {
  mlir::RankedTensorType type;
  llvm::ArrayRef<char> data;
  std::shared_ptr<const void> owner;

  /// A tensor with a buffer of its own for `type`, to be filled through the
  /// returned pointer; its bytes are not zeroed.
  static std::pair<HostTensor, char *> allocate(mlir::RankedTensorType type);
  /// An i64 tensor of these values.
  static HostTensor fromIntegers(mlir::MLIRContext *context,
                                 llvm::ArrayRef<int64_t> shape,
                                 llvm::ArrayRef<int64_t> values);

  /// The elements of a constant, if they are in memory.
  static std::optional<HostTensor> fromAttribute(mlir::ElementsAttr elements);

  llvm::ArrayRef<int64_t> getShape() const { return type.getShape(); }
  int64_t getNumElements() const { return type.getNumElements(); }
  bool isFloat() const;

  /// Element `index` of a float, integer or boolean tensor.
  double getDouble(int64_t index) const;
  int64_t getInteger(int64_t index) const;
  /// All elements of an integer or boolean tensor.
  llvm::SmallVector<int64_t> getIntegers() const;
  /// Whether all elements are equal; a NaN equals none.
  bool isSplat() const;
  /// A matrix with rows and columns exchanged.
  HostTensor transpose() const;
  /// The first element of a float tensor that is NaN or infinite.
  std::optional<int64_t> findNonFinite() const;

  /// The attribute with these elements: dense<...> where it is small, a
  /// resource over the same bytes where not. `name` is the resource's.
  mlir::ElementsAttr toAttribute(llvm::StringRef name) const;
};

/// Bytes of one element as HostTensor stores it.
int64_t getElementBytes(mlir::Type elementType);

/// Bytes of a tensor, or nothing where an extent is negative or the product
/// overflows.
std::optional<int64_t> getCheckedBytes(llvm::ArrayRef<int64_t> shape,
                                       mlir::Type elementType);

/// Tensors by ONNX name.
using TensorMap = llvm::StringMap<HostTensor>;

/// `tensor` with its floats converted to `elementType`, rounding to nearest
/// even; nothing where either is not a float type.
std::optional<HostTensor> convertFloats(const HostTensor &tensor,
                                        mlir::Type elementType);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_HOSTTENSOR_H
