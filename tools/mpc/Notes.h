// What mpc remarks on stderr beside results and errors: each text once, and
// only as much as --quiet leaves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_NOTES_H
#define MPC_TOOLS_MPC_NOTES_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

/// How much a command says of what it does. Warnings and errors are always
/// said.
enum class Verbosity { Quiet, Normal, Verbose };

/// Holds for all notes from then on; Normal until it is called.
void setVerbosity(Verbosity verbosity);

/// Adds -q, --quiet: results, warnings and errors alone.
void addQuietFlag(CLI::App &command);
/// Whether --quiet was given, in whichever way.
bool isQuiet();

/// Prints "note: MESSAGE" as one line, unless quiet or it has been said.
void note(const llvm::Twine &message, llvm::raw_ostream &os = llvm::errs());
/// Prints "warning: MESSAGE" as one line, unless it has been said.
void warn(const llvm::Twine &message, llvm::raw_ostream &os = llvm::errs());

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_NOTES_H
