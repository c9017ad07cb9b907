// Reads and writes NumPy's .npy format: a header, which is a Python literal,
// and then one array.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_NPY_H
#define MPC_RUNTIME_TRAIN_DATA_NPY_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// Parses the array in [data, data + size), which `owner` keeps alive. Uses
/// little-endian elements in C order in place; converts big-endian elements and
/// Fortran order to a copy. Elements that are no numbers, such as text, give an
/// array with a fault. `where` begins every message: a file, or a member of an
/// archive.
StatusOr<Array> parseNpy(const std::byte *data, size_t size,
                         std::shared_ptr<const void> owner,
                         const std::string &where);

/// The largest number of bytes that parseNpy reads for the header.
inline constexpr size_t kMaxNpyHeader = 65536 + 12;

/// Parses only the header of a file of `size` bytes. [data, data + present)
/// holds its first kMaxNpyHeader bytes, or all of a shorter file.
StatusOr<Array> parseNpyHeader(const std::byte *data, size_t present,
                               size_t size, const std::string &where);

/// True if the bytes begin like a .npy file.
bool looksLikeNpy(const std::byte *data, size_t size);

/// Returns a .npy file with an array [N] of strings, in UTF-32 of equal length.
std::string packTexts(const std::vector<std::string> &texts);

/// Returns the header of a .npy file for `array`. Unsupported for bf16, which
/// NumPy does not have.
StatusOr<std::string> npyHeader(const Array &array);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_NPY_H
