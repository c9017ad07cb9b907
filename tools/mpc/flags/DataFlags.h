// Flags that name files of samples and prepare samples for the model's inputs.
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
  bool allowsNaN = false;
  std::string augment; ///< for training only
};

/// Adds --data and the flags of addPreparationFlags.
void addDataFlags(CLI::App &app, DataFlags &flags);
/// Adds --csv-columns, --normalize, --input-layout and --allow-nan.
void addPreparationFlags(CLI::App &app, DataFlags &flags);
/// Adds --augment.
void addAugmentFlag(CLI::App &app, DataFlags &flags);

/// Parses how the flags prepare samples. A malformed flag is a Usage error.
runtime::StatusOr<runtime::train::Preparation>
preparationOf(const DataFlags &flags, uint64_t seed);

/// Returns how samples become the inputs of `info`. `targetArray` names the
/// array of the labels; empty if no flag does. A malformed flag is a Usage
/// error.
runtime::StatusOr<runtime::train::DatasetOptions>
datasetOptionsOf(const DataFlags &flags,
                 const runtime::train::TraineeInfo &info,
                 std::string targetArray, uint64_t seed);

/// Checks the files of --data and `more`: all exist, and the flags apply. Call
/// before compiling the model, to fail early.
runtime::Status checkDataFlags(const DataFlags &flags,
                               const std::vector<std::string> &more = {});

/// Reads the arrays of `files`, which --data or a similar flag names.
runtime::StatusOr<std::vector<runtime::train::Array>>
readSamples(const std::vector<std::string> &files, const DataFlags &flags,
            const std::string &targetArray);

/// Returns the part of a preparation that applies to both training and
/// evaluation, like "--normalize 0:1"; empty if there is none.
std::string describePreparation(llvm::StringRef text);

/// Warns if samples are prepared differently from the samples that `what` was
/// trained on. `trained` and `now` are results of `describePreparation`; `done`
/// is "evaluated" or "run".
void comparePreparation(const std::string &what, llvm::StringRef trained,
                        llvm::StringRef now, llvm::StringRef done);

/// Prints the notes of a dataset.
void printDataNotes(const runtime::train::Dataset &data);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_DATAFLAGS_H
