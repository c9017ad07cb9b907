// Holds the inputs of mpc run, and derives from them what a model is compiled
// for.
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

/// The arrays that a function runs on.
struct RunInputs {
  const runtime::train::Array *find(llvm::StringRef name) const;
  /// Reads the values of the array `name` into memory.
  runtime::Status unpack(llvm::StringRef name);

  std::vector<runtime::train::Array> arrays;
  /// Names of the arrays from --data, which may hold more than the model takes.
  llvm::StringSet<> ofData;
  /// True if arrays are prepared like a data set; false if inputs take the
  /// arrays as they are.
  bool arePrepared = false;
  /// The prepared samples, once they are known to fit.
  std::optional<runtime::train::Dataset> samples;
  /// The file of each sample, if the samples are images.
  std::vector<std::string> files;
};

/// Returns InvalidInput: there is no array for the input `name`.
runtime::Status missingInput(const std::string &name);

/// Checks before compiling if unprepared inputs fit `function`: names, values,
/// and shapes if the function runs once. `known` lists the names that the model
/// declares. Reports errors.
ExitCode checkInputs(RunInputs &inputs, const std::string &function,
                     const runtime::train::FunctionPorts &ports,
                     const std::vector<std::string> &known);

/// Derives from the inputs what compiling may need: all shapes, and the values
/// of some inputs. Stores the names that the model declares in `known`.
ExitCode bindInputs(RunInputs &inputs, const DataFlags &flags,
                    CompileOptions &options, Driver &driver,
                    std::vector<std::string> &known);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_RUNINPUTS_H
