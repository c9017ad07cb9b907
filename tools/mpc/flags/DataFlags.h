// Flags that name files of samples, and flags that say how samples are prepared
// for the model's inputs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_DATAFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_DATAFLAGS_H

#include "runtime/train/data/Dataset.h"

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

struct DataFlags {
  std::vector<std::string> data;
  std::vector<std::string> csvColumns;
  std::vector<std::string> normalize;
  std::vector<std::string> inputLayout;
  bool allowsNaN = false, allowsEmpty = false;
  std::string augment; ///< --augment, of mpc train only
};

/// Adds --data and the flags of addPreparationFlags.
void addDataFlags(CLI::App &app, DataFlags &flags);
/// Adds --csv-columns, --normalize, --input-layout, --allow-nan and
/// --allow-empty.
void addPreparationFlags(CLI::App &app, DataFlags &flags);
/// Adds --augment.
void addAugmentFlag(CLI::App &app, DataFlags &flags);

/// Parses the flags that say how to prepare samples. A malformed flag gives
/// status Usage.
runtime::StatusOr<runtime::train::Preparation>
preparationOf(const DataFlags &flags, uint64_t seed);

/// Returns the options for making a data set for the inputs of `info`.
/// `targetArray` names the array with the labels; empty if no flag names one. A
/// malformed flag gives status Usage.
runtime::StatusOr<runtime::train::DatasetOptions>
datasetOptionsOf(const DataFlags &flags,
                 const runtime::train::TraineeInfo &info,
                 std::string targetArray, uint64_t seed);

/// Checks that the files of --data and `more` exist, and that the other flags
/// apply to these files. Call before compiling the model, so that mistakes show
/// early.
runtime::Status checkDataFlags(const DataFlags &flags,
                               const std::vector<std::string> &more = {});

/// Reads the arrays in `files`, the value of --data or of a similar flag.
runtime::StatusOr<std::vector<runtime::train::Array>>
readSamples(const std::vector<std::string> &files, const DataFlags &flags,
            const std::string &targetArray);

/// Calls Dataset::create. Prints which file is read if that takes long.
runtime::StatusOr<runtime::train::Dataset>
createDataset(std::vector<runtime::train::Array> arrays,
              const runtime::train::FunctionPorts &ports,
              runtime::train::DatasetOptions options);

/// Shortens the text of a preparation to what applies in both training and
/// evaluation, like "--normalize 0:1"; empty if nothing does.
std::string describePreparation(llvm::StringRef text);

/// Warns if samples are now prepared differently from the training samples of
/// `what`, a model or checkpoint. `trained` and `now` are results of
/// describePreparation. The message says that `what` is `done`, which is
/// "evaluated", "run" or "now trained".
void comparePreparation(const std::string &what, llvm::StringRef trained,
                        llvm::StringRef now, llvm::StringRef done);

/// Prints what the data set has to tell the user, as notes.
void printDataNotes(const runtime::train::Dataset &data);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_DATAFLAGS_H
