// Tests sections behind the loaded segments: of any size, found by the runtime,
// and covered by a digest of the whole file.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/ELFAppender.h"
#include "compiler/Artifact/ArtifactWriter.h"
#include "runtime/Artifact.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/ELFFile.h"

#include "llvm/BinaryFormat/ELF.h"

#include <cstring>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace mpc;

namespace {

/// A shared object without code, and with only the section of section names.
std::string emptyObject() {
  const llvm::StringRef names("\0.shstrtab\0", 11);
  llvm::ELF::Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, llvm::ELF::ElfMagic, 4);
  header.e_ident[llvm::ELF::EI_CLASS] = llvm::ELF::ELFCLASS64;
  header.e_ident[llvm::ELF::EI_DATA] = llvm::ELF::ELFDATA2LSB;
  header.e_type = llvm::ELF::ET_DYN;
  header.e_machine = llvm::ELF::EM_X86_64;
  header.e_shentsize = sizeof(llvm::ELF::Elf64_Shdr);
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  header.e_shoff = 80;
  llvm::ELF::Elf64_Shdr table[2] = {};
  table[1].sh_name = 1;
  table[1].sh_type = llvm::ELF::SHT_STRTAB;
  table[1].sh_offset = sizeof(header);
  table[1].sh_size = names.size();
  std::string file(reinterpret_cast<const char *>(&header), sizeof(header));
  file += names;
  file.resize(header.e_shoff);
  return file.append(reinterpret_cast<const char *>(table), sizeof(table));
}

/// A stream into a file, where blocks of zeros become holes.
class SparseStream : public llvm::raw_ostream {
public:
  explicit SparseStream(int descriptor) : descriptor(descriptor) {
    SetUnbuffered();
  }
  bool failed = false;

private:
  void write_impl(const char *bytes, size_t size) override {
    bool isZero = std::all_of(bytes, bytes + size, [](char c) { return !c; });
    if (!isZero &&
        pwrite(descriptor, bytes, size, position) != static_cast<ssize_t>(size))
      failed = true;
    position += static_cast<off_t>(size);
    if (ftruncate(descriptor, position) != 0)
      failed = true;
  }
  uint64_t current_pos() const override {
    return static_cast<uint64_t>(position);
  }

  int descriptor;
  off_t position = 0;
};

std::string append(llvm::StringRef elf,
                   llvm::ArrayRef<AppendedSection> sections) {
  std::string bytes;
  llvm::raw_string_ostream out(bytes);
  if (llvm::Error error = appendSections(elf, sections, ".digest", out))
    return "error: " + llvm::toString(std::move(error));
  return bytes;
}

/// The bytes of a section.
std::string contentOf(const std::string &file, std::string_view name) {
  auto sections = runtime::readELFSections(
      reinterpret_cast<const std::byte *>(file.data()), file.size());
  EXPECT_TRUE(sections.ok()) << sections.status().message();
  for (const runtime::ELFSection &section : *sections)
    if (section.name == name)
      return file.substr(section.offset, section.bytes);
  return "none";
}

TEST(ELFAppender, AppendsPiecesOneAfterAnother) {
  SectionPiece first[] = {{"one "}, {"two ", 2}, {""}, {"three"}};
  SectionPiece second[] = {{"x", 200'000}};
  std::string file =
      append(emptyObject(), {{".first", first}, {".second", second}});
  EXPECT_EQ(contentOf(file, ".first"), "one two two three");
  EXPECT_EQ(contentOf(file, ".second"), std::string(200'000, 'x'));
  EXPECT_EQ(contentOf(file, ".digest").size(), 8u);
  EXPECT_EQ(contentOf(file, ".digest"), file.substr(file.size() - 8));
}

TEST(ELFAppender, AlignsSectionsInTheFile) {
  SectionPiece odd[] = {{"odd"}}, aligned[] = {{"aligned"}};
  std::string file =
      append(emptyObject(), {{".odd", odd}, {".aligned", aligned, 4096}});
  EXPECT_EQ(file.find("aligned", file.find("odd")) % 4096, 0u);
}

TEST(ELFAppender, RefusesASecondSectionOfOneName) {
  SectionPiece piece[] = {{"x"}};
  EXPECT_EQ(append(emptyObject(), {{".a", piece}, {".a", piece}}),
            "error: the file has a section '.a' already");
}

TEST(ELFAppender, RefusesWhatIsNoELFFile) {
  EXPECT_EQ(append("text", {}).substr(0, 6), "error:");
  // A truncated section table.
  EXPECT_EQ(append(llvm::StringRef(emptyObject()).drop_back(), {}).substr(0, 6),
            "error:");
}

// Sections, offsets and pieces exceed 32 bits. The file is sparse and takes a
// few blocks of disk.
TEST(ELFAppender, SectionsMayHaveFiveGigabytes) {
  constexpr int64_t gigabytes = 5, block = 1 << 16;
  constexpr int64_t bytes = gigabytes << 30;
  std::string zeros(block, '\0');
  SectionPiece plan[] = {{R"({"format": 2, "producer": "test",
    "model": {"name": "m", "hash": "h", "opset": 17}, "precision": "32-true",
    "recipe": {}, "target": {"triple": "x86_64-unknown-linux-gnu",
    "cpu": "x86-64", "features": []}, "constant_bytes": 64,
    "state": [{"name": "w", "role": "parameter", "type": "f32", "shape": [2],
    "init": {"offset": 5368709120, "bytes": 8}}], "functions": {}, "kernels": {}})"}};
  SectionPiece data[] = {{zeros, bytes / block}, {"the end."}};
  auto file = writeUnnamedFile(
      [](llvm::raw_ostream &) { return llvm::Error::success(); });
  ASSERT_TRUE(static_cast<bool>(file)) << llvm::toString(file.takeError());
  SparseStream out(*file);
  ASSERT_FALSE(appendSections(
      emptyObject(),
      {{format::kPlanSection, plan, 64}, {format::kDataSection, data, 64}},
      format::kDigestSection, out));
  ASSERT_FALSE(out.failed);

  auto artifact = runtime::Artifact::fromDescriptor(*file, "large");
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->dataBytes(), static_cast<size_t>(bytes) + 8);
  EXPECT_EQ(std::memcmp((*artifact)->data() + bytes, "the end.", 8), 0);
}

} // namespace
