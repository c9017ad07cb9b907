// Appends sections to a linked ELF file that the loader does not load: weights,
// a GPU's code, descriptions.
//
// A linker would place these bytes within 2 GiB of the code that reads them,
// and hold several copies in memory. Sections without SHF_ALLOC come after all
// loaded sections, may have any size, and are written without a copy. readelf,
// objdump and objcopy --dump-section find them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_ELFAPPENDER_H
#define MPC_COMPILER_ARTIFACT_ELFAPPENDER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace mpc {

/// A piece of a section: `bytes`, written `repeat` times. {"\0", 52} is 52
/// bytes of padding.
struct SectionPiece {
  llvm::StringRef bytes;
  uint64_t repeat = 1;
};

/// A section to append, as pieces that are written one after the other.
struct AppendedSection {
  llvm::StringRef name;
  llvm::ArrayRef<SectionPiece> pieces;
  /// The alignment in bytes of the section's offset in the file, a power of
  /// two.
  uint64_t alignment = 1;
};

/// Writes `elf`, a 64-bit little-endian file, with `sections` appended. The
/// last section, `digestName`, holds the little-endian XXH3-64 of the whole
/// file, computed with zeros in place of the digest. The digest is the end of
/// the file, so `out` need not be seekable.
///
/// Fails if `elf` is another kind of file, or already has a section with a new
/// name. The owner of `out` must check for write errors.
llvm::Error appendSections(llvm::StringRef elf,
                           llvm::ArrayRef<AppendedSection> sections,
                           llvm::StringRef digestName, llvm::raw_ostream &out);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_ELFAPPENDER_H
