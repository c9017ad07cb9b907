// Host tensors: access to elements, conversion, and MLIR attributes over them.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/HostTensor.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;
using namespace mpc::onnx_frontend;

// Tensors up to this many elements print as dense<...>.
static constexpr int64_t kInlineElements = 16;

int64_t mpc::onnx_frontend::getElementBytes(Type elementType) {
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

std::optional<int64_t>
mpc::onnx_frontend::getCheckedBytes(ArrayRef<int64_t> shape, Type elementType) {
  int64_t bytes = getElementBytes(elementType);
  for (int64_t extent : shape)
    if (extent < 0 || llvm::MulOverflow(bytes, extent, bytes))
      return std::nullopt;
  return bytes;
}

std::pair<HostTensor, char *> HostTensor::allocate(RankedTensorType type) {
  int64_t bytes =
      type.getNumElements() * getElementBytes(type.getElementType());
  // Aligned for every element type; at least one byte, so that data is never
  // null.
  auto buffer = std::make_shared<std::vector<int64_t>>(bytes / 8 + 1);
  char *data = reinterpret_cast<char *>(buffer->data());
  return {HostTensor{type, ArrayRef<char>(data, bytes), buffer}, data};
}

HostTensor HostTensor::fromIntegers(MLIRContext *context,
                                    ArrayRef<int64_t> shape,
                                    ArrayRef<int64_t> values) {
  auto [tensor, data] =
      allocate(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  assert(tensor.getNumElements() == static_cast<int64_t>(values.size()));
  llvm::copy(values, reinterpret_cast<int64_t *>(data));
  return tensor;
}

bool HostTensor::isFloat() const {
  return isa<FloatType>(type.getElementType());
}

// The bits of element `index`, zero-extended.
static uint64_t getBits(const HostTensor &tensor, int64_t index) {
  int64_t width = getElementBytes(tensor.type.getElementType());
  uint64_t bits = 0;
  std::memcpy(&bits, tensor.data.data() + index * width, width);
  return bits;
}

static llvm::APFloat getFloat(const HostTensor &tensor, int64_t index) {
  auto type = cast<FloatType>(tensor.type.getElementType());
  return llvm::APFloat(type.getFloatSemantics(),
                       llvm::APInt(type.getWidth(), getBits(tensor, index)));
}

double HostTensor::getDouble(int64_t index) const {
  if (!isFloat())
    return static_cast<double>(getInteger(index));
  llvm::APFloat value = getFloat(*this, index);
  bool losesInfo;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

int64_t HostTensor::getInteger(int64_t index) const {
  auto integer = cast<IntegerType>(type.getElementType());
  uint64_t bits = getBits(*this, index);
  if (integer.isUnsigned() || integer.getWidth() == 1)
    return static_cast<int64_t>(bits);
  return llvm::SignExtend64(bits, integer.getWidth());
}

SmallVector<int64_t> HostTensor::getIntegers() const {
  SmallVector<int64_t> values;
  for (int64_t i = 0, n = getNumElements(); i < n; ++i)
    values.push_back(getInteger(i));
  return values;
}

ElementsAttr HostTensor::toAttribute(StringRef name) const {
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> values;
    for (char byte : data)
      values.push_back(byte != 0);
    return DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  // Fills, zeros above all, are one element.
  size_t width = getElementBytes(type.getElementType());
  bool isSplat =
      data.size() > width &&
      std::memcmp(data.data(), data.data() + width, data.size() - width) == 0;
  if (isSplat)
    return DenseElementsAttr::getFromRawBuffer(type, data.take_front(width));
  if (getNumElements() <= kInlineElements)
    return DenseElementsAttr::getFromRawBuffer(type, data);
  // The resource keeps the owner of the bytes alive instead of copying them.
  auto keepAlive = owner;
  AsmResourceBlob blob(
      data, alignof(int64_t),
      [keepAlive](void *, size_t, size_t) mutable { keepAlive.reset(); },
      /*dataIsMutable=*/false);
  auto &manager =
      DenseResourceElementsHandle::getManagerInterface(type.getContext());
  return DenseResourceElementsAttr::get(type,
                                        manager.insert(name, std::move(blob)));
}

std::optional<HostTensor>
mpc::onnx_frontend::convertFloats(const HostTensor &tensor, Type elementType) {
  if (tensor.type.getElementType() == elementType)
    return tensor;
  auto target = dyn_cast<FloatType>(elementType);
  if (!target || !tensor.isFloat())
    return std::nullopt;
  auto [result, data] = HostTensor::allocate(
      RankedTensorType::get(tensor.getShape(), elementType));
  int64_t width = getElementBytes(elementType);
  for (int64_t i = 0, n = tensor.getNumElements(); i < n; ++i) {
    llvm::APFloat value = getFloat(tensor, i);
    bool losesInfo;
    value.convert(target.getFloatSemantics(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    uint64_t bits = value.bitcastToAPInt().getZExtValue();
    std::memcpy(data + i * width, &bits, width);
  }
  return result;
}
