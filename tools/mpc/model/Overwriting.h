// Checks that a command can write its outputs, and that no output is an input.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_OVERWRITING_H
#define MPC_TOOLS_MPC_MODEL_OVERWRITING_H

#include "compiler/Support/ExitCode.h"
#include "tools/mpc/flags/Options.h"

namespace mpc::tools {

/// Lists the files that mpc reads because of `options`.
std::vector<std::string> inputFiles(const CompileOptions &options);

/// Reports a Usage error if `output`, given as `flag`, is one of `inputs` under
/// any path. An input may be NAME=FILE or NAME=@FILE.
ExitCode refuseOverwriting(llvm::StringRef flag, const std::string &output,
                           const std::vector<std::string> &inputs);

/// Reports early if `file`, given as `flag`, cannot be written: the folder is
/// missing or not writable. Accepts "-" and an empty name.
ExitCode checkDestination(llvm::StringRef flag, const std::string &file);

/// The argument of a flag that writes: a file, a folder, or - for standard
/// output.
struct WrittenPlace {
  llvm::StringRef flag;
  std::string path; ///< empty if the flag is not given
  bool isFolder = false;
  llvm::StringRef note = {}; ///< for the message: what the flag writes there
};

/// Reports a Usage error if two places are the same, unless both are folders.
/// The file that is written last would replace the other, or fail.
ExitCode refuseSharing(llvm::ArrayRef<WrittenPlace> places);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_OVERWRITING_H
