// Reads and writes the safetensors format: a JSON header with offsets, then the
// bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_SAFETENSORS_H
#define MPC_RUNTIME_TRAIN_DATA_SAFETENSORS_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// The key that the format reserves for metadata. No tensor may have this name.
inline constexpr char kMetadataName[] = "__metadata__";

/// True if the bytes can be a safetensors file: a header length that fits,
/// followed by '{'.
bool looksLikeSafeTensors(const std::byte *data, size_t size);

/// Parses the tensors in [data, data + size) in place; `owner` keeps the bytes
/// alive. InvalidInput unless the file follows all rules of the format. No two
/// tensors share a name, the size of a tensor is that of its shape and type,
/// and the tensors cover the rest of the file without holes or overlaps.
StatusOr<std::vector<Array>> parseSafeTensors(const std::byte *data,
                                              size_t size,
                                              std::shared_ptr<const void> owner,
                                              const std::string &where);

/// A file of `arrays`, ready to be written: the header, then the arrays in the
/// order `order`. Arrays with the widest types come first, so that every tensor
/// is aligned; equally wide ones are sorted by name.
struct SafeTensorsLayout {
  std::string header;
  std::vector<const Array *> order;
};

StatusOr<SafeTensorsLayout>
layOutSafeTensors(const std::vector<Array> &arrays,
                  const std::map<std::string, std::string> &metadata = {});

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_SAFETENSORS_H
