// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/ELFAppender.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

#include <xxhash.h>

using namespace mpc;
using llvm::ELF::Elf64_Ehdr;
using llvm::ELF::Elf64_Shdr;

namespace {
/// Writes bytes to a stream and computes their hash.
class HashingStream {
public:
  explicit HashingStream(llvm::raw_ostream &out)
      : out(out), state(XXH3_createState()) {
    XXH3_64bits_reset(state);
  }
  HashingStream(const HashingStream &) = delete;
  ~HashingStream() { XXH3_freeState(state); }

  void write(llvm::StringRef bytes) {
    XXH3_64bits_update(state, bytes.data(), bytes.size());
    out << bytes;
    written += bytes.size();
  }

  /// Writes zeros up to `offset` in the file.
  void padTo(uint64_t offset) {
    assert(offset >= written && "sections overlap");
    std::string zeros(offset - written, '\0');
    write(zeros);
  }

  /// Returns the hash of the written bytes followed by `bytes`.
  uint64_t finish(llvm::StringRef bytes) {
    XXH3_64bits_update(state, bytes.data(), bytes.size());
    return XXH3_64bits_digest(state);
  }

private:
  llvm::raw_ostream &out;
  XXH3_state_t *state;
  uint64_t written = 0;
};
} // namespace

static uint64_t sizeOf(llvm::ArrayRef<SectionPiece> pieces) {
  uint64_t bytes = 0;
  for (const SectionPiece &piece : pieces)
    bytes += piece.bytes.size() * piece.repeat;
  return bytes;
}

/// Writes a piece with all repetitions, in blocks of about 64 KiB instead of
/// one repetition at a time.
static void writePiece(const SectionPiece &piece, HashingStream &out) {
  constexpr uint64_t kBlockBytes = 1 << 16;
  if (piece.repeat == 1)
    return out.write(piece.bytes);
  uint64_t size = std::max<uint64_t>(piece.bytes.size(), 1);
  uint64_t atOnce =
      std::min(piece.repeat, std::max<uint64_t>(kBlockBytes / size, 1));
  std::string block;
  for (uint64_t i = 0; i < atOnce; ++i)
    block += piece.bytes;
  for (uint64_t rest = piece.repeat; rest > 0;) {
    uint64_t copies = std::min(rest, atOnce);
    out.write(llvm::StringRef(block).take_front(copies * size));
    rest -= copies;
  }
}

template <typename T>
static llvm::StringRef bytesOf(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof(T)};
}

namespace {
/// The headers of the file to write: those of the linked file, plus those of
/// the new sections.
class FileLayout {
public:
  llvm::Error read(llvm::StringRef elf);
  llvm::Error add(llvm::StringRef name, uint64_t bytes, uint64_t alignment);
  void finish();

  Elf64_Ehdr header;
  llvm::SmallVector<Elf64_Shdr> table;
  /// The names of all sections, each with a terminating zero.
  std::string names;
  /// The end of the file as laid out so far.
  uint64_t end = 0;
};
} // namespace

llvm::Error FileLayout::read(llvm::StringRef elf) {
  auto file = llvm::object::ELFFile<llvm::object::ELF64LE>::create(elf);
  if (!file)
    return file.takeError();
  // This call checks that the section table lies within the file.
  auto sections = file->sections();
  if (!sections)
    return sections.takeError();
  auto nameTable = file->getSectionStringTable(*sections);
  if (!nameTable)
    return nameTable.takeError();
  names = nameTable->str();
  if (names.empty() || names.back() != '\0')
    names += '\0';
  std::memcpy(&header, elf.data(), sizeof(header));
  table.resize(sections->size());
  std::memcpy(table.data(), sections->data(),
              table.size() * sizeof(Elf64_Shdr));
  end = elf.size();
  return llvm::Error::success();
}

llvm::Error FileLayout::add(llvm::StringRef name, uint64_t bytes,
                            uint64_t alignment) {
  for (const Elf64_Shdr &section : table)
    if (llvm::StringRef(names.c_str() + section.sh_name) == name)
      return llvm::createStringError("the file has a section '%s' already",
                                     name.str().c_str());
  Elf64_Shdr section = {};
  section.sh_name = names.size();
  section.sh_type = llvm::ELF::SHT_PROGBITS;
  section.sh_offset = llvm::alignTo(end, alignment);
  section.sh_size = bytes;
  section.sh_addralign = alignment;
  table.push_back(section);
  names += name;
  names += '\0';
  end = section.sh_offset + section.sh_size;
  return llvm::Error::success();
}

/// Assigns offsets behind the new sections: first the section names, then the
/// section table, then the digest.
void FileLayout::finish() {
  Elf64_Shdr &nameTable = table[header.e_shstrndx];
  nameTable.sh_offset = table.back().sh_offset;
  nameTable.sh_size = names.size();
  header.e_shoff =
      llvm::alignTo(nameTable.sh_offset + names.size(), alignof(Elf64_Shdr));
  header.e_shnum = table.size();
  table.back().sh_offset = header.e_shoff + table.size() * sizeof(Elf64_Shdr);
}

llvm::Error mpc::appendSections(llvm::StringRef elf,
                                llvm::ArrayRef<AppendedSection> sections,
                                llvm::StringRef digestName,
                                llvm::raw_ostream &out) {
  // Compute all offsets first: the header comes before all sections.
  FileLayout layout;
  if (llvm::Error error = layout.read(elf))
    return error;
  for (const AppendedSection &section : sections)
    if (llvm::Error error =
            layout.add(section.name, sizeOf(section.pieces), section.alignment))
      return error;
  if (llvm::Error error = layout.add(digestName, sizeof(uint64_t), 1))
    return error;
  layout.finish();

  // Write the linked file with the new ELF header in place of the old one.
  HashingStream stream(out);
  stream.write(bytesOf(layout.header));
  stream.write(elf.drop_front(sizeof(layout.header)));
  // The table ends with the headers of `sections`, followed by the digest's
  // header.
  llvm::ArrayRef<Elf64_Shdr> headers = layout.table;
  headers = headers.drop_back().take_back(sections.size());
  for (auto [section, header] : llvm::zip_equal(sections, headers)) {
    stream.padTo(header.sh_offset);
    for (const SectionPiece &piece : section.pieces)
      writePiece(piece, stream);
  }
  // The digest comes last, because it covers everything before it.
  stream.write(layout.names);
  stream.padTo(layout.header.e_shoff);
  for (const Elf64_Shdr &header : layout.table)
    stream.write(bytesOf(header));
  char digest[sizeof(uint64_t)] = {};
  llvm::support::endian::write64le(
      digest, stream.finish(llvm::StringRef(digest, sizeof(digest))));
  out << llvm::StringRef(digest, sizeof(digest));
  return llvm::Error::success();
}
