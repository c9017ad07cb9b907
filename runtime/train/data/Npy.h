// NumPy's .npy: one array with a header that is a Python literal.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_NPY_H
#define MPC_RUNTIME_TRAIN_DATA_NPY_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <memory>
#include <string>

namespace mpc::runtime::train {

/// The array in [data, data + size), which `owner` keeps alive. Little-endian
/// C order is used in place; big-endian and Fortran order are converted.
/// `where` (a file, or an archive's member) opens every message.
StatusOr<Array> parseNpy(const std::byte *data, size_t size,
                         std::shared_ptr<const void> owner,
                         const std::string &where);

/// The bytes that parseNpy reads to know type and shape, at most.
inline constexpr size_t kMaxNpyHeader = 65536 + 12;

/// The array of a file of `size` bytes without its values, of which the first
/// kMaxNpyHeader are in [data, data + present), or all there are.
StatusOr<Array> parseNpyHeader(const std::byte *data, size_t present,
                               size_t size, const std::string &where);

/// Whether the bytes begin as a .npy file does.
bool looksLikeNpy(const std::byte *data, size_t size);

/// The header of `array` as it stands before its bytes in a .npy file. bf16 has
/// no name in NumPy: Unsupported.
StatusOr<std::string> npyHeader(const Array &array);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_NPY_H
