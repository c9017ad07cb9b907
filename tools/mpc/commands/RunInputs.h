// Holds the inputs of mpc run, and derives compile options from them, such as
// shapes.
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

/// The arrays that --input and --data give to a function.
struct RunInputs {
  const runtime::train::Array *find(llvm::StringRef name) const;
  /// Reads the values of the array `name` into memory.
  runtime::Status unpack(llvm::StringRef name);

  std::vector<runtime::train::Array> arrays;
  /// Names of the arrays from --data. Unlike arrays of --input, they need not
  /// all be inputs of the model.
  llvm::StringSet<> ofData;
  /// True if arrays are prepared like a data set (normalized, transposed,
  /// decoded). False if they are copied to inputs unchanged.
  bool arePrepared = false;
  /// The prepared samples; nullopt until the check that they fit the model.
  std::optional<runtime::train::Dataset> samples;
  /// The file name of each sample if the samples are images; else empty.
  std::vector<std::string> files;
};

/// Returns status InvalidInput with the message that no array is given for the
/// input `name`.
runtime::Status missingInput(const std::string &name);

/// Before machine code is generated, checks arrays that need no preparation
/// against the inputs of `function`: names, values, and, if the function runs
/// once, shapes. `known` lists all inputs that the model declares. Prints
/// errors.
ExitCode checkInputs(RunInputs &inputs, const std::string &function,
                     const runtime::train::FunctionPorts &ports,
                     const std::vector<std::string> &known);

/// Sets the compile options that follow from the inputs: all shapes, and the
/// values of inputs that shapes depend on. Stores the names of the inputs that
/// the model declares in `known`.
ExitCode bindInputs(RunInputs &inputs, const DataFlags &flags,
                    CompileOptions &options, Driver &driver,
                    std::vector<std::string> &known);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_RUNINPUTS_H
