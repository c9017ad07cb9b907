// Reads and writes NumPy's .npy: one array after a header that is a Python
// literal.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_NPY_H
#define MPC_RUNTIME_TRAIN_DATA_NPY_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <memory>
#include <string>

namespace mpc::runtime::train {

/// Parses the array in [data, data + size), which `owner` keeps alive.
/// Little-endian C order is used in place; big-endian and Fortran order are
/// converted. `where` (a file, or a member of an archive) begins every message.
StatusOr<Array> parseNpy(const std::byte *data, size_t size,
                         std::shared_ptr<const void> owner,
                         const std::string &where);

/// The most bytes that parseNpy reads to find type and shape.
inline constexpr size_t kMaxNpyHeader = 65536 + 12;

/// Parses only the header of a file of `size` bytes. [data, data + present)
/// holds its first kMaxNpyHeader bytes, or all of a shorter file.
StatusOr<Array> parseNpyHeader(const std::byte *data, size_t present,
                               size_t size, const std::string &where);

/// True if the bytes begin like a .npy file.
bool looksLikeNpy(const std::byte *data, size_t size);

/// Returns the header of a .npy file for `array`. Unsupported for bf16, which
/// NumPy does not have.
StatusOr<std::string> npyHeader(const Array &array);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_NPY_H
