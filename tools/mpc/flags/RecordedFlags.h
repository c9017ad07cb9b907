// Flags that a trained model records, and that later commands take from the
// model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_RECORDEDFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_RECORDEDFLAGS_H

#include "tools/mpc/flags/Options.h"
#include "tools/mpc/model/ModelRecord.h"

namespace mpc::tools {

class Configuration;

/// Adds --no-metadata to a command that takes flags from the model.
void addMetadataFlag(CLI::App &command);
/// True if --no-metadata is given.
bool ignoresMetadata(const CLI::App &command);

/// Describes the given flags of the loss and of the precision that a trained
/// model records. Files that flags name are recorded by their contents. Returns
/// Done, or another code after printing an error, if a file can no longer be
/// read.
ExitCode recordOptions(const CompileOptions &options, ModelRecord &record);

/// Like recordOptions, and adds the metrics of `command`, which is `mpc train`.
ExitCode recordFlags(const CLI::App &command, const CompileOptions &options,
                     ModelRecord &record);

/// Sets flags of `mpc eval`, `mpc run` and `mpc explain` that the user does not
/// give to the values that the model records, or with --checkpoint, the
/// checkpoint. Prints a note of all flags set. If the user gives a loss, takes
/// no flag of the loss and no metric; if another precision, no policy.
void takeRecordedFlags(CLI::App &command, Configuration &configuration);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_RECORDEDFLAGS_H
