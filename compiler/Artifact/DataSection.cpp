// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/DataSection.h"

#include "runtime/ArtifactFormat.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

void DataSection::append(llvm::StringRef bytes, uint64_t repeat) {
  if (bytes.empty() || repeat == 0)
    return;
  pieces.push_back({bytes, repeat});
  size += static_cast<int64_t>(bytes.size() * repeat);
}

/// Converts booleans, which attributes store as bits, to the bytes of
/// artifacts.
static std::string toBytes(DenseElementsAttr booleans) {
  std::string bytes;
  for (bool element : booleans.getValues<bool>())
    bytes.push_back(element ? 1 : 0);
  return bytes;
}

void DataSection::appendDense(DenseElementsAttr value) {
  if (value.getElementType().isInteger(1))
    return append(converted.emplace_front(toBytes(value)));
  llvm::ArrayRef<char> raw = value.getRawData();
  int64_t copies = value.isSplat() ? value.getNumElements() : 1;
  append({raw.data(), raw.size()}, copies);
}

/// Pads with zeros: entries start at aligned offsets.
void DataSection::align() {
  static constexpr char zero = '\0';
  append({&zero, 1},
         llvm::offsetToAlignment(size, llvm::Align(format::kDataAlignment)));
}

DataEntry DataSection::add(std::string bytes) {
  align();
  DataEntry entry = {size, static_cast<int64_t>(bytes.size())};
  append(converted.emplace_front(std::move(bytes)));
  return entry;
}

FailureOr<DataEntry> DataSection::add(ElementsAttr value) {
  if (auto entry = entries.find(value); entry != entries.end())
    return entry->second;
  align();
  DataEntry entry;
  entry.offset = size;
  // `pieces` refer to the bytes in the attribute, without a copy.
  if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    appendDense(dense);
  } else if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob)
      return failure();
    llvm::ArrayRef<char> raw = blob->getData();
    append({raw.data(), raw.size()});
  } else {
    return failure();
  }
  entry.bytes = size - entry.offset;
  return entries[value] = entry;
}
