// Writes artifacts: links the kernels with lld to an ELF shared object, and
// appends plan, data and GPU code as further sections.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/ArtifactWriter.h"

#include "compiler/Artifact/Code.h"
#include "compiler/Artifact/TemporaryFile.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/NodesFormat.h"

#include "lld/Common/Driver.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/Archive.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace mpc;

//===----------------------------------------------------------------------===//
// Undefined symbols
//===----------------------------------------------------------------------===//

/// True for functions that kernels may call: functions of libm, libc and
/// libgcc, which every process that runs a kernel has. The list holds more than
/// Codegen emits, because LLVM replaces calls, such as powf(2, x) by exp2f(x).
static bool isProvided(llvm::StringRef symbol) {
  static constexpr llvm::StringLiteral names[] = {
      "memcpy", "memset", "memmove", "__truncsfhf2", "__extendhfsf2"};
  // The names of the double versions. A trailing f gives the float version:
  // expf.
  static constexpr llvm::StringLiteral functions[] = {
      "exp",       "exp2", "exp10", "expm1",  "log",  "log1p", "log2",  "tanh",
      "erf",       "pow",  "fma",   "sqrt",   "cbrt", "ldexp", "floor", "ceil",
      "roundeven", "sin",  "cos",   "sincos", "tan",  "asin",  "acos",  "atan",
      "sinh",      "cosh", "asinh", "acosh",  "atanh"};
  if (llvm::is_contained(names, symbol) ||
      llvm::is_contained(functions, symbol))
    return true;
  return symbol.consume_back("f") && llvm::is_contained(functions, symbol);
}

static llvm::Error checkSymbols(const llvm::object::ObjectFile &object) {
  for (const llvm::object::SymbolRef &symbol : object.symbols()) {
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

/// Fails if an object file, or a member of an archive of object files, calls a
/// function that the runtime does not provide.
static llvm::Error checkSymbols(llvm::StringRef bytes) {
  auto file = llvm::object::createBinary({bytes, "kernels"});
  if (!file)
    return file.takeError();
  if (auto *object = llvm::dyn_cast<llvm::object::ObjectFile>(file->get()))
    return checkSymbols(*object);
  llvm::Error error = llvm::Error::success();
  for (const llvm::object::Archive::Child &member :
       llvm::cast<llvm::object::Archive>(**file).children(error)) {
    auto object = member.getAsBinary();
    if (!object)
      return llvm::joinErrors(std::move(error), object.takeError());
    if (llvm::Error failure =
            checkSymbols(llvm::cast<llvm::object::ObjectFile>(**object)))
      return llvm::joinErrors(std::move(error), std::move(failure));
  }
  return error;
}

//===----------------------------------------------------------------------===//
// Linking
//===----------------------------------------------------------------------===//

/// Returns the system error, such as ENOSPC, that the linker's text output
/// names; inconvertible if the text names none.
static std::error_code findSystemError(llvm::StringRef messages) {
  for (int number :
       {ENOMEM, ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, EROFS, EACCES, EIO}) {
    std::error_code error(number, std::generic_category());
    if (messages.contains(error.message()))
      return error;
  }
  return llvm::inconvertibleErrorCode();
}

static llvm::Error runLinker(llvm::ArrayRef<const char *> inputs,
                             TemporaryFile &output) {
  // Link a shared object that binds its own symbols. Without a build ID and
  // with one thread, the bytes depend only on the inputs.
  llvm::SmallVector<const char *> args = {"ld.lld",
                                          "-shared",
                                          "-Bsymbolic",
                                          "--hash-style=gnu",
                                          "--build-id=none",
                                          "--threads=1",
                                          "-znoexecstack",
                                          "-znow",
                                          "-melf_x86_64",
                                          "--whole-archive",
                                          "-o",
                                          output.c_str()};
  args.append(inputs.begin(), inputs.end());
  std::string messages;
  llvm::raw_string_ostream out(messages);
  lld::Result result =
      lld::lldMain(args, out, out, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return llvm::createStringError(findSystemError(messages),
                                   "linking the artifact failed: %s",
                                   messages.c_str());
  return llvm::Error::success();
}

/// Creates an object file without kernels. An artifact for a GPU is linked from
/// this file, and its machine type does not matter: the GPU's code is a
/// section.
static llvm::Expected<std::string> createEmptyObject() {
  auto host = TargetInfo::get("x86-64");
  if (!host)
    return host.takeError();
  llvm::LLVMContext context;
  llvm::Module module("artifact", context);
  return emitObject(module, *host);
}

/// Fails if the folder of `file` has less than `bytes` bytes free for the
/// linker's output. On a full disk the linker would end the process.
static llvm::Error checkSpace(llvm::StringRef file, uint64_t bytes) {
  auto space = llvm::sys::fs::disk_space(llvm::sys::path::parent_path(file));
  if (!space || space->available >= bytes)
    return llvm::Error::success();
  std::error_code full = std::make_error_code(std::errc::no_space_on_device);
  return llvm::createStringError(full, "cannot write '%s': %s",
                                 file.str().c_str(), full.message().c_str());
}

/// Links the kernels to a shared object.
static llvm::Expected<std::string> linkKernels(llvm::StringRef object) {
  TemporaryFile kernels, output;
  if (llvm::Error error = kernels.create("o", object))
    return error;
  if (llvm::Error error = output.create("mpc", ""))
    return error;
  // The linked file needs as much space as the object, and some for tables.
  // Check with a margin of twice the object's size.
  constexpr uint64_t kHeaderBytes = 64 << 10;
  if (llvm::Error error =
          checkSpace(output.getPath(), 2 * object.size() + kHeaderBytes))
    return error;
  if (llvm::Error error = runLinker({kernels.c_str()}, output))
    return error;
  return output.read();
}

llvm::Error mpc::writeArtifact(const ArtifactParts &parts,
                               const TargetInfo &target,
                               llvm::raw_ostream &out) {
  // Only code for a CPU is linked. Code for a GPU becomes a section, beside a
  // linked file without kernels.
  std::string object = parts.kernels.str();
  if (target.isGPU()) {
    auto empty = createEmptyObject();
    if (!empty)
      return empty.takeError();
    object = std::move(*empty);
  } else if (llvm::Error error = checkSymbols(object)) {
    return error;
  }
  auto linked = linkKernels(object);
  if (!linked)
    return linked.takeError();

  SectionPiece plan = {parts.plan}, cubin = {parts.cubin},
               nodes = {parts.nodes};
  // Readers of PTX expect a terminating zero.
  SectionPiece ptx[] = {{parts.kernels}, {llvm::StringRef("", 1)}};
  llvm::SmallVector<AppendedSection> sections = {
      {format::kPlanSection, plan, format::kDataAlignment},
      {format::kDataSection, parts.data, format::kDataAlignment}};
  if (target.isGPU())
    sections.push_back({format::kPTXSection, ptx, format::kDataAlignment});
  if (!parts.nodes.empty())
    sections.push_back({format::kNodesSection, nodes, format::kDataAlignment});
  if (!parts.cubin.empty())
    sections.push_back({format::kCubinSection, cubin, format::kDataAlignment});
  return appendSections(*linked, sections, format::kDigestSection, out);
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

// Writes and closes the file `fd`. Reads and clears the stream's error: the
// destructor of the stream ends the process on an error that nobody has read.
static llvm::Error writeAndClose(int fd, ByteWriter write) {
  llvm::raw_fd_ostream out(fd, /*shouldClose=*/true);
  llvm::Error failure = write(out);
  out.close();
  std::error_code error = out.error();
  out.clear_error();
  if (failure)
    return failure;
  return llvm::errorCodeToError(error);
}

// True for a pipe or a device, which a renamed file cannot replace.
static bool isSpecial(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  return !llvm::sys::fs::status(path, status) &&
         llvm::sys::fs::exists(status) &&
         !llvm::sys::fs::is_regular_file(status) &&
         !llvm::sys::fs::is_directory(status);
}

llvm::Error mpc::writeFileAtomically(llvm::StringRef path, ByteWriter write,
                                     llvm::sys::fs::perms rights) {
  int fd = -1;
  if (isSpecial(path)) {
    if (std::error_code error = llvm::sys::fs::openFileForWrite(
            path, fd, llvm::sys::fs::CD_OpenExisting))
      return llvm::errorCodeToError(error);
    return writeAndClose(fd, write);
  }
  llvm::SmallString<128> temporary;
  if (std::error_code error =
          llvm::sys::fs::createUniqueFile(path + ".tmp-%%%%%%%%", fd, temporary,
                                          llvm::sys::fs::OF_None, rights))
    return llvm::errorCodeToError(error);
  llvm::Error error = writeAndClose(fd, write);
  if (!error)
    error = llvm::errorCodeToError(llvm::sys::fs::rename(temporary, path));
  if (error)
    llvm::sys::fs::remove(temporary);
  return error;
}

llvm::Expected<int> mpc::writeUnnamedFile(ByteWriter write) {
  // The file has no name from the start, so it cannot be left behind.
  std::string folder;
  llvm::Expected<int> fd = openUnnamedFile(folder);
  if (!fd)
    return fd;
  llvm::raw_fd_ostream out(*fd, /*shouldClose=*/false);
  llvm::Error failure = write(out);
  out.flush();
  std::error_code error = out.error();
  out.clear_error();
  if (!failure && !error)
    return fd;
  close(*fd);
  if (failure)
    return failure;
  return llvm::createStringError(error,
                                 "cannot write a temporary file in '%s': %s",
                                 folder.c_str(), error.message().c_str());
}
