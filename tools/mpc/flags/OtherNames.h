// What PyTorch, Lightning, Keras and their kin call the flags and values that
// mpc has under other names: what somebody types who knows those.
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

/// The command's flag, without dashes, that is meant by a word that is none of
/// its flags; empty where there is none.
std::string findMeantFlag(const CLI::App &command, llvm::StringRef word);

/// The command that is meant by a word that is none, such as Keras's `fit`;
/// empty where none is.
std::string findMeantCommand(llvm::StringRef word);

/// What to say of a flag that the command does not have, behind the sentence
/// that says so: "; did you mean --lr?", or why there is none. Empty where
/// nothing is near.
std::string adviseFlag(const CLI::App &program, const CLI::App &command,
                       llvm::StringRef flag);

/// Which of `values` of a flag is meant by a word that is none of them; empty
/// where none is.
std::string findMeantValue(llvm::StringRef flag, llvm::StringRef word,
                           llvm::ArrayRef<std::string> values);

/// Throws CLI::ValidationError where a value that is not chosen from a list has
/// its name from elsewhere, such as `--loss CrossEntropyLoss`.
void checkOtherNames(const CLI::App &command);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_OTHERNAMES_H
