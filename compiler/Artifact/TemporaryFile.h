// A file for tools that take no other input, gone when its owner is.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_TEMPORARYFILE_H
#define MPC_COMPILER_ARTIFACT_TEMPORARYFILE_H

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"

namespace mpc {

class TemporaryFile {
public:
  TemporaryFile() = default;
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;
  ~TemporaryFile();

  llvm::Error create(llvm::StringRef suffix, llvm::StringRef bytes);

  /// What it holds now.
  llvm::Expected<std::string> read();

  llvm::StringRef getPath() const { return path; }
  const char *c_str() { return path.c_str(); }

private:
  llvm::SmallString<128> path;
};

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_TEMPORARYFILE_H
