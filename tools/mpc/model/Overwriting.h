// What a command writes can be written, and is not what it reads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_OVERWRITING_H
#define MPC_TOOLS_MPC_MODEL_OVERWRITING_H

#include "compiler/Support/ExitCode.h"
#include "tools/mpc/flags/Options.h"

namespace mpc::tools {

/// The files that `options` has mpc read.
std::vector<std::string> inputFiles(const CompileOptions &options);

/// Reports a usage error where `output`, given as `flag`, is one of `inputs`,
/// by whatever path. An input may be NAME=FILE or NAME=@FILE.
ExitCode refuseOverwriting(llvm::StringRef flag, const std::string &output,
                           const std::vector<std::string> &inputs);

/// Reports what can be known of writing before there is something to write: a
/// folder that is not there, or where nothing can be written. `flag` names the
/// file; "-" and none are fine.
ExitCode checkDestination(llvm::StringRef flag, const std::string &file);

/// What a flag names to be written: a file, a folder, or - for standard output.
struct WrittenPlace {
  llvm::StringRef flag;
  std::string path; ///< empty where the flag is not given
  bool isFolder = false;
  llvm::StringRef note = {}; ///< for the message: what it writes there
};

/// Usage where two of them are one place, unless both are folders: what is
/// written last would replace the other, or fail.
ExitCode refuseSharing(llvm::ArrayRef<WrittenPlace> places);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_OVERWRITING_H
