// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/ExporterMetadata.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

StringRef mpc::onnx_frontend::findMetadata(const MetadataEntries &entries,
                                           StringRef key) {
  for (const proto::StringStringEntryProto &entry : entries)
    if (entry.key() == key)
      return entry.value();
  return {};
}

llvm::SmallVector<StringRef>
mpc::onnx_frontend::readMetadataList(const MetadataEntries &entries,
                                     StringRef key) {
  llvm::SmallVector<StringRef> items;
  StringRef list = findMetadata(entries, key);
  if (list.empty())
    return items;
  list.split(items, ',');
  for (StringRef &item : items)
    item = item.trim("[]'\" ");
  return items;
}

std::string mpc::onnx_frontend::countOthers(size_t count) {
  return count > 1 ? " (and " + std::to_string(count - 1) + " more like it)"
                   : "";
}
