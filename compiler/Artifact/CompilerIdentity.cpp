// Compile this file alone: the macros of the system's <elf.h> clash with LLVM's
// ELF constants.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/CompilerIdentity.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Support/Path.h"

#include <cstring>
#include <link.h>

using namespace mpc;

// Returns the build ID among `notes`, the ELF notes of a loaded file; empty if
// there is none.
static llvm::StringRef findBuildID(llvm::StringRef notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    notes = notes.drop_front(sizeof(header));
    size_t nameBytes = llvm::alignTo<4>(header.n_namesz);
    size_t bytes = llvm::alignTo<4>(header.n_descsz);
    if (nameBytes > notes.size() || bytes > notes.size() - nameBytes)
      return "";
    if (header.n_type == NT_GNU_BUILD_ID &&
        notes.take_front(header.n_namesz) == llvm::StringRef("GNU", 4))
      return notes.substr(nameBytes, header.n_descsz);
    notes = notes.drop_front(nameBytes + bytes);
  }
  return "";
}

// Callback of dl_iterate_phdr. If `file` is mpc, LLVM or MLIR, adds its build
// ID to `data`, a std::string. Clears `data` and ends the iteration if the file
// has no build ID.
static int addBuildID(dl_phdr_info *file, size_t, void *data) {
  auto &identity = *static_cast<std::string *>(data);
  llvm::StringRef name = llvm::sys::path::filename(file->dlpi_name);
  // The program itself has an empty name.
  bool compiles =
      name.empty() ? identity.empty()
                   : name.starts_with("libLLVM") || name.starts_with("libMLIR");
  if (!compiles)
    return 0;
  // The linker stores the ID as a note in a segment of the file.
  for (const ElfW(Phdr) & segment :
       llvm::ArrayRef(file->dlpi_phdr, file->dlpi_phnum)) {
    if (segment.p_type != PT_NOTE)
      continue;
    auto *notes =
        reinterpret_cast<const char *>(file->dlpi_addr + segment.p_vaddr);
    llvm::StringRef id = findBuildID({notes, segment.p_filesz});
    if (id.empty())
      continue;
    identity += llvm::toHex(id) + " ";
    return 0;
  }
  // A file without a build ID may change unnoticed. The empty identity then
  // switches the code cache off.
  identity.clear();
  return 1;
}

std::string mpc::identifyCompiler() {
  std::string identity;
  dl_iterate_phdr(addBuildID, &identity);
  return identity;
}
