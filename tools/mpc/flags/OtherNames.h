// Recognizes names of flags and values in PyTorch, Lightning, Keras and similar
// tools, to suggest mpc's names in error messages.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_OTHERNAMES_H
#define MPC_TOOLS_MPC_FLAGS_OTHERNAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

/// Returns the flag of `command`, without dashes, that an unknown word means in
/// other tools; empty if there is none.
std::string findMeantFlag(const CLI::App &command, llvm::StringRef word);

/// Returns the command of mpc that an unknown word means in other tools, such
/// as Keras's `fit`; empty if there is none.
std::string findMeantCommand(llvm::StringRef word);

/// Returns the end of the message about an unknown flag: "; did you mean
/// --lr?", or the reason why there is no such flag. Empty if nothing is
/// similar. `value` is the user's value in FLAG=VALUE.
std::string adviseFlag(const CLI::App &program, const CLI::App &command,
                       llvm::StringRef flag, llvm::StringRef value = "");

/// Returns the element of `values` that an unknown value of `flag` means; empty
/// if there is none.
std::string findMeantValue(llvm::StringRef flag, llvm::StringRef word,
                           llvm::ArrayRef<std::string> values);

/// Throws CLI::ValidationError if a flag whose values CLI11 cannot list has a
/// value from another tool, like `--best val_acc`.
void checkOtherNames(const CLI::App &command);

/// Throws CLI::ValidationError if `text`, a value of --loss, has the name of a
/// loss in another tool, like CrossEntropyLoss.
void checkLossName(llvm::StringRef text);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_OTHERNAMES_H
