// Decompresses gzip files.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_GZIP_H
#define MPC_RUNTIME_TRAIN_SUPPORT_GZIP_H

#include "runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// True if the bytes begin like a gzip file.
bool looksLikeGzip(const std::byte *data, size_t size);

/// Decompresses the gzip file in [data, data + size), which may have several
/// members, as `cat` makes. InvalidInput if the file is damaged, has bytes
/// behind the last member, or has more than `maxBytes` bytes of contents.
/// `where` begins every message.
StatusOr<std::shared_ptr<const std::vector<std::byte>>>
unpackGzip(const std::byte *data, size_t size, uint64_t maxBytes,
           const std::string &where);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_GZIP_H
