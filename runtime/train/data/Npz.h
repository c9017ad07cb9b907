// Reads and writes NumPy's .npz: a zip archive of .npy members.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_NPZ_H
#define MPC_RUNTIME_TRAIN_DATA_NPZ_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// True if the bytes begin like a zip archive.
bool looksLikeZip(const std::byte *data, size_t size);

/// Parses the archive in [data, data + size), which `owner` keeps alive. Each
/// .npy member becomes an array, called like the member without ".npy".
/// Decompresses only headers; values stay packed until they are used. Refuses
/// an archive whose members claim more than `maxBytes` in all, or more than
/// their compressed bytes can hold.
StatusOr<std::vector<Array>> parseNpz(const std::byte *data, size_t size,
                                      std::shared_ptr<const void> owner,
                                      const std::string &where,
                                      uint64_t maxBytes);

/// An array of strings. Bytes that are not UTF-8 become U+FFFD.
struct TextArray {
  std::string name;
  std::vector<std::string> texts;
};

/// Returns an archive of `arrays`, stored without compression. `texts` become
/// members that NumPy reads as arrays of strings, and parseNpz does not read.
StatusOr<std::string> packNpz(const std::vector<Array> &arrays,
                              const std::vector<TextArray> &texts = {});

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_NPZ_H
