// Flags that say where samples are and what is done to them on their way to the
// model's inputs.
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
  std::string augment; ///< of training alone
};

/// Adds --data, and what addPreparationFlags does.
void addDataFlags(CLI::App &app, DataFlags &flags);
/// Adds --csv-columns, --normalize, --input-layout and --allow-nan.
void addPreparationFlags(CLI::App &app, DataFlags &flags);
/// Adds --augment.
void addAugmentFlag(CLI::App &app, DataFlags &flags);

/// What the flags say is done to samples; Usage where they cannot be
/// understood.
runtime::StatusOr<runtime::train::Preparation>
preparationOf(const DataFlags &flags, uint64_t seed);

/// What becomes of samples on their way to the inputs of `info`; `targetArray`
/// is the label's, where one is named. Usage where the flags cannot be
/// understood.
runtime::StatusOr<runtime::train::DatasetOptions>
datasetOptionsOf(const DataFlags &flags,
                 const runtime::train::TraineeInfo &info,
                 std::string targetArray, uint64_t seed);

/// Whether the files, those of `more` too, are there, and the flags have an
/// effect on them. For finding out before the model is compiled.
runtime::Status checkDataFlags(const DataFlags &flags,
                               const std::vector<std::string> &more = {});

/// The arrays of `files`, which are --data or another flag of that kind.
runtime::StatusOr<std::vector<runtime::train::Array>>
readSamples(const std::vector<std::string> &files, const DataFlags &flags,
            const std::string &targetArray);

/// The flags of a preparation that hold for training and evaluation alike, such
/// as "--normalize 0:1"; empty without any.
std::string describePreparation(llvm::StringRef text);

/// Warns where samples are prepared otherwise than those that `what` was
/// trained on, both as `describePreparation` has it; `done` is "evaluated" or
/// "run".
void comparePreparation(const std::string &what, llvm::StringRef trained,
                        llvm::StringRef now, llvm::StringRef done);

/// Says what the user should know of the data.
void printDataNotes(const runtime::train::Dataset &data);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_DATAFLAGS_H
