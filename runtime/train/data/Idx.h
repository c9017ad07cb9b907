// Reads idx files, the format of MNIST and of data sets that replace it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_IDX_H
#define MPC_RUNTIME_TRAIN_DATA_IDX_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <memory>
#include <string>

namespace mpc::runtime::train {

/// True if the bytes begin like an idx file: two zeros, a type and a rank.
bool looksLikeIdx(const std::byte *data, size_t size);

/// Parses the array in [data, data + size), which `owner` keeps alive. Uses
/// elements of one byte in place; converts others, which are big-endian, to a
/// copy. `where` begins every message.
StatusOr<Array> parseIdx(const std::byte *data, size_t size,
                         std::shared_ptr<const void> owner,
                         const std::string &where);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_IDX_H
