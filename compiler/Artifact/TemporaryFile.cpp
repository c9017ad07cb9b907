// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/TemporaryFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

using namespace mpc;

namespace fs = llvm::sys::fs;

/// Returns the pattern for mkdtemp and mkostemp: `mpc-XXXXXX` in the folder for
/// temporary files. Both functions create files that only the user can access.
static std::string getPattern() {
  llvm::SmallString<128> path;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, path);
  llvm::sys::path::append(path, "mpc-XXXXXX");
  return path.str().str();
}

static llvm::Error makeError(std::error_code code) {
  const std::string pattern = getPattern();
  return llvm::createStringError(
      code,
      "cannot create a temporary file in '%s': %s; TMPDIR chooses the "
      "folder",
      llvm::sys::path::parent_path(pattern).str().c_str(),
      code.message().c_str());
}

TemporaryFile::~TemporaryFile() {
  if (!folder.empty())
    fs::remove_directories(folder);
}

llvm::Error TemporaryFile::create(llvm::StringRef suffix,
                                  llvm::StringRef bytes) {
  std::string pattern = getPattern();
  if (!mkdtemp(pattern.data()))
    return makeError(std::error_code(errno, std::generic_category()));
  folder = std::move(pattern);
  path = folder;
  llvm::sys::path::append(path, "mpc." + suffix);
  int descriptor;
  if (std::error_code code =
          fs::openFileForWrite(path, descriptor, fs::CD_CreateNew, fs::OF_None,
                               fs::owner_read | fs::owner_write))
    return makeError(code);
  llvm::raw_fd_ostream out(descriptor, /*shouldClose=*/true);
  out << bytes;
  out.close();
  if (std::error_code code = out.error()) {
    out.clear_error();
    return llvm::createStringError(code, "cannot write '%s': %s", path.c_str(),
                                   code.message().c_str());
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> TemporaryFile::read() {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError(buffer.getError(), "cannot read '%s': %s",
                                   path.c_str(),
                                   buffer.getError().message().c_str());
  return (*buffer)->getBuffer().str();
}

llvm::Expected<int> mpc::openUnnamedFile(std::string &folder) {
  std::string path = getPattern();
  folder = llvm::sys::path::parent_path(path).str();
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0)
    return makeError(std::error_code(errno, std::generic_category()));
  unlink(path.c_str());
  return descriptor;
}
