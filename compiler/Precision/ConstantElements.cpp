// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/ConstantElements.h"

#include "compiler/Dialect/AMP/ConstantAttrs.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mpc;

// Decodes the number of `type` stored at `bytes`.
static double readNumber(const char *bytes, FloatType type) {
  // A fast path for float32, the type of all large constants.
  if (type.isF32()) {
    float value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, type.getWidth() / 8);
  return APFloat(type.getFloatSemantics(), APInt(type.getWidth(), bits))
      .convertToDouble();
}

bool mpc::forEachFiniteElement(ElementsAttr elements,
                               llvm::function_ref<void(double)> visit) {
  // The APFloat iterators of ElementsAttr cannot read a dense_resource
  // attribute, so decode its raw bytes.
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements)) {
    auto type = dyn_cast<FloatType>(resource.getElementType());
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!type || !blob)
      return false;
    ArrayRef<char> bytes = blob->getData();
    const unsigned width = type.getWidth() / 8;
    for (size_t at = 0; at + width <= bytes.size(); at += width)
      if (double number = readNumber(bytes.data() + at, type);
          std::isfinite(number))
        visit(number);
    return true;
  }
  auto values = elements.try_value_begin<APFloat>();
  if (!values)
    return false;
  // A splat stores one element, so visit only the first.
  int64_t count = elements.isSplat() ? 1 : elements.getNumElements();
  for (auto it = *values, end = *values + count; it != end; ++it)
    if (APFloat value = *it; value.isFinite())
      visit(value.convertToDouble());
  return true;
}

std::optional<ElementSummary> mpc::summarize(ElementsAttr elements) {
  ElementSummary summary;
  double sum = 0.0;
  int64_t count = 0;
  if (!forEachFiniteElement(elements, [&](double element) {
        summary.low = count == 0 ? element : std::min(summary.low, element);
        summary.high = count == 0 ? element : std::max(summary.high, element);
        sum += element * element;
        ++count;
      }))
    return std::nullopt;
  summary.isEmpty = count == 0;
  summary.rms =
      std::sqrt(sum / static_cast<double>(std::max<int64_t>(count, 1)));
  return summary;
}

std::optional<ElementSummary> mpc::summarizeModel(ConstantOp constant) {
  if (constant->hasAttr(amp::kSeedAttr))
    return std::nullopt;
  auto rounded = constant->getAttrOfType<DenseF64ArrayAttr>(amp::kRoundedAttr);
  if (!rounded)
    return summarize(constant.getValue());
  if (rounded.empty())
    return ElementSummary();
  return ElementSummary{rounded[0], rounded[1], rounded[2], /*isEmpty=*/false};
}
