// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/TrustedFile.h"

#include "frontends/ONNX/Model/Error.h"

#include "llvm/Support/Path.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tools;
using onnx_frontend::ErrorKind;

// Returns the reason why another user may have written the file, and what to do
// about it; empty if that is impossible. The permissions of the folder do not
// matter: a user who replaces the file owns the new file, which is then not
// trusted.
static std::string findDoubt(const std::string &path,
                             const struct stat &status) {
  if (llvm::sys::path::extension(path) != ".mpc")
    return "expected a name that ends in .mpc; rename it";
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return "user " + std::to_string(status.st_uid) +
           " owns it, neither you nor root; copy it";
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return "others besides its owner may write to it; run chmod go-w on it";
  return "";
}

llvm::Expected<int> mpc::tools::openArtifact(const std::string &path,
                                             bool isTrusted) {
  // Check the opened file, not the path, which might lead to another file
  // later.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) {
    const std::string reason = std::strerror(errno);
    if (file >= 0)
      close(file);
    return onnx_frontend::makeError(ErrorKind::IO,
                                    "cannot open '" + path + "': " + reason);
  }
  const std::string doubt = isTrusted ? "" : findDoubt(path, status);
  if (doubt.empty())
    return file;
  close(file);
  return onnx_frontend::makeError(
      ErrorKind::Usage,
      path + ": an artifact is a program that runs with your permissions: " +
          doubt + ", or give --trust if you know where it is from");
}
