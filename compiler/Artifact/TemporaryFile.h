// A file for tools that take no other input, gone when its owner is. What is in
// it will be code, or becomes what is private in a model: nobody else may read
// or write it, whatever the umask is.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_TEMPORARYFILE_H
#define MPC_COMPILER_ARTIFACT_TEMPORARYFILE_H

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mpc {

class TemporaryFile {
public:
  TemporaryFile() = default;
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;
  ~TemporaryFile();

  /// Makes it in a folder of its own, in which tools may put others.
  llvm::Error create(llvm::StringRef suffix, llvm::StringRef bytes);

  /// What it holds now.
  llvm::Expected<std::string> read();

  llvm::StringRef getPath() const { return path; }
  const char *c_str() { return path.c_str(); }

private:
  std::string folder;
  llvm::SmallString<128> path;
};

/// Opens a temporary file that has lost its name: it is gone when the
/// descriptor is closed. `folder` is where it lies, for messages.
llvm::Expected<int> openUnnamedFile(std::string &folder);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_TEMPORARYFILE_H
