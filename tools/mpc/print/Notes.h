// What mpc remarks on stderr beside results and errors: each text once, and
// only as much as --quiet leaves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_NOTES_H
#define MPC_TOOLS_MPC_PRINT_NOTES_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

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

/// Standard error while a run is under way: a reader that has stopped, such as
/// a terminal after Ctrl-S, holds nothing up. What cannot be written is kept,
/// in order and up to a bound, until it can. To be given whole lines.
class RunMessages : public llvm::raw_ostream {
public:
  RunMessages();
  /// Waits for the reader, but not for long.
  ~RunMessages() override;

  /// True if all has been written: else progress can be left out.
  bool isRead();

private:
  void write_impl(const char *text, size_t size) override;
  uint64_t current_pos() const override { return 0; }
  void writePending();

  int file;
  bool isOwned = false;
  std::string pending;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_NOTES_H
