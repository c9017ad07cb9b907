// Recognizes the names that PyTorch, Lightning, Keras and similar tools have
// for mpc's flags and values.
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

/// Returns the command's flag, without dashes, that an unknown word means;
/// empty if no flag is known.
std::string findMeantFlag(const CLI::App &command, llvm::StringRef word);

/// Returns the command that an unknown word means, like Keras's `fit`; empty if
/// no command is known.
std::string findMeantCommand(llvm::StringRef word);

/// Returns advice to append to the message about an unknown flag: "; did you
/// mean --lr?", or why there is no such flag. Empty if nothing is near.
std::string adviseFlag(const CLI::App &program, const CLI::App &command,
                       llvm::StringRef flag);

/// Returns the element of `values` that an unknown value of a flag means; empty
/// if no element is known.
std::string findMeantValue(llvm::StringRef flag, llvm::StringRef word,
                           llvm::ArrayRef<std::string> values);

/// Throws CLI::ValidationError if a value outside any list has the name of
/// another tool, like `--best val_acc`.
void checkOtherNames(const CLI::App &command);

/// Like checkOtherNames, for a value of --loss, like CrossEntropyLoss.
void checkLossName(llvm::StringRef text);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_OTHERNAMES_H
