// Reads, converts and transposes tensors in host memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/HostTensor.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Limits the elements of an attribute that prints inline, as dense<...>.
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
  assert(getCheckedBytes(type.getShape(), type.getElementType()) &&
         "shapes from outside are checked");
  int64_t bytes =
      type.getNumElements() * getElementBytes(type.getElementType());
  // Allocate int64_t elements, which align every element type, and at least
  // one, so that `data` is never null.
  std::shared_ptr<int64_t[]> buffer(new int64_t[bytes / 8 + 1]);
  char *data = reinterpret_cast<char *>(buffer.get());
  return {HostTensor{type, ArrayRef<char>(data, bytes), buffer}, data};
}

HostTensor HostTensor::fromIntegers(MLIRContext *context,
                                    ArrayRef<int64_t> shape,
                                    ArrayRef<int64_t> values) {
  auto [tensor, data] =
      allocate(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  assert(tensor.getNumElements() == static_cast<int64_t>(values.size()) &&
         "a value per element");
  llvm::copy(values, reinterpret_cast<int64_t *>(data));
  return tensor;
}

std::optional<HostTensor> HostTensor::fromAttribute(ElementsAttr elements) {
  auto constant = ConstantElements::read(elements);
  if (!constant)
    return std::nullopt;
  RankedTensorType type = constant->getType();
  auto [tensor, data] = allocate(type);
  int64_t width = getElementBytes(type.getElementType());
  for (int64_t i = 0, n = type.getNumElements(); i < n; ++i) {
    uint64_t bits = constant->getBits(i).getZExtValue();
    std::memcpy(data + i * width, &bits, width);
  }
  return tensor;
}

bool HostTensor::isFloat() const {
  return isa<FloatType>(type.getElementType());
}

// Returns the bits of element `index`, zero-extended.
static uint64_t getBits(const HostTensor &tensor, int64_t index) {
  int64_t width = getElementBytes(tensor.type.getElementType());
  assert(index >= 0 && (index + 1) * width <= int64_t(tensor.data.size()) &&
         "an element of the tensor");
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

// Finds the first NaN or infinity: a float whose exponent bits, given by the
// mask `exponent`, are all set.
template <typename Bits>
static std::optional<int64_t> findNonFinite(ArrayRef<char> data,
                                            Bits exponent) {
  for (size_t i = 0, n = data.size() / sizeof(Bits); i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, data.data() + i * sizeof(Bits), sizeof(Bits));
    if ((bits & exponent) == exponent)
      return i;
  }
  return std::nullopt;
}

std::optional<int64_t> HostTensor::findNonFinite() const {
  auto element = dyn_cast<FloatType>(type.getElementType());
  if (!element)
    return std::nullopt;
  uint64_t exponent = llvm::APFloat::getInf(element.getFloatSemantics())
                          .bitcastToAPInt()
                          .getZExtValue();
  switch (element.getWidth()) {
  case 16:
    return ::findNonFinite(data, static_cast<uint16_t>(exponent));
  case 32:
    return ::findNonFinite(data, static_cast<uint32_t>(exponent));
  default:
    return ::findNonFinite(data, exponent);
  }
}

static bool repeatsElement(ArrayRef<char> data, size_t width) {
  return data.size() > width && std::memcmp(data.data(), data.data() + width,
                                            data.size() - width) == 0;
}

bool HostTensor::isSplat() const {
  // Compare bytes first, which is much faster. Equal bytes may still be NaN,
  // which equals nothing: then getDouble(0) != getDouble(1).
  if (repeatsElement(data, getElementBytes(type.getElementType())))
    return getDouble(0) == getDouble(1);
  for (int64_t i = 1; i < getNumElements(); ++i)
    if (getDouble(i) != getDouble(0))
      return false;
  return true;
}

// Transposes a matrix in tiles of 32 x 32, so that the read and the written
// tile stay in the L1 cache.
template <typename T>
static void transposeInto(char *to, const char *from, int64_t rows,
                          int64_t columns) {
  constexpr int64_t tile = 32;
  for (int64_t row = 0; row < rows; row += tile)
    for (int64_t column = 0; column < columns; column += tile)
      for (int64_t i = row, end = std::min(row + tile, rows); i < end; ++i)
        for (int64_t j = column, last = std::min(column + tile, columns);
             j < last; ++j)
          // Use memcpy, because bytes of a file may be unaligned.
          std::memcpy(to + (j * rows + i) * sizeof(T),
                      from + (i * columns + j) * sizeof(T), sizeof(T));
}

HostTensor HostTensor::transpose() const {
  assert(getShape().size() == 2 && "only matrices");
  const int64_t rows = getShape()[0], columns = getShape()[1];
  auto [result, to] =
      allocate(RankedTensorType::get({columns, rows}, type.getElementType()));
  // Moving an element only depends on its size, not on its type.
  switch (getElementBytes(type.getElementType())) {
  case 1:
    transposeInto<uint8_t>(to, data.data(), rows, columns);
    break;
  case 2:
    transposeInto<uint16_t>(to, data.data(), rows, columns);
    break;
  case 4:
    transposeInto<uint32_t>(to, data.data(), rows, columns);
    break;
  case 8:
    transposeInto<uint64_t>(to, data.data(), rows, columns);
    break;
  default:
    llvm_unreachable("elements have 1, 2, 4 or 8 bytes");
  }
  return result;
}

ElementsAttr HostTensor::toAttribute(StringRef name) const {
  assert(int64_t(data.size()) ==
             getNumElements() * getElementBytes(type.getElementType()) &&
         "a tensor holds the bytes of its elements");
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> values;
    for (char byte : data)
      values.push_back(byte != 0);
    return DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  // A splat attribute stores a single element.
  size_t width = getElementBytes(type.getElementType());
  if (repeatsElement(data, width))
    return DenseElementsAttr::getFromRawBuffer(type, data.take_front(width));
  if (getNumElements() <= kInlineElements)
    return DenseElementsAttr::getFromRawBuffer(type, data);
  // The resource refers to the tensor's bytes and keeps `owner` alive, so no
  // bytes are copied.
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

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

// Casts all elements. The processor rounds to nearest even.
template <typename From, typename To>
static void castAll(ArrayRef<char> from, char *to) {
  for (size_t i = 0, n = from.size() / sizeof(From); i < n; ++i) {
    From value;
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
    To converted = static_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

// Converts `value` to `target` and returns the bits.
static uint64_t convertBits(llvm::APFloat value, FloatType target) {
  bool losesInfo;
  value.convert(target.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.bitcastToAPInt().getZExtValue();
}

// Converts each of the 65536 values of a 16-bit format once, then looks up
// every element.
static void convertByTable(const HostTensor &tensor, FloatType target,
                           char *to) {
  auto source = cast<FloatType>(tensor.type.getElementType());
  assert(source.getWidth() == 16 && "a table has 65536 entries");
  std::vector<uint64_t> table;
  for (uint64_t bits = 0; bits < (1 << 16); ++bits)
    table.push_back(convertBits(
        llvm::APFloat(source.getFloatSemantics(), llvm::APInt(16, bits)),
        target));
  int64_t width = getElementBytes(target);
  for (int64_t i = 0, n = tensor.getNumElements(); i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, tensor.data.data() + i * 2, 2);
    std::memcpy(to + i * width, &table[bits], width);
  }
}

std::optional<HostTensor>
mpc::onnx_frontend::convertFloats(const HostTensor &tensor, Type elementType) {
  if (tensor.type.getElementType() == elementType)
    return tensor;
  auto target = dyn_cast<FloatType>(elementType);
  if (!target || !tensor.isFloat())
    return std::nullopt;
  // Loops over f32 and f64 are vectorized. Large 16-bit tensors use a table.
  auto [result, data] = HostTensor::allocate(
      RankedTensorType::get(tensor.getShape(), elementType));
  int64_t count = tensor.getNumElements();
  Type source = tensor.type.getElementType();
  if (source.isF32() && target.isF64()) {
    castAll<float, double>(tensor.data, data);
  } else if (source.isF64() && target.isF32()) {
    castAll<double, float>(tensor.data, data);
  } else if (getElementBytes(source) == 2 && count > (1 << 16)) {
    convertByTable(tensor, target, data);
  } else {
    // All other tensors, such as f32 to bf16 or small 16-bit tensors, convert
    // element by element.
    int64_t width = getElementBytes(elementType);
    for (int64_t i = 0; i < count; ++i) {
      uint64_t bits = convertBits(getFloat(tensor, i), target);
      std::memcpy(data + i * width, &bits, width);
    }
  }
  return result;
}
