// What mpc run is given, and what a model is compiled for because of it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_RUNINPUTS_H
#define MPC_TOOLS_MPC_COMMANDS_RUNINPUTS_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/trainee/Trainee.h"
#include "tools/mpc/flags/DataFlags.h"
#include "tools/mpc/flags/Options.h"
#include "tools/mpc/model/Driver.h"

#include "llvm/ADT/StringSet.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc::tools {

/// What is run on.
struct RunInputs {
  const runtime::train::Array *find(llvm::StringRef name) const;
  /// Brings the values of that array into memory.
  runtime::Status unpack(llvm::StringRef name);

  std::vector<runtime::train::Array> arrays;
  /// Names of those from files of data, which may hold more than the model
  /// takes.
  llvm::StringSet<> ofData;
  /// Whether samples are found and prepared as those of a data set: inputs do
  /// not take the arrays as they are.
  bool arePrepared = false;
  /// Those samples, once they are found and fit.
  std::optional<runtime::train::Dataset> samples;
  /// Of images, the file of each sample.
  std::vector<std::string> files;
};

/// InvalidInput: no array is for that input.
runtime::Status missingInput(const std::string &name);

/// Whether the inputs, which are not prepared, are those that `function` takes:
/// names, of which `known` are declared by the model, shapes of a function that
/// runs once, and values. For finding out before the model is compiled; what is
/// wrong is reported.
ExitCode checkInputs(RunInputs &inputs, const std::string &function,
                     const runtime::train::FunctionPorts &ports,
                     const std::vector<std::string> &known);

/// What a model may need to be compiled that its inputs tell: the shapes of
/// all, and the values of some. `known` receives the names the model declares.
ExitCode bindInputs(RunInputs &inputs, const DataFlags &flags,
                    CompileOptions &options, Driver &driver,
                    std::vector<std::string> &known);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_RUNINPUTS_H
