// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/DataSection.h"

#include "runtime/ArtifactFormat.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Booleans are bits in an attribute and bytes in an artifact.
static void appendBooleans(DenseElementsAttr value, std::string &bytes) {
  for (bool element : value.getValues<bool>())
    bytes.push_back(element ? 1 : 0);
}

static void appendDense(DenseElementsAttr value, std::string &bytes) {
  if (value.getElementType().isInteger(1))
    return appendBooleans(value, bytes);
  llvm::ArrayRef<char> raw = value.getRawData();
  int64_t copies = value.isSplat() ? value.getNumElements() : 1;
  bytes.reserve(bytes.size() + copies * raw.size());
  for (int64_t i = 0; i < copies; ++i)
    bytes.append(raw.data(), raw.size());
}

FailureOr<DataEntry> DataSection::add(ElementsAttr value) {
  if (auto entry = entries.find(value); entry != entries.end())
    return entry->second;
  bytes.resize(llvm::alignTo(bytes.size(), format::kDataAlignment), '\0');
  DataEntry entry;
  entry.offset = bytes.size();
  if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    appendDense(dense, bytes);
  } else if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob)
      return failure();
    llvm::ArrayRef<char> raw = blob->getData();
    bytes.append(raw.data(), raw.size());
  } else {
    return failure();
  }
  entry.bytes = bytes.size() - entry.offset;
  return entries[value] = entry;
}
