// NumPy's .npz: a zip archive of .npy members.
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

/// Whether the bytes begin as a zip archive does.
bool looksLikeZip(const std::byte *data, size_t size);

/// The members of the archive in [data, data + size), which `owner` keeps
/// alive, named without ".npy". They stay packed: only headers are inflated,
/// and the values of those that are used. An archive that claims more than
/// `maxBytes` for all members, or more than its compressed bytes can hold, is
/// refused before that.
StatusOr<std::vector<Array>> parseNpz(const std::byte *data, size_t size,
                                      std::shared_ptr<const void> owner,
                                      const std::string &where,
                                      uint64_t maxBytes);

/// The bytes of an archive of `arrays`, stored without compression.
StatusOr<std::string> packNpz(const std::vector<Array> &arrays);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_NPZ_H
