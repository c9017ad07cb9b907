// The safetensors format: a JSON header with offsets, then the bytes.
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

/// What the format has beside tensors, which none can be called.
inline constexpr char kMetadataName[] = "__metadata__";

/// Whether the bytes can be a safetensors file: a header length that fits,
/// followed by '{'.
bool looksLikeSafeTensors(const std::byte *data, size_t size);

/// The tensors in [data, data + size), in place; `owner` keeps the bytes alive.
/// All rules of the format hold afterwards: no duplicate names, sizes that are
/// shape times type, offsets that cover the rest of the file without a hole or
/// an overlap.
StatusOr<std::vector<Array>> parseSafeTensors(const std::byte *data,
                                              size_t size,
                                              std::shared_ptr<const void> owner,
                                              const std::string &where);

/// A file of `arrays`, ready to be written: the header, and the arrays in the
/// order in which their bytes follow (widest type first, then by name, so that
/// every tensor is aligned).
struct SafeTensorsLayout {
  std::string header;
  std::vector<const Array *> order;
};

StatusOr<SafeTensorsLayout>
layOutSafeTensors(const std::vector<Array> &arrays,
                  const std::map<std::string, std::string> &metadata = {});

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_SAFETENSORS_H
