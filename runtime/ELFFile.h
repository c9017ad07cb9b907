// Finds the sections of an ELF64 file in memory. Every offset and size is
// checked against the file size, so untrusted files are safe.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_ELFFILE_H
#define MPC_RUNTIME_ELFFILE_H

#include "runtime/Status.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace mpc::runtime {

struct ELFSection {
  std::string_view name; ///< points into the file
  size_t offset = 0;     ///< bytes from the start of the file
  size_t bytes = 0;
};

/// Returns the sections that have bytes in the file. InvalidInput if the file
/// is no complete little-endian ELF64 shared object for x86-64.
StatusOr<std::vector<ELFSection>> readELFSections(const std::byte *file,
                                                  size_t size);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_ELFFILE_H
