// A temporary file for tools such as lld and ptxas; the destructor deletes the
// file. The file may hold code, or private data of a model, so no other user
// may read or write it, whatever the umask.
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

  /// Creates the file in a new folder, where tools may create further files.
  llvm::Error create(llvm::StringRef suffix, llvm::StringRef bytes);

  /// Returns the present contents.
  llvm::Expected<std::string> read();

  llvm::StringRef getPath() const { return path; }
  const char *c_str() { return path.c_str(); }

private:
  std::string folder;
  llvm::SmallString<128> path;
};

/// Opens a temporary file without a name; closing the descriptor deletes it.
/// Sets `folder` to the containing folder, for messages.
llvm::Expected<int> openUnnamedFile(std::string &folder);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_TEMPORARYFILE_H
