// Appends sections to a linked ELF file that nothing loads: weights, a GPU's
// code, descriptions.
//
// A linker places what is loaded near the code that reads it, within 2 GiB; and
// holds it in memory, several times. Sections without SHF_ALLOC lie behind
// everything that is loaded, may have any size, and are written straight from
// where they are. readelf, objdump and objcopy --dump-section find them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_ELFAPPENDER_H
#define MPC_COMPILER_ARTIFACT_ELFAPPENDER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace mpc {

/// Bytes of a section, `repeat` times one after another: {"\0", 52} pads.
struct SectionPiece {
  llvm::StringRef bytes;
  uint64_t repeat = 1;
};

/// A section: its pieces one after another.
struct AppendedSection {
  llvm::StringRef name;
  llvm::ArrayRef<SectionPiece> pieces;
  /// Of its offset in the file, a power of two.
  uint64_t alignment = 1;
};

/// Writes `elf`, a 64-bit little-endian file, with `sections` behind its own.
/// The last section of the file is `digestName`: the XXH3-64 of the whole file
/// with its own eight bytes taken as zero, little-endian. They are the file's
/// last bytes, so `out` need not be seekable.
///
/// Fails where `elf` is no such file, or has a section of one of these names;
/// whether `out` could be written is for its owner to ask.
llvm::Error appendSections(llvm::StringRef elf,
                           llvm::ArrayRef<AppendedSection> sections,
                           llvm::StringRef digestName, llvm::raw_ostream &out);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_ELFAPPENDER_H
