// Plan, data and digest become sections of an object file, which lld links with
// the kernels' object to an ELF shared object.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/ArtifactWriter.h"

#include "compiler/Target/Code.h"
#include "compiler/Target/TemporaryFile.h"
#include "runtime/ArtifactFormat.h"

#include "lld/Common/Driver.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
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
  if (!target.isGPU())
    return emitObject(module, target);
  // Readers of PTX look for its end.
  addSection(module, format::kPTXSection, parts.kernels.str() + '\0');
  if (!parts.cubin.empty())
    addSection(module, format::kCubinSection, parts.cubin);
  // Any machine's file would do: there is no text in it.
  auto host = TargetInfo::get("x86-64");
  if (!host)
    return host.takeError();
  return emitObject(module, *host);
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

static llvm::Error runLinker(llvm::ArrayRef<const char *> inputs,
                             TemporaryFile &output) {
  llvm::SmallVector<const char *> args = {
      "ld.lld",           "-shared",         "-Bsymbolic",
      "--hash-style=gnu", "--build-id=none", "--threads=1",
      "-znoexecstack",    "-znow",           "-o",
      output.c_str()};
  args.append(inputs.begin(), inputs.end());
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

/// The linked file, its digest still zero.
static llvm::Expected<std::string> linkFiles(const ArtifactParts &parts,
                                             llvm::StringRef sectionBytes,
                                             const TargetInfo &target) {
  TemporaryFile kernels, sections, output;
  llvm::SmallVector<const char *> inputs;
  if (!target.isGPU()) {
    if (llvm::Error error = kernels.create("o", parts.kernels))
      return error;
    inputs.push_back(kernels.c_str());
  }
  if (llvm::Error error = sections.create("o", sectionBytes))
    return error;
  inputs.push_back(sections.c_str());
  if (llvm::Error error = output.create("mpc", ""))
    return error;
  if (llvm::Error error = runLinker(inputs, output))
    return error;
  return output.read();
}

llvm::Expected<std::string> mpc::linkArtifact(const ArtifactParts &parts,
                                              const TargetInfo &target) {
  if (!target.isGPU())
    if (llvm::Error error = checkSymbols(parts.kernels))
      return error;
  auto sections = createSections(parts, target);
  if (!sections)
    return sections.takeError();
  auto linked = linkFiles(parts, *sections, target);
  if (!linked)
    return linked.takeError();
  std::string bytes = std::move(*linked);
  auto digest = findDigest(bytes);
  if (!digest)
    return digest.takeError();
  uint64_t hash = llvm::xxh3_64bits(bytes);
  llvm::support::endian::write64le(&bytes[*digest], hash);
  return bytes;
}

// Writes and closes `fd`; a failure is an error here and not, as by default,
// the end of the process.
static llvm::Error writeAndClose(int fd, llvm::StringRef bytes) {
  llvm::raw_fd_ostream out(fd, /*shouldClose=*/true);
  out << bytes;
  out.close();
  std::error_code error = out.error();
  out.clear_error();
  return llvm::errorCodeToError(error);
}

// A pipe or a device cannot be replaced, only written to.
static bool isSpecial(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  return !llvm::sys::fs::status(path, status) &&
         llvm::sys::fs::exists(status) &&
         !llvm::sys::fs::is_regular_file(status) &&
         !llvm::sys::fs::is_directory(status);
}

llvm::Error mpc::writeFileAtomically(llvm::StringRef path,
                                     llvm::StringRef bytes) {
  int fd = -1;
  if (isSpecial(path)) {
    if (std::error_code error = llvm::sys::fs::openFileForWrite(
            path, fd, llvm::sys::fs::CD_OpenExisting))
      return llvm::errorCodeToError(error);
    return writeAndClose(fd, bytes);
  }
  llvm::SmallString<128> temporary;
  if (std::error_code error = llvm::sys::fs::createUniqueFile(
          path + ".tmp-%%%%%%%%", fd, temporary, llvm::sys::fs::OF_None,
          llvm::sys::fs::all_read | llvm::sys::fs::all_write))
    return llvm::errorCodeToError(error);
  llvm::Error error = writeAndClose(fd, bytes);
  if (!error)
    error = llvm::errorCodeToError(llvm::sys::fs::rename(temporary, path));
  if (error)
    llvm::sys::fs::remove(temporary);
  return error;
}
