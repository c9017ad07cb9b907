// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/OutputFile.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/SafeTensors.h"
#include "tools/mpc/print/OutputTable.h"

#include "llvm/ADT/StringRef.h"

#include <map>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using runtime::train::Array;

static Status writeSafeTensors(const std::string &file,
                               const std::vector<Array> &arrays,
                               const std::vector<train::TextArray> &texts) {
  std::map<std::string, std::string> metadata;
  for (const train::TextArray &each : texts)
    metadata[each.name] = textOf(nlohmann::json(each.texts));
  StatusOr<train::SafeTensorsLayout> layout =
      train::layOutSafeTensors(arrays, metadata);
  if (!layout.ok())
    return layout.status();
  std::vector<std::string_view> chunks{layout->header};
  for (const Array *array : layout->order)
    chunks.emplace_back(reinterpret_cast<const char *>(array->data),
                        size_t(array->bytes()));
  return train::replaceFile(file, chunks);
}

Status mpc::tools::writeOutputs(const std::string &file,
                                const std::vector<Array> &arrays,
                                const std::vector<train::TextArray> &texts) {
  const llvm::StringRef name(file);
  if (isTable(file))
    return writeTable(file, arrays, texts);
  if (!texts.empty() && name.ends_with(".safetensors"))
    return writeSafeTensors(file, arrays, texts);
  if (texts.empty() || !name.ends_with(".npz"))
    return train::writeArrays(file, arrays);
  StatusOr<std::string> bytes = train::packNpz(arrays, texts);
  return bytes.ok() ? train::replaceFile(file, {*bytes}) : bytes.status();
}
