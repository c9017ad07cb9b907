// Checks that a command can write its outputs, and that no output overwrites an
// input or another output.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_OVERWRITING_H
#define MPC_TOOLS_MPC_MODEL_OVERWRITING_H

#include "compiler/Support/ExitCode.h"
#include "tools/mpc/flags/Options.h"

namespace mpc::onnx_frontend {
class Model;
} // namespace mpc::onnx_frontend

namespace mpc::tools {

/// Returns the files that mpc reads according to `options`: model, weights, and
/// files of other flags.
std::vector<std::string> inputFiles(const CompileOptions &options);

/// Prints an error and returns Usage if the file `output`, the value of `flag`,
/// is one of `inputs`, even by another path. An input may have the form
/// NAME=FILE or NAME=@FILE.
ExitCode refuseOverwriting(llvm::StringRef flag, const std::string &output,
                           const std::vector<std::string> &inputs);

/// Prints an error and returns Usage if `output`, the value of `flag`, would
/// replace a file of external data of `model`, which then could not be read any
/// more. A model may replace itself.
ExitCode refuseReplacingData(llvm::StringRef flag, const std::string &output,
                             onnx_frontend::Model &model);

/// Prints an error if `file`, the value of `flag`, cannot be written, because
/// its folder is missing, not writable or a checkpoint. Call before the work
/// begins. Accepts "-" and an empty name. If the command `replaces` the file at
/// once when it is complete, also refuses devices and pipes.
ExitCode checkDestination(llvm::StringRef flag, const std::string &file,
                          bool replaces = true);

/// The value of a flag that names an output: a file, a folder, or - for stdout.
struct WrittenPlace {
  llvm::StringRef flag;
  std::string path; ///< empty if the flag is absent
  bool isFolder = false;
  llvm::StringRef note = {}; ///< what the flag writes there
};

/// Prints an error and returns Usage if two outputs have the same path: the
/// second write would replace the first file, or fail. Two folders may be the
/// same.
ExitCode refuseSharing(llvm::ArrayRef<WrittenPlace> places);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_OVERWRITING_H
