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

/// A dense row-major tensor. The bytes are immutable and may be shared; `owner`
/// (a file, a parsed model, a buffer) keeps them alive. An i1 element is one
/// byte, 0 or 1.
struct HostTensor {
  mlir::RankedTensorType type;
  llvm::ArrayRef<char> data;
  std::shared_ptr<const void> owner;

  /// Allocates a tensor of `type`. Returns it with a pointer to its bytes,
  /// which the caller must fill: they are not zeroed.
  static std::pair<HostTensor, char *> allocate(mlir::RankedTensorType type);
  /// Creates an i64 tensor with `values`.
  static HostTensor fromIntegers(mlir::MLIRContext *context,
                                 llvm::ArrayRef<int64_t> shape,
                                 llvm::ArrayRef<int64_t> values);

  /// Returns the elements of a constant; nullopt if they are not in memory.
  static std::optional<HostTensor> fromAttribute(mlir::ElementsAttr elements);

  llvm::ArrayRef<int64_t> getShape() const { return type.getShape(); }
  int64_t getNumElements() const { return type.getNumElements(); }
  bool isFloat() const;

  /// Returns element `index` of a float, integer or boolean tensor.
  double getDouble(int64_t index) const;
  int64_t getInteger(int64_t index) const;
  /// Returns all elements of an integer or boolean tensor.
  llvm::SmallVector<int64_t> getIntegers() const;
  /// True if all elements are equal. False if an element is NaN and there are
  /// several: NaN equals nothing.
  bool isSplat() const;
  /// Transposes a matrix.
  HostTensor transpose() const;
  /// Returns the index of the first NaN or infinity of a float tensor; nullopt
  /// if all elements are finite or not floats.
  std::optional<int64_t> findNonFinite() const;

  /// Returns an attribute with the elements of the tensor: dense<...> if there
  /// are few or all have equal bytes, otherwise a resource called `name` that
  /// shares the bytes.
  mlir::ElementsAttr toAttribute(llvm::StringRef name) const;
};

/// Returns the size in bytes of an element of a HostTensor; 1 for i1.
int64_t getElementBytes(mlir::Type elementType);

/// Returns the size in bytes of a tensor; nullopt if an extent is negative or
/// the product overflows.
std::optional<int64_t> getCheckedBytes(llvm::ArrayRef<int64_t> shape,
                                       mlir::Type elementType);

/// Tensors by ONNX name.
using TensorMap = llvm::StringMap<HostTensor>;

/// Converts floats to `elementType`, rounding to nearest even; nullopt if
/// either type is not a float type.
std::optional<HostTensor> convertFloats(const HostTensor &tensor,
                                        mlir::Type elementType);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_HOSTTENSOR_H
