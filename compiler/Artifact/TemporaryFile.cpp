// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/TemporaryFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace mpc;

TemporaryFile::~TemporaryFile() {
  if (!path.empty())
    llvm::sys::fs::remove(path);
}

llvm::Error TemporaryFile::create(llvm::StringRef suffix,
                                  llvm::StringRef bytes) {
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
    return llvm::createStringError(code, "cannot write '%s': %s", path.c_str(),
                                   code.message().c_str());
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> TemporaryFile::read() {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError(buffer.getError(), "cannot read '%s'",
                                   path.c_str());
  return (*buffer)->getBuffer().str();
}
