// Plan, data and digest become sections of an object file, which lld links with
// the kernels' object to an ELF shared object.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/ArtifactWriter.h"

#include "compiler/Target/CPU.h"
#include "runtime/ArtifactFormat.h"

#include "lld/Common/Driver.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"

LLD_HAS_DRIVER(elf)

using namespace mpc;

static constexpr size_t digestBytes = sizeof(uint64_t);

//===----------------------------------------------------------------------===//
// The object file of plan, data and digest
//===----------------------------------------------------------------------===//

static void addSection(llvm::Module &module, llvm::StringRef section,
                       llvm::StringRef bytes) {
  llvm::Constant *content = llvm::ConstantDataArray::getString(
      module.getContext(), bytes, /*AddNull=*/false);
  auto *variable =
      new llvm::GlobalVariable(module, content->getType(), /*isConstant=*/true,
                               llvm::GlobalValue::PrivateLinkage, content);
  variable->setSection(section);
  variable->setAlignment(llvm::Align(format::kDataAlignment));
}

static llvm::Expected<std::string> createSections(const ArtifactParts &parts,
                                                  const TargetInfo &target) {
  llvm::LLVMContext context;
  llvm::Module module("artifact", context);
  addSection(module, format::kPlanSection, parts.plan);
  addSection(module, format::kDataSection, parts.data);
  addSection(module, format::kDigestSection, std::string(digestBytes, '\0'));
  return emitObject(module, target);
}

//===----------------------------------------------------------------------===//
// Undefined symbols
//===----------------------------------------------------------------------===//

/// What kernels may call: functions of libm, libc and libgcc that are in every
/// process that runs one.
static bool isProvided(llvm::StringRef symbol) {
  static constexpr llvm::StringLiteral names[] = {
      "exp",    "exp2",    "expm1", "log",    "log1p",        "log2",
      "tanh",   "pow",     "powf",  "fma",    "fmaf",         "sqrt",
      "sqrtf",  "expf",    "logf",  "log1pf", "tanhf",        "memcpy",
      "memset", "memmove", "floor", "floorf", "__truncsfhf2", "__extendhfsf2"};
  return llvm::is_contained(names, symbol);
}

static llvm::Error checkSymbols(llvm::StringRef bytes) {
  auto object = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(bytes, "kernels"));
  if (!object)
    return object.takeError();
  for (const llvm::object::SymbolRef &symbol : (*object)->symbols()) {
    auto flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    auto name = symbol.getName();
    if (!name)
      return name.takeError();
    bool undefined = *flags & llvm::object::SymbolRef::SF_Undefined;
    if (undefined && !name->empty() && !isProvided(*name))
      return llvm::createStringError(
          "a kernel calls '%s', which the runtime does not provide",
          name->str().c_str());
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Linking
//===----------------------------------------------------------------------===//

namespace {
/// A file that is gone when this is.
class TemporaryFile {
public:
  TemporaryFile() = default;
  TemporaryFile(const TemporaryFile &) = delete;
  ~TemporaryFile() {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }

  llvm::Error create(llvm::StringRef suffix, llvm::StringRef bytes) {
    int descriptor;
    if (std::error_code code =
            llvm::sys::fs::createTemporaryFile("mpc", suffix, descriptor, path))
      return llvm::createStringError(code, "cannot create a temporary file: %s",
                                     code.message().c_str());
    llvm::raw_fd_ostream out(descriptor, /*shouldClose=*/true);
    out << bytes;
    out.close();
    if (std::error_code code = out.error()) {
      out.clear_error();
      return llvm::createStringError(code, "cannot write '%s': %s",
                                     path.c_str(), code.message().c_str());
    }
    return llvm::Error::success();
  }

  const char *c_str() { return path.c_str(); }

private:
  llvm::SmallString<128> path;
};
} // namespace

static llvm::Error runLinker(TemporaryFile &kernels, TemporaryFile &sections,
                             TemporaryFile &output) {
  const char *args[] = {
      "ld.lld",           "-shared",         "-Bsymbolic",
      "--hash-style=gnu", "--build-id=none", "--threads=1",
      "-znoexecstack",    "-znow",           "-o",
      output.c_str(),     kernels.c_str(),   sections.c_str()};
  std::string messages;
  llvm::raw_string_ostream out(messages);
  lld::Result result =
      lld::lldMain(args, out, out, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return llvm::createStringError("linking the artifact failed: %s",
                                   messages.c_str());
  return llvm::Error::success();
}

/// Where the digest's bytes are in the file.
static llvm::Expected<size_t> findDigest(llvm::StringRef bytes) {
  auto object = llvm::object::ELFFile<llvm::object::ELF64LE>::create(bytes);
  if (!object)
    return object.takeError();
  auto sections = object->sections();
  if (!sections)
    return sections.takeError();
  for (const auto &section : *sections) {
    auto name = object->getSectionName(section);
    if (!name)
      return name.takeError();
    if (*name == format::kDigestSection)
      return section.sh_offset;
  }
  return llvm::createStringError("the linker dropped the digest's section");
}

llvm::Expected<std::string> mpc::linkArtifact(const ArtifactParts &parts,
                                              const TargetInfo &target) {
  if (llvm::Error error = checkSymbols(parts.object))
    return error;
  auto sectionBytes = createSections(parts, target);
  if (!sectionBytes)
    return sectionBytes.takeError();
  TemporaryFile kernels, sections, output;
  if (llvm::Error error = kernels.create("o", parts.object))
    return error;
  if (llvm::Error error = sections.create("o", *sectionBytes))
    return error;
  if (llvm::Error error = output.create("mpc", ""))
    return error;
  if (llvm::Error error = runLinker(kernels, sections, output))
    return error;
  auto linked = llvm::MemoryBuffer::getFile(output.c_str());
  if (!linked)
    return llvm::createStringError(linked.getError(),
                                   "cannot read the linked artifact");
  std::string bytes = (*linked)->getBuffer().str();
  auto digest = findDigest(bytes);
  if (!digest)
    return digest.takeError();
  uint64_t hash = llvm::xxh3_64bits(bytes);
  llvm::support::endian::write64le(&bytes[*digest], hash);
  return bytes;
}

llvm::Error mpc::writeFileAtomically(llvm::StringRef path,
                                     llvm::StringRef bytes) {
  return llvm::writeToOutput(path, [&](llvm::raw_ostream &out) {
    out << bytes;
    return llvm::Error::success();
  });
}
