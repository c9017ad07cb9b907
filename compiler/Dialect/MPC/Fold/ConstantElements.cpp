// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;
using namespace mpc;

void mpc::forEachIndex(ArrayRef<int64_t> shape,
                       llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0, n = ShapedType::getNumElements(shape); i < n; ++i) {
    visit(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

int64_t mpc::getPosition(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t at = index[index.size() - shape.size() + d];
    position = position * shape[d] + (shape[d] == 1 ? 0 : at);
  }
  return position;
}

// Appends to `bits` the elements in `data`, which are little-endian and `width`
// bits wide, a multiple of 8.
static void readBytes(ArrayRef<char> data, unsigned width,
                      SmallVectorImpl<llvm::APInt> &bits) {
  size_t bytes = width / 8;
  for (size_t at = 0; at + bytes <= data.size(); at += bytes) {
    uint64_t value = 0;
    std::memcpy(&value, data.data() + at, bytes);
    bits.emplace_back(width, value);
  }
}

std::optional<ConstantElements> ConstantElements::read(Attribute attribute) {
  auto elements = dyn_cast_or_null<ElementsAttr>(attribute);
  auto type = elements ? dyn_cast<RankedTensorType>(elements.getShapedType())
                       : RankedTensorType();
  if (!type || !type.getElementType().isIntOrFloat())
    return std::nullopt;
  ConstantElements result;
  result.type = type;
  // Do not read large constants, since folding them costs compile time. A splat
  // has a single element, whatever its shape.
  result.splat = elements.isSplat();
  if (!result.splat && type.getNumElements() > kMostFoldedElements)
    return std::nullopt;
  // Elements of whole bytes are copied from memory. MLIR packs i1 into bits, so
  // i1 is read through the attribute.
  unsigned width = type.getElementTypeBitWidth();
  if (auto dense = dyn_cast<DenseElementsAttr>(elements)) {
    if (width % 8 == 0)
      readBytes(dense.getRawData(), width, result.bits);
    else if (result.splat)
      result.bits.push_back(dense.getSplatValue<llvm::APInt>());
    else
      llvm::append_range(result.bits, dense.getValues<llvm::APInt>());
    return result;
  }
  // Count the elements that were read, because a resource may hold fewer bytes
  // than its type needs.
  auto resource = dyn_cast<DenseResourceElementsAttr>(elements);
  AsmResourceBlob *blob =
      resource ? resource.getRawHandle().getBlob() : nullptr;
  if (!blob || width % 8 != 0)
    return std::nullopt;
  readBytes(blob->getData(), width, result.bits);
  bool isWhole = static_cast<int64_t>(result.bits.size()) ==
                 (result.splat ? 1 : type.getNumElements());
  return isWhole ? std::optional(std::move(result)) : std::nullopt;
}

llvm::APSInt ConstantElements::getInteger(int64_t position) const {
  return llvm::APSInt(getBits(position), isUnsignedElement(getElementType()));
}

llvm::APFloat ConstantElements::getFloat(int64_t position) const {
  auto element = cast<FloatType>(getElementType());
  return llvm::APFloat(element.getFloatSemantics(), getBits(position));
}

DenseElementsAttr mpc::makeElements(RankedTensorType type,
                                    ArrayRef<llvm::APInt> bits) {
  unsigned width = type.getElementTypeBitWidth();
  if (width == 1) {
    SmallVector<bool> values;
    for (const llvm::APInt &value : bits)
      values.push_back(value.getBoolValue());
    return DenseElementsAttr::get(type, values);
  }
  SmallVector<char> data;
  for (const llvm::APInt &value : bits) {
    uint64_t word = value.getZExtValue();
    const char *bytes = reinterpret_cast<const char *>(&word);
    data.append(bytes, bytes + width / 8);
  }
  return DenseElementsAttr::getFromRawBuffer(type, data);
}
