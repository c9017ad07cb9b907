// Reads ELF64 section headers with bounds checks.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/ELFFile.h"

#include <cstring>
#include <elf.h>

namespace mpc::runtime {

static Status notAnArtifact(const char *why) {
  return Status(StatusCode::InvalidInput,
                std::string("not a .mpc artifact: ") + why);
}

/// True if [offset, offset + bytes) lies within `size` bytes.
static bool inBounds(size_t offset, size_t bytes, size_t size) {
  return offset <= size && bytes <= size - offset;
}

static Status checkHeader(const Elf64_Ehdr &header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return notAnArtifact("it does not start as an ELF file does");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN)
    return notAnArtifact("it is not a little-endian ELF64 shared object");
  if (header.e_machine != EM_X86_64)
    return notAnArtifact("it is not for x86-64");
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0 ||
      header.e_shstrndx >= header.e_shnum)
    return notAnArtifact("it has no section table");
  return Status();
}

StatusOr<std::vector<ELFSection>> readELFSections(const std::byte *file,
                                                  size_t size) {
  Elf64_Ehdr header;
  if (size < sizeof(header))
    return notAnArtifact("it is shorter than an ELF header");
  std::memcpy(&header, file, sizeof(header));
  if (Status status = checkHeader(header); !status.ok())
    return status;

  size_t tableBytes = header.e_shnum * sizeof(Elf64_Shdr);
  if (!inBounds(header.e_shoff, tableBytes, size))
    return notAnArtifact("its section table is cut off");
  std::vector<Elf64_Shdr> table(header.e_shnum);
  std::memcpy(table.data(), file + header.e_shoff, tableBytes);

  const Elf64_Shdr &names = table[header.e_shstrndx];
  if (names.sh_type != SHT_STRTAB ||
      !inBounds(names.sh_offset, names.sh_size, size))
    return notAnArtifact("its section names are cut off");
  std::string_view nameTable(
      reinterpret_cast<const char *>(file + names.sh_offset), names.sh_size);

  // Every number of the file is compared with the file's size before use.
  std::vector<ELFSection> sections;
  for (const Elf64_Shdr &section : table) {
    if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS)
      continue;
    if (!inBounds(section.sh_offset, section.sh_size, size))
      return notAnArtifact("a section is cut off");
    if (section.sh_name >= nameTable.size())
      return notAnArtifact("a section's name lies outside the name table");
    std::string_view name = nameTable.substr(section.sh_name);
    size_t end = name.find('\0');
    if (end == std::string_view::npos)
      return notAnArtifact("a section's name does not end");
    sections.push_back(
        {name.substr(0, end), section.sh_offset, section.sh_size});
  }
  return sections;
}

} // namespace mpc::runtime
