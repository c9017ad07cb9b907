// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/KernelCode.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mpc;

//===----------------------------------------------------------------------===//
// Object files
//===----------------------------------------------------------------------===//

/// Renames the function `kAnonymousKernel` in the symbol table of the kernel's
/// object file to the kernel's own name.
static llvm::Expected<std::string> nameKernel(const KernelCode &kernel) {
  auto object = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(kernel.code, kernel.name));
  if (!object)
    return object.takeError();
  llvm::objcopy::ConfigManager config;
  config.Common.SymbolsToRename[kAnonymousKernel] = kernel.name;
  std::string renamed;
  llvm::raw_string_ostream out(renamed);
  if (llvm::Error error =
          llvm::objcopy::executeObjcopyOnBinary(config, **object, out))
    return error;
  return renamed;
}

llvm::Expected<std::string>
mpc::joinObjects(llvm::ArrayRef<KernelCode> kernels) {
  std::vector<std::string> objects;
  for (const KernelCode &kernel : kernels) {
    auto object = nameKernel(kernel);
    if (!object)
      return object.takeError();
    objects.push_back(std::move(*object));
  }
  std::vector<llvm::NewArchiveMember> members;
  for (auto [kernel, object] : llvm::zip_equal(kernels, objects))
    members.emplace_back(llvm::MemoryBufferRef(object, kernel.name));
  auto archive = llvm::writeArchiveToBuffer(
      members, llvm::SymtabWritingMode::NormalSymtab,
      llvm::object::Archive::K_GNU, /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return archive.takeError();
  return (*archive)->getBuffer().str();
}

//===----------------------------------------------------------------------===//
// PTX
//===----------------------------------------------------------------------===//

/// Splits PTX into the preamble and the rest. The preamble ends with the line
/// .address_size:
///   .version 8.0
///   .target sm_80
///   .address_size 64
static std::pair<llvm::StringRef, llvm::StringRef>
splitPreamble(llvm::StringRef ptx) {
  size_t last = ptx.find("\n.address_size");
  size_t end = last == llvm::StringRef::npos ? last : ptx.find('\n', last + 1);
  if (end == llvm::StringRef::npos)
    return {"", ptx};
  return {ptx.take_front(end + 1), ptx.drop_front(end + 1)};
}

/// Appends `body`, a kernel's PTX without preamble, to `ptx`, under the
/// kernel's own name. Keeps a declaration (`.extern`, for a launch's shared
/// memory) only once for all kernels.
static void appendBody(llvm::StringRef body, llvm::StringRef name,
                       llvm::StringSet<> &declared, std::string &ptx) {
  while (!body.empty()) {
    auto [line, rest] = body.split('\n');
    body = rest;
    if (line.starts_with(".extern") && !declared.insert(line).second)
      continue;
    // The PTX names the kernel in several places, also as a prefix of its
    // variables. Replace every occurrence.
    for (size_t at; (at = line.find(kAnonymousKernel)) != llvm::StringRef::npos;
         line = line.drop_front(at + kAnonymousKernel.size()))
      ptx += (line.take_front(at) + name).str();
    ptx += (line + "\n").str();
  }
}

llvm::Expected<std::string> mpc::joinPTX(llvm::ArrayRef<KernelCode> kernels) {
  std::string ptx;
  llvm::StringRef common;
  llvm::StringSet<> declared;
  for (const KernelCode &kernel : kernels) {
    auto [preamble, body] = splitPreamble(kernel.code);
    if (ptx.empty())
      ptx = (common = preamble).str();
    else if (preamble != common)
      return llvm::createStringError("the kernel '%s' is of another version "
                                     "of PTX than those before it",
                                     kernel.name.c_str());
    appendBody(body, kernel.name, declared, ptx);
  }
  return ptx;
}
